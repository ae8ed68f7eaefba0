package control_test

import (
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// A host that has made an image, and could not look at its pool just then, is asked to read it: else nobody would ever know what it is.
func TestAnImageThatItsHostDidNotSeeIsReadOnceMore(t *testing.T) {
	s := newShelf(t)
	in := control.NewImage{Name: "Debian", Source: control.ImageSource{PoolID: s.local, HostID: s.h1, URL: "https://example.org/debian-13.qcow2"}}
	id, _, err := s.AddImage(t.Context(), chief, in)
	if err != nil {
		t.Fatal(err)
	}
	s.end(s.h1, s.work(s.h1, fleet.VolumeFetch)[0], wire.Finish{Outcome: wire.Done})
	works := s.work(s.h1, fleet.VolumeHash)
	if len(works) != 1 {
		t.Fatalf("nobody reads it: %+v", works)
	}
	s.did(s.h1, works[0], `{"sha256":"`+digest+`"}`)
	if x := s.image(chief, id).Newest(); !x.Offered || x.Format != "qcow2" || x.SHA256 != digest {
		t.Errorf("%+v", x)
	}
	if _, err := s.VerifyCopy(t.Context(), chief, control.ImageCopy{ImageID: id, PoolID: s.local, Volume: "debian-13.qcow2", HostID: s.h1}); err != nil {
		t.Fatal(err)
	}
	s.end(s.h1, s.work(s.h1, fleet.VolumeHash)[0], wire.Finish{Outcome: wire.Done})
	if works := s.work(s.h1, fleet.VolumeHash); len(works) != 0 {
		t.Errorf("it is read over and over: %+v", works)
	}
}

// The files of an image stay as long as a VM is being made from one: their image would be gone, and nobody deleted them after that.
func TestAnImagesFilesStayWhileAVMIsMadeFromThem(t *testing.T) {
	s := newShelf(t)
	s.lay(s.local, s.h1, `{"name":"golden.qcow2","path":"/v/x","format":"qcow2","capacityBytes":1048576,"sha256":"`+digest+`"}`)
	id, version := s.shelve(s.local, []fleet.HostID{s.h1}, "golden.qcow2", "qcow2", 1<<20)
	s.exec(`UPDATE image_versions SET sha256 = $2 WHERE id = $1`, version, digest)
	s.exec(`UPDATE images SET name = 'Golden' WHERE id = $1`, id)
	if _, err := s.from(s.member, s.red, "web", fleet.Disk{PoolID: s.local, ImageID: id}); err != nil {
		t.Fatal(err)
	}
	s.refused("with its files", fleet.Conflict, "VM web is being made from it", func() error { _, err := s.DeleteImage(t.Context(), chief, id, "Golden", true); return err })
	w := s.work(s.h1, fleet.VMApply)
	s.end(s.h1, w[0], wire.Finish{Outcome: wire.Done, Generation: 1, VM: &fleet.VMStatus{Power: fleet.Stopped}})
	if tasks, err := s.DeleteImage(t.Context(), chief, id, "Golden", true); err != nil || len(tasks) != 1 {
		t.Errorf("once it is made: %v %v", tasks, err)
	}
}
