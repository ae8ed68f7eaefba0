package control_test

import (
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// An image copy that is unverified or was modified is verified before a VM is created from it. A copy with a wrong
// checksum is not used.
func TestUnverifiedImageIsVerifiedBeforeUse(t *testing.T) {
	s := newLibraryFixture(t)
	id := s.catalogEntry("Debian 12").ID
	lay := func(more string) {
		s.execSQL(`UPDATE assignments SET status = jsonb_set(status, '{volumes}', '[]') WHERE pool_id = $1`, s.nfs)
		s.addVolume(s.nfs, s.h1, `{"name":"golden.qcow2","path":"/v/golden.qcow2","format":"qcow2","capacityBytes":1048576`+more+`}`)
		s.execSQL(`DELETE FROM assignments WHERE pool_id = $1 AND host_id = $2`, s.nfs, s.h2)
	}
	lay("")
	image, version := fleet.NewID[fleet.ImageID](), fleet.NewID[fleet.ImageVersionID]()
	s.execSQL(`INSERT INTO images (id, name, created_by) VALUES ($1, 'Golden', 'ann')`, image)
	s.execSQL(`INSERT INTO image_versions (id, image_id, number, format, capacity_bytes, created_by, start_id) VALUES ($1, $2, 1, 'qcow2', 1048576, 'ann', $3)`, version, image, id)
	s.execSQL(`INSERT INTO image_copies (version_id, pool_id, volume, added_by) VALUES ($1, $2, 'golden.qcow2', 'ann')`, version, s.nfs)
	s.execSQL(`INSERT INTO image_grants (image_id, granted_by) VALUES ($1, 'ann')`, image)
	newest := func() fleet.ImageVersion { return *s.getImage(s.member, image).Newest() }
	if x := newest(); !x.Usable || x.Verified {
		t.Fatalf("%+v", x)
	}

	disk := fleet.Disk{PoolID: s.nfs, ImageID: image}
	if _, err := s.createFromImage(s.member, s.red, "first", disk); err != nil {
		t.Fatal(err)
	}
	if len(s.claimedWork(s.h1, fleet.VMApply)) != 0 {
		t.Error("the VM is created before the image is verified")
	}
	other, err := s.createFromImage(s.member, s.red, "second", disk) // waits for the same verification
	if err != nil || other.Spec.Disks[0].ImageSHA256 != "" {
		t.Fatalf("%+v %v", other, err)
	}
	works := s.claimedWork(s.h1, fleet.VolumeHash)
	if len(works) > 1 {
		t.Fatalf("the image is verified %d times", len(works))
	}
	hash := s.runningJob(fleet.VolumeHash)
	s.finishVolume(s.h1, hash, `{"sha256":"`+someSHA256+`"}`)
	if n := len(s.claimedWork(s.h1, fleet.VMApply)); n != 2 || !newest().Verified {
		t.Errorf("after the verification %d VMs are created: %+v", n, newest())
	}

	// The file was modified since its verification. A job verifies it against the image's checksum, and the checksum is
	// wrong.
	lay("")
	if x := newest(); x.Verified || !x.Usable {
		t.Errorf("touched: %+v", x)
	}
	vm, err := s.createFromImage(s.member, s.red, "third", disk)
	if err != nil || vm.Spec.Disks[0].ImageSHA256 != someSHA256 {
		t.Fatalf("%+v %v", vm, err)
	}
	works = s.claimedWork(s.h1, fleet.VolumeHash)
	if len(works) != 1 || works[0].Args.Volume.Checksum != "sha256:"+someSHA256 {
		t.Fatalf("%+v", works)
	}
	lay(`,"sha256":"` + strings.Repeat("9", 64) + `"`)
	s.finishJobWith(s.h1, works[0], wire.Finish{Outcome: wire.Failed, Error: "The volume golden.qcow2 has other bytes than the image."})
	if len(s.claimedWork(s.h1, fleet.VMApply)) != 0 {
		t.Error("a VM is made of other bytes")
	}
	if said := queryValue[string](&hostFixture{t: t, pool: s.pool}, `SELECT state || ': ' || error FROM jobs WHERE kind = 'vm.apply' AND subject = $1`, fleet.SubjectVM(vm.ID)); !strings.HasPrefix(said, "failed: The image could not be verified") || !strings.Contains(said, "other bytes") {
		t.Errorf("its job: %s", said)
	}
	if x := newest(); x.Usable {
		t.Errorf("other bytes are offered: %+v", x)
	}
	s.wantRefused("another VM from the changed image", fleet.Invalid, "", func() error { _, err := s.createFromImage(s.member, s.red, "fourth", disk); return err })
}

// runningJob returns the first host's job of the kind.
func (s *libraryFixture) runningJob(kind fleet.JobKind) wire.Work {
	s.t.Helper()
	var w wire.Work
	w.Kind = kind
	if err := s.pool.QueryRow(s.t.Context(), `SELECT id, subject, epoch FROM jobs WHERE kind = $1 AND state = 'running' AND host_id = $2`, kind, s.h1).Scan(&w.ID, &w.Subject, &w.Epoch); err != nil {
		s.t.Fatal(err)
	}
	return w
}
