package control_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"quantix/internal/control"
	"quantix/internal/control/storage"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

func TestImageVisibleOnlyToGrantedProjects(t *testing.T) {
	s := newLibraryFixture(t)
	s.addVolume(s.nfs, s.h1, `{"name":"golden.qcow2","path":"/v/golden.qcow2","format":"qcow2","capacityBytes":1048576}`)
	s.addVolume(s.nfs, s.h2, `{"name":"golden.qcow2","path":"/v/golden.qcow2","format":"qcow2","capacityBytes":1048576}`)
	in := control.NewImage{Name: "Golden", OS: fleet.OSFacts{Family: "linux", Name: "Debian", Version: "12"}, Source: control.ImageSource{PoolID: s.nfs, Volume: "golden.qcow2"}}
	id, task, err := s.AddImage(t.Context(), chief, in)
	if err != nil || task.Kind != fleet.VolumeHash {
		t.Fatalf("%+v %v", task, err)
	}
	s.auditActions("image.create")
	for name, wrong := range map[string]func(*control.NewImage){
		"name":     func(n *control.NewImage) { n.Name = "" },
		"family":   func(n *control.NewImage) { n.OS.Family = "cake" },
		"same":     func(n *control.NewImage) {},
		"its file": func(n *control.NewImage) { n.Name = "Other" },
		"no file":  func(n *control.NewImage) { n.Name, n.Source.Volume = "Other", "nothing.qcow2" },
	} {
		other := in
		wrong(&other)
		if _, _, err := s.AddImage(t.Context(), chief, other); err == nil {
			t.Errorf("%s: taken", name)
		}
	}

	// A host computes the file's checksum and reports it. The portal records it as the version's checksum.
	works := append(s.claimedWork(s.h1, fleet.VolumeHash), s.claimedWork(s.h2, fleet.VolumeHash)...)
	if len(works) != 1 {
		t.Fatalf("%+v", works)
	}
	s.finishVolume(task.HostID, works[0], `{"sha256":"`+someSHA256+`"}`)
	v := s.getImage(chief, id)
	if x := v.Newest(); x == nil || x.SHA256 != someSHA256 || len(x.Copies) != 1 || x.Copies[0].State != fleet.CopyReady || !x.Usable {
		t.Fatalf("%+v", v)
	}

	disk := fleet.Disk{PoolID: s.nfs, ImageID: id}
	names := func(a fleet.Actor) string {
		page, err := s.ListImages(t.Context(), a, fleet.Query{Filter: "name:golden"})
		if err != nil {
			t.Fatal(err)
		}
		return strconv.Itoa(len(page.Items))
	}
	refused := func(what string, a fleet.Actor, project fleet.ProjectID) {
		t.Helper()
		s.wantRefused(what, fleet.Invalid, "no such image", func() error { _, err := s.createFromImage(a, project, "x", disk); return err })
	}
	if names(s.member) != "0" {
		t.Error("a member sees an unpublished image")
	}
	s.wantRefused("get it", fleet.NotFound, "no such image", func() error { _, err := s.GetImage(t.Context(), s.member, id); return err })
	refused("a VM from it", s.member, s.red)
	if err := s.GrantImage(t.Context(), chief, id, s.red); err != nil {
		t.Fatal(err)
	}
	s.auditActions("image.grant")
	if names(s.member) != "1" || names(s.blueMember) != "0" {
		t.Errorf("published to red, the member sees %s and the user of another project %s", names(s.member), names(s.blueMember))
	}
	image := s.getImage(s.member, id)
	if image.CreatedBy != "" || len(image.Versions) != 1 || image.Versions[0].Copies != nil || image.Versions[0].Source != "" || image.Grants[0].By != "" || !image.Versions[0].Usable {
		t.Errorf("a member gets %+v", image)
	}
	vm, err := s.createFromImage(s.member, s.red, "mine", disk)
	if err != nil {
		t.Fatal(err)
	}
	if d := vm.Spec.Disks[0]; d.Image == nil || d.Image.Volume != "golden.qcow2" || d.VersionID != v.Newest().ID {
		t.Errorf("the disk is %+v", d)
	}
	refused("a VM of another project", s.blueMember, s.blue)
	both := s.member
	both.Projects = map[fleet.ProjectID]fleet.Role{s.red: s.member.Projects[s.red], s.blue: s.member.Projects[s.red]}
	refused("of one's other project", both, s.blue)
	in2 := control.CreateVM{ProjectID: s.blue, Name: "by-file", Spec: smallSpec}
	in2.Spec.Disks = []fleet.Disk{{PoolID: s.nfs, Image: &fleet.Volref{PoolID: s.nfs, Volume: "golden.qcow2"}}}
	s.wantRefused("by file name in the actor's other project", fleet.Invalid, "published to the project", func() error { _, err := s.CreateVM(t.Context(), both, in2); return err })
	if made := s.getImage(chief, id).Versions[0].VMs; !slices.Equal(made, []string{"mine"}) {
		t.Errorf("made from it: %v", made)
	}

	// A changed file is offered to no project.
	s.setReportedVolumeFields(storage.VolumeID{PoolID: s.nfs, Volume: "golden.qcow2"}, task.HostID, `{"sha256":null,"altered":true}`)
	if x := s.getImage(chief, id).Newest(); x.Usable || x.Copies[0].State != fleet.CopyChanged || !strings.Contains(x.Copies[0].Why, "written to") {
		t.Errorf("written to since: %+v", x)
	}
	s.wantRefused("a VM from a changed image", fleet.Invalid, "no host", func() error { _, err := s.createFromImage(s.member, s.red, "late", disk); return err })
	s.setReportedVolumeFields(storage.VolumeID{PoolID: s.nfs, Volume: "golden.qcow2"}, task.HostID, `{"sha256":"`+strings.Repeat("f", 64)+`","altered":false}`)
	if x := s.getImage(chief, id).Newest(); x.Usable || x.SHA256 != someSHA256 || !strings.Contains(x.Copies[0].Why, "content differs") {
		t.Errorf("other bytes: %+v", x)
	}
	if err := s.RevokeImage(t.Context(), chief, id, s.red); err != nil {
		t.Fatal(err)
	}
	refused("a VM after it was withdrawn", s.member, s.red)

	// Images of two projects and a global image may have the same name.
	for n, project := range []fleet.ProjectID{s.red, s.blue} {
		file := fmt.Sprintf("own-%d.qcow2", n)
		s.addVolume(s.nfs, s.h1, `{"name":"`+file+`","path":"/v/x","format":"qcow2","capacityBytes":1048576}`)
		if _, _, err := s.AddImage(t.Context(), chief, control.NewImage{Name: "Golden", ProjectID: project, Source: control.ImageSource{PoolID: s.nfs, Volume: file}}); err != nil {
			t.Errorf("the same name in another project: %v", err)
		}
	}
	if names(s.member) != "1" || names(s.blueMember) != "1" {
		t.Error("each sees its own")
	}
}

