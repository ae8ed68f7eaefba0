package control_test

import (
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// If a host completed an image but did not report the pool's volumes afterwards, a job verifies the image. Otherwise
// the image's size and checksum would stay unknown.
func TestImageMissingInPoolReportIsVerified(t *testing.T) {
	s := newLibraryFixture(t)
	in := control.NewImage{Name: "Debian", Source: control.ImageSource{PoolID: s.local, HostID: s.h1, URL: "https://example.org/debian-13.qcow2"}}
	id, _, err := s.AddImage(t.Context(), chief, in)
	if err != nil {
		t.Fatal(err)
	}
	s.finishJobWith(s.h1, s.claimedWork(s.h1, fleet.VolumeFetch)[0], wire.Finish{Outcome: wire.Done})
	works := s.claimedWork(s.h1, fleet.VolumeHash)
	if len(works) != 1 {
		t.Fatalf("no job verifies the image: %+v", works)
	}
	s.finishVolume(s.h1, works[0], `{"sha256":"`+someSHA256+`"}`)
	if x := s.getImage(chief, id).Newest(); !x.Usable || x.Format != "qcow2" || x.SHA256 != someSHA256 {
		t.Errorf("%+v", x)
	}
	if _, err := s.VerifyCopy(t.Context(), chief, control.ImageCopy{ImageID: id, PoolID: s.local, Volume: "debian-13.qcow2", HostID: s.h1}); err != nil {
		t.Fatal(err)
	}
	s.finishJobWith(s.h1, s.claimedWork(s.h1, fleet.VolumeHash)[0], wire.Finish{Outcome: wire.Done})
	if works := s.claimedWork(s.h1, fleet.VolumeHash); len(works) != 0 {
		t.Errorf("the image is verified repeatedly: %+v", works)
	}
}

// The deletion of an image with its files is refused while a VM is created from one of the files. Otherwise the image
// would be deleted without that file, and nothing would delete the file later.
func TestImageDeleteRefusedWhileVMIsCreatedFromIt(t *testing.T) {
	s := newLibraryFixture(t)
	s.addVolume(s.local, s.h1, `{"name":"golden.qcow2","path":"/v/x","format":"qcow2","capacityBytes":1048576,"sha256":"`+someSHA256+`"}`)
	id, version := s.publishImage(s.local, []fleet.HostID{s.h1}, "golden.qcow2", "qcow2", 1<<20)
	s.execSQL(`UPDATE image_versions SET sha256 = $2 WHERE id = $1`, version, someSHA256)
	s.execSQL(`UPDATE images SET name = 'Golden' WHERE id = $1`, id)
	if _, err := s.createFromImage(s.member, s.red, "web", fleet.Disk{PoolID: s.local, ImageID: id}); err != nil {
		t.Fatal(err)
	}
	s.wantRefused("with its files", fleet.Conflict, "VM web is being created from the volume", func() error { _, err := s.DeleteImage(t.Context(), chief, id, "Golden", true); return err })
	w := s.claimedWork(s.h1, fleet.VMApply)
	s.finishJobWith(s.h1, w[0], wire.Finish{Outcome: wire.Done, Generation: 1, VM: &fleet.VMStatus{Power: fleet.Stopped}})
	if tasks, err := s.DeleteImage(t.Context(), chief, id, "Golden", true); err != nil || len(tasks) != 1 {
		t.Errorf("after the VM's creation: %v %v", tasks, err)
	}
}

// Hosts may have different files of one name in a local pool. A failed copy on one host must not fail VMs on another
// host.
func TestVMWaitsForImageCopyOnItsOwnHost(t *testing.T) {
	s := newLibraryFixture(t)
	s.execSQL(`INSERT INTO assignments (noun, object_id, host_id, asked, status, observed_generation, reported_at) SELECT 'pool', $1, $2, 'assign', status, 1, now() FROM assignments WHERE pool_id = $1`, s.local, s.h2)
	for _, h := range []fleet.HostID{s.h1, s.h2} {
		s.addVolume(s.local, h, `{"name":"golden.qcow2","path":"/v/golden.qcow2","format":"qcow2","capacityBytes":1048576}`)
	}
	id, _ := s.publishImage(s.local, []fleet.HostID{s.h1, s.h2}, "golden.qcow2", "qcow2", 1<<20)
	works := map[fleet.HostID]wire.Work{}
	for _, h := range []fleet.HostID{s.h2, s.h1} {
		in := control.CreateVM{ProjectID: s.red, HostID: h, Name: "on-" + string(h[len(h)-8:]), Spec: smallSpec}
		in.Spec.Disks = []fleet.Disk{{PoolID: s.local, ImageID: id}}
		if _, err := s.CreateVM(t.Context(), chief, in); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range []fleet.HostID{s.h1, s.h2} {
		w := s.claimedWork(h, fleet.VolumeHash)
		if len(w) != 1 {
			t.Fatalf("%+v", w)
		}
		works[h] = w[0]
	}
	s.finishJobWith(s.h2, works[s.h2], wire.Finish{Outcome: wire.Failed, Error: "The volume golden.qcow2 has other bytes than the image."})
	s.finishVolume(s.h1, works[s.h1], `{"sha256":"`+someSHA256+`"}`)
	if w := s.claimedWork(s.h1, fleet.VMApply); len(w) != 1 {
		t.Errorf("h1's own copy is verified, and its VM has the jobs %+v", w)
	}
	if n := s.countRows("jobs WHERE kind = 'vm.apply' AND state = 'failed'"); n != 1 {
		t.Errorf("%d VMs have failed, want h2's", n)
	}
}

// A global image and a project's image of the same name are copied to two files. Each disk uses the file of its own
// image.
func TestImagesOfSameNameAreCopiedSeparately(t *testing.T) {
	s := newLibraryFixture(t)
	var disks []fleet.Disk
	for file, project := range map[string]*fleet.ProjectID{"one.qcow2": nil, "two.qcow2": &s.red} {
		s.addVolume(s.local, s.h1, `{"name":"`+file+`","path":"/v/x","format":"qcow2","capacityBytes":1048576}`)
		id, _ := s.publishImage(s.local, []fleet.HostID{s.h1}, file, "qcow2", 1<<20)
		s.execSQL(`UPDATE images SET name = 'Golden', project_id = $2 WHERE id = $1`, id, project)
		disks = append(disks, fleet.Disk{PoolID: s.nfs, ImageID: id, Overlay: true})
	}
	in := control.CreateVM{ProjectID: s.red, HostID: s.h2, Name: "web", Spec: smallSpec}
	in.Spec.Disks = disks
	vm, err := s.CreateVM(t.Context(), s.member, in)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := vm.Spec.Disks[0].Image, vm.Spec.Disks[1].Image; *a == *b || s.countRows("jobs WHERE kind = 'volume.copy'") != 2 {
		t.Errorf("the disks are made from %+v and %+v", a, b)
	}
}
