package control_test

import (
	"strings"
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// A member makes an image from a VM's disk. The image belongs to the VM's project, and other projects cannot see it.
// Its file is in the disk's pool.
func TestMemberCreatesImageFromVMDisk(t *testing.T) {
	s := newLibraryFixture(t)
	vm, err := s.createFromImage(s.member, s.red, "web", fleet.Disk{PoolID: s.local, SizeBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	disk := vm.Spec.Disks[0].Ref()
	ask := func(a fleet.Actor, disk fleet.Volref, name string) func() error {
		return func() error {
			_, _, err := s.ImageOfDisk(t.Context(), a, vm.ID, disk, control.DiskImage{Name: name})
			return err
		}
	}
	s.wantRefused("before it is there", fleet.Conflict, "not on its host yet", ask(s.member, disk, "Web"))
	w := s.claimedWork(s.h1, fleet.VMApply)
	s.finishJobWith(s.h1, w[0], wire.Finish{Outcome: wire.Done, Generation: 1, VM: &fleet.VMStatus{Power: fleet.Running}})
	s.wantRefused("of a running VM", fleet.Conflict, "Shut the VM down first", ask(s.member, disk, "Web"))
	s.execSQL(`UPDATE vms SET status = '{"power":"stopped"}' WHERE id = $1`, vm.ID)
	s.wantRefused("of another project's VM", fleet.NotFound, "no such", ask(s.blueMember, disk, "Web"))
	s.wantRefused("a viewer", fleet.Forbidden, "do not have permission", ask(s.viewer, disk, "Web"))
	s.wantRefused("an unknown disk", fleet.Conflict, "no disk", ask(s.member, fleet.Volref{PoolID: s.nfs, Volume: "other.qcow2"}, "Web"))
	s.wantRefused("without a name", fleet.Invalid, "Enter a name: one line", ask(s.member, disk, ""))
	id, task, err := s.ImageOfDisk(t.Context(), s.member, vm.ID, disk, control.DiskImage{Name: "Web", OS: fleet.OSFacts{Family: "linux"}})
	if err != nil || task.HostName != "" || task.ProjectID != s.red {
		t.Fatalf("%+v %v", task, err)
	}
	s.auditActions("image.create")
	s.wantRefused("its name again", fleet.Conflict, "in the library already", ask(s.member, disk, "Web"))
	s.wantRefused("while it is read", fleet.Conflict, "in use", ask(s.member, disk, "Other"))
	if _, err := s.GetTask(t.Context(), s.member, task.ID); err != nil {
		t.Errorf("its task: %v", err)
	}
	works := s.claimedWork(s.h1, fleet.VolumeCopy)
	ref, _ := works[0].Subject.Volume()
	if o := works[0].Args.Volume; len(works) != 1 || !o.Flatten || o.Source != disk.Volume || o.SourcePool != "" || ref.PoolID != disk.PoolID {
		t.Fatalf("%+v", works)
	}
	s.finishVolume(s.h1, works[0], `{"sha256":"`+someSHA256+`"}`)
	v := s.getImage(s.member, id)
	if x := v.Newest(); !x.Usable || v.ProjectID != s.red || len(v.Grants) != 1 || v.Grants[0].ProjectID != s.red || x.Copies != nil || x.Source != "" {
		t.Errorf("a member gets %+v", v)
	}
	s.wantRefused("seen by another project", fleet.NotFound, "no such image", func() error { _, err := s.GetImage(t.Context(), s.blueMember, id); return err })
	made, err := s.createFromImage(s.member, s.red, "made", fleet.Disk{PoolID: s.local, ImageID: id, Overlay: true})
	if err != nil {
		t.Fatal(err)
	}

	// Members of the project can delete the image with its file, except while it backs a disk. Members of other projects
	// cannot.
	remove := func(a fleet.Actor) func() error {
		return func() error { _, err := s.DeleteImage(t.Context(), a, id, "Web", false); return err }
	}
	s.wantRefused("delete an image that backs a disk", fleet.Conflict, "disks are backed by it", remove(s.member))
	if err := remove(s.member)(); strings.Contains(err.Error(), "made") {
		t.Errorf("a member gets whose disks: %v", err)
	}
	s.wantRefused("delete it, a viewer", fleet.Forbidden, "do not have permission", remove(s.viewer))
	both := s.viewer
	both.Projects = map[fleet.ProjectID]fleet.Role{s.red: fleet.RoleViewer, s.blue: fleet.RoleMember}
	s.wantRefused("delete by a member of another project", fleet.Forbidden, "do not have permission", remove(both))
	s.wantRefused("delete another project's", fleet.NotFound, "no such image", remove(s.blueMember))
	s.execSQL(`DELETE FROM vms WHERE id = $1`, made.ID)
	if tasks, err := s.DeleteImage(t.Context(), s.member, id, "Web", false); err != nil || len(tasks) != 1 {
		t.Fatalf("%v %v", tasks, err)
	}
	s.execSQL(`INSERT INTO images (id, project_id, name, created_by) SELECT 'id-' || n, $1, 'n' || n, 'mia' FROM generate_series(1, $2::integer) n`, s.red, fleet.MaxProjectImages)
	s.wantRefused("more than a project may have", fleet.Conflict, "which is the maximum", ask(s.member, disk, "Last"))
}

// When a member deletes an image of the project, its files are deleted. A file that somebody put in the place of an
// image file stays.
func TestImageDeleteKeepsReplacedFile(t *testing.T) {
	s := newProjectFixture(t)
	s.addVolume(s.local, s.h1, `{"name":"own.qcow2","path":"/v/own.qcow2","format":"qcow2","capacityBytes":2097152}`)
	id, _ := s.publishImage(s.local, []fleet.HostID{s.h1}, "own.qcow2", "qcow2", 1<<20)
	s.execSQL(`UPDATE images SET project_id = $2, name = 'Own' WHERE id = $1`, id, s.red)
	s.execSQL(`UPDATE image_grants SET project_id = $2 WHERE image_id = $1`, id, s.red)
	tasks, err := s.DeleteImage(t.Context(), s.member, id, "Own", true)
	if err != nil || len(tasks) != 0 || s.countRows("jobs WHERE kind = 'volume.delete'") != 0 {
		t.Errorf("%v %v", tasks, err)
	}
	s.wantRefused("a deleted image", fleet.NotFound, "no such image", func() error { _, err := s.GetImage(t.Context(), chief, id); return err })
}