// Copies without known checksums do not affect each other.
func TestHostReportAffectsOnlyItsOwnImageCopies(t *testing.T) {
	s := newLibraryFixture(t)
	s.execSQL(`INSERT INTO assignments (noun, object_id, host_id, asked, status, observed_generation, reported_at) SELECT 'pool', $1, $2, 'assign', status, 1, now() FROM assignments WHERE pool_id = $1`, s.local, s.h2)
	for _, h := range []fleet.HostID{s.h1, s.h2} {
		s.addVolume(s.local, h, `{"name":"old.qcow2","path":"/v/old.qcow2","format":"qcow2","capacityBytes":1048576}`)
	}
	id, _ := s.publishImage(s.local, []fleet.HostID{s.h1, s.h2}, "old.qcow2", "qcow2", 1<<20)
	says := func(h fleet.HostID, sum string) fleet.ImageVersion {
		t.Helper()
		if _, err := s.VerifyCopy(t.Context(), chief, control.ImageCopy{ImageID: id, PoolID: s.local, Volume: "old.qcow2", HostID: h}); err != nil {
			t.Fatal(err)
		}
		w := s.claimedWork(h, fleet.VolumeHash)
		if len(w) != 1 {
			t.Fatalf("%+v", w)
		}
		s.finishVolume(h, w[0], `{"sha256":"`+sum+`"}`)
		return *s.getImage(chief, id).Newest()
	}
	other := strings.Repeat("e", 64)
	if v := says(s.h1, someSHA256); v.SHA256 != "" || !v.Usable {
		t.Errorf("after one of two reports: %+v", v)
	}
	if v := says(s.h2, other); v.SHA256 != "" {
		t.Errorf("with different reports: %+v", v)
	}
	if v := says(s.h2, someSHA256); v.SHA256 != someSHA256 {
		t.Errorf("with equal reports: %+v", v)
	}
	v := says(s.h1, other)
	if v.SHA256 != someSHA256 || !v.Usable {
		t.Errorf("after one report changed again: %+v", v)
	}
	for _, c := range v.Copies {
		if c.Usable() != (c.HostID == s.h2) {
			t.Errorf("the copy on %s is %s: %s", c.HostName, c.State, c.Why)
		}
	}
}

// If the VM's pool has no copy of the image, a host that has the VM's pool and a pool with a copy makes a copy first.
// The copy is part of the VM's task.
func TestMissingImageIsCopiedBeforeVMCreation(t *testing.T) {
	s := newLibraryFixture(t)
	s.addVolume(s.local, s.h1, `{"name":"only-here.qcow2","path":"/v/x","format":"qcow2","capacityBytes":1048576,"sha256":"`+someSHA256+`"}`)
	id, version := s.publishImage(s.local, []fleet.HostID{s.h1}, "only-here.qcow2", "qcow2", 1<<20)
	s.execSQL(`UPDATE image_versions SET sha256 = $2 WHERE id = $1`, version, someSHA256)
	make := func(name string) fleet.VMView {
		t.Helper()
		in := control.CreateVM{ProjectID: s.red, HostID: s.h2, Name: name, Spec: smallSpec, Start: true}
		in.Spec.Disks = []fleet.Disk{{PoolID: s.nfs, ImageID: id, Overlay: true}}
		vm, err := s.CreateVM(t.Context(), s.member, in)
		if err != nil {
			t.Fatal(err)
		}
		return vm
	}
	first, second := make("first"), make("second")
	ref := first.Spec.Disks[0].Image
	if ref == nil || ref.PoolID != s.nfs || *second.Spec.Disks[0].Image != *ref {
		t.Fatalf("the disks are backed by %+v and %+v", ref, second.Spec.Disks[0].Image)
	}
	if w := s.claimedWork(s.h2, fleet.VMApply); len(w) != 0 {
		t.Fatalf("a VM is created before its image is copied: %+v", w)
	}
	copies := s.claimedWork(s.h1, fleet.VolumeCopy)
	if len(copies) != 1 {
		t.Fatalf("%d copies are ordered", len(copies))
	}
	w := copies[0]
	if o := w.Args.Volume; len(w.Pools) != 1 || w.Pools[0].ID != s.local || o.Source != "only-here.qcow2" || o.SourcePool != s.local || o.Checksum != "sha256:"+someSHA256 || w.Pool.ID != s.nfs {
		t.Errorf("the order is %+v with %+v", o, w.Pools)
	}
	if x := s.getImage(chief, id).Newest(); len(x.Copies) != 2 || !slices.ContainsFunc(x.Copies, func(c fleet.ImageCopy) bool { return c.State == fleet.CopyInProgress }) {
		t.Errorf("meanwhile: %+v", x)
	}
	task := queryValue[string](&hostFixture{t: t, pool: s.pool}, `SELECT state FROM tasks WHERE subject = $1 AND kind = 'vm.apply'`, fleet.SubjectVM(first.ID))
	if task != "running" {
		t.Errorf("the task of the VM is %s while its image is copied", task)
	}
	// An edit of the VM coalesces with the waiting job and does not start the job before the copy has ended.
	text := "edited"
	if _, _, err := s.UpdateVM(t.Context(), s.member, first.ID, control.UpdateVM{Description: &text}); err != nil {
		t.Fatal(err)
	}
	if w := s.claimedWork(s.h2, fleet.VMApply); len(w) != 0 {
		t.Fatalf("an edit starts the creation early: %+v", w)
	}
	s.finishVolume(s.h1, w, `{"sha256":"`+someSHA256+`"}`)
	s.addVolume(s.nfs, s.h2, `{"name":"`+ref.Volume+`","path":"/v/x","format":"qcow2","capacityBytes":1048576}`)
	applies := s.claimedWork(s.h2, fleet.VMApply)
	if len(applies) != 2 || *applies[0].VM.Spec.Disks[0].Image != *ref || !applies[0].VM.Spec.Disks[0].Overlay {
		t.Fatalf("after the copy: %+v", applies)
	}
	for _, w := range applies {
		s.finishJobWith(s.h2, w, wire.Finish{Outcome: wire.Done, Generation: w.Generation, VM: &fleet.VMStatus{Power: fleet.Stopped}})
	}
	if task := queryValue[string](&hostFixture{t: t, pool: s.pool}, `SELECT state FROM tasks WHERE subject = $1 AND kind = 'vm.apply'`, fleet.SubjectVM(first.ID)); task != "done" {
		t.Errorf("the task of the VM is %s in the end", task)
	}
	if n := s.countRows("job_waits"); n != 0 {
		t.Errorf("%d jobs still wait for others", n)
	}

	// Files of the image cannot be deleted while they back disks.
	v := s.getImage(chief, id)
	s.wantRefused("delete it", fleet.Conflict, "VM first", func() error { _, err := s.DeleteImage(t.Context(), chief, id, v.Name, true); return err })
	s.wantRefused("delete the copy", fleet.Conflict, "VM first", func() error {
		_, err := s.DeleteCopy(t.Context(), chief, control.ImageCopy{ImageID: id, PoolID: s.nfs, Volume: ref.Volume}, ref.Volume)
		return err
	})
	s.wantRefused("forget the copy", fleet.Conflict, "VM second", func() error {
		return s.RemoveCopyFromLibrary(t.Context(), chief, control.ImageCopy{ImageID: id, PoolID: s.nfs, Volume: ref.Volume})
	})
	s.wantRefused("withdraw it as a volume", fleet.Conflict, "backed by", func() error {
		return s.WithdrawImage(t.Context(), chief, control.ImageFile{PoolID: s.nfs, Volume: ref.Volume})
	})

	// After a failed copy the VM's job still runs, and its host reports the missing file.
	s.execSQL(`DELETE FROM image_copies WHERE pool_id = $1`, s.nfs)
	third := make("third")
	copies = s.claimedWork(s.h1, fleet.VolumeCopy)
	if len(copies) != 1 {
		t.Fatalf("%+v", copies)
	}
	s.finishJobWith(s.h1, copies[0], wire.Finish{Outcome: wire.Failed, Error: "No space left on device"})
	if w := s.claimedWork(s.h2, fleet.VMApply); len(w) != 1 || w[0].VM.ID != third.ID {
		t.Errorf("after a copy that failed: %+v", w)
	}

	// If no host has both pools, a host with a copy of the image sends the copy to a host with the target pool. If no
	// host with a copy is online, the request is refused.
	s.execSQL(`DELETE FROM assignments WHERE pool_id = $1 AND host_id = $2`, s.nfs, s.h1)
	s.execSQL(`DELETE FROM image_copies WHERE pool_id = $1`, s.nfs)
	s.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '1 hour' WHERE host_id = $1`, s.h1)
	s.wantRefused("no host to send it", fleet.Invalid, "could send", func() error {
		_, err := s.createFromImage(chief, s.red, "nowhere", fleet.Disk{PoolID: s.nfs, ImageID: id})
		return err
	})
	s.wantRefused("copy it", fleet.Conflict, "No online host has an unchanged copy", func() error {
		_, err := s.CopyImage(t.Context(), chief, id, control.NewCopy{PoolID: s.nfs})
		return err
	})
}

// An image is not copied into a pool that already has a file with the same bytes.
func TestImageCopyReusesEqualFileInPool(t *testing.T) {
	s := newLibraryFixture(t)
	s.addVolume(s.local, s.h1, `{"name":"golden.qcow2","path":"/v/x","format":"qcow2","capacityBytes":1048576,"sha256":"`+someSHA256+`"}`)
	id, version := s.publishImage(s.local, []fleet.HostID{s.h1}, "golden.qcow2", "qcow2", 1<<20)
	s.execSQL(`UPDATE image_versions SET sha256 = $2 WHERE id = $1`, version, someSHA256)
	s.addVolume(s.nfs, s.h1, `{"name":"same.qcow2","path":"/v/x","format":"qcow2","capacityBytes":1048576,"sha256":"`+someSHA256+`"}`)
	task, err := s.CopyImage(t.Context(), chief, id, control.NewCopy{PoolID: s.nfs})
	if err != nil || task.ID != "" {
		t.Fatalf("%+v %v", task, err)
	}
	s.auditActions("image.copy")
	if v := s.getImage(chief, id).Newest(); len(v.Copies) != 2 {
		t.Errorf("%+v", v.Copies)
	}
	s.wantRefused("a second copy in the pool", fleet.Conflict, "already", func() error {
		_, err := s.CopyImage(t.Context(), chief, id, control.NewCopy{PoolID: s.nfs})
		return err
	})
	s.wantRefused("delete the file in its pool", fleet.Conflict, "copy of the library image", func() error {
		_, err := s.DeleteVolume(t.Context(), chief, storage.VolumeID{PoolID: s.nfs, Volume: "same.qcow2"}, "same.qcow2")
		return err
	})
	name := s.getImage(chief, id).Name
	s.wantRefused("delete it without its name", fleet.Invalid, "Type the image's name", func() error { _, err := s.DeleteImage(t.Context(), chief, id, "", false); return err })
	tasks, err := s.DeleteImage(t.Context(), chief, id, name, true)
	if err != nil || len(tasks) != 2 {
		t.Fatalf("%v %v", tasks, err)
	}
	if n := s.countRows("jobs WHERE kind = 'volume.delete'"); n != 2 {
		t.Errorf("%d files are deleted", n)
	}
}

// A disk of a VM that is off can become an image version. A disk of a running VM cannot.
func TestImageVersionFromVMDisk(t *testing.T) {
	s := newLibraryFixture(t)
	vm, err := s.createFromImage(chief, s.red, "web", fleet.Disk{PoolID: s.local, SizeBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	w := s.claimedWork(s.h1, fleet.VMApply)
	s.finishJobWith(s.h1, w[0], wire.Finish{Outcome: wire.Done, Generation: 1, VM: &fleet.VMStatus{Power: fleet.Running}})
	in := control.NewImage{Name: "Web", ProjectID: s.red, Source: control.ImageSource{PoolID: s.nfs, VMID: vm.ID, Volume: "web.qcow2"}}
	ask := func() error { _, _, err := s.AddImage(context.WithoutCancel(t.Context()), chief, in); return err }
	s.wantRefused("of a running VM", fleet.Invalid, "The VM web is on, so a copy of its disk would be inconsistent. Shut it down first.", ask)
	s.execSQL(`UPDATE vms SET status = '{"power":"stopped"}' WHERE id = $1`, vm.ID)
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	works := s.claimedWork(s.h1, fleet.VolumeCopy)
	if len(works) != 1 || !works[0].Args.Volume.Flatten || works[0].Args.Volume.Source != vm.Spec.Disks[0].Volume || len(works[0].Pools) != 1 {
		t.Fatalf("%+v", works)
	}
	page, err := s.ListImages(t.Context(), s.member, fleet.Query{Filter: "name:web"})
	if err != nil || len(page.Items) != 1 || page.Items[0].Newest().Usable {
		t.Fatalf("before the copy is complete: %+v %v", page.Items, err)
	}
	s.finishVolume(s.h1, works[0], `{"sha256":"`+someSHA256+`"}`)
	if x := s.getImage(s.member, page.Items[0].ID).Newest(); !x.Usable || x.Format != "qcow2" || x.CapacityBytes != 1<<20 || x.SHA256 != someSHA256 {
		t.Errorf("when the copy is complete: %+v", x)
	}
}

// After a download the host reads the image again to compute its checksum.
func TestImageVersionFromURL(t *testing.T) {
	s := newLibraryFixture(t)
	in := control.NewImage{Name: "Debian", Public: true, Source: control.ImageSource{PoolID: s.local, HostID: s.h1, URL: "https://example.org/debian-12.qcow2"}}
	id, task, err := s.AddImage(t.Context(), chief, in)
	if err != nil || task.Kind != fleet.VolumeFetch {
		t.Fatalf("%+v %v", task, err)
	}
	works := s.claimedWork(s.h1, fleet.VolumeFetch)
	if len(works) != 1 || s.getImage(s.member, id).Newest().Usable {
		t.Fatalf("%+v", works)
	}
	s.finishVolume(s.h1, works[0], `{}`)
	if x := s.getImage(chief, id).Newest(); !x.Usable || x.Format != "qcow2" || x.SHA256 != "" || x.Source != "https://example.org/debian-12.qcow2" {
		t.Errorf("when the download is complete: %+v", x)
	}
	works = s.claimedWork(s.h1, fleet.VolumeHash)
	if len(works) != 1 {
		t.Fatalf("no job computes the checksum: %+v", works)
	}
	s.finishVolume(s.h1, works[0], `{"sha256":"`+someSHA256+`"}`)
	if x := s.getImage(chief, id).Newest(); x.SHA256 != someSHA256 || x.Copies[0].State != fleet.CopyReady {
		t.Errorf("%+v", x)
	}
}

// A checksum given in the request becomes the version's checksum, whatever the host reports.
func TestRequestedChecksumBecomesImageVersionChecksum(t *testing.T) {
	s := newLibraryFixture(t)
	in := control.NewImage{Name: "Debian", Source: control.ImageSource{PoolID: s.local, HostID: s.h1, URL: "https://example.org/debian-13.qcow2", Checksum: someSHA256}}
	id, _, err := s.AddImage(t.Context(), chief, in)
	if err != nil {
		t.Fatal(err)
	}
	s.finishVolume(s.h1, s.claimedWork(s.h1, fleet.VolumeFetch)[0], `{}`)
	if x := s.getImage(chief, id).Newest(); x.SHA256 != someSHA256 {
		t.Errorf("when the download is complete: %+v", x)
	}
	works := s.claimedWork(s.h1, fleet.VolumeHash)
	if len(works) != 1 || works[0].Args.Volume.Checksum != "sha256:"+someSHA256 {
		t.Fatalf("%+v", works)
	}
	s.finishVolume(s.h1, works[0], `{"sha256":"`+strings.Repeat("e", 64)+`"}`)
	if x := s.getImage(chief, id).Newest(); x.SHA256 != someSHA256 || x.Usable || !strings.Contains(x.Copies[0].Why, "content differs") {
		t.Errorf("after the host reported another checksum: %+v", x)
	}
}
