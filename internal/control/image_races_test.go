package control_test

import (
	"slices"
	"testing"

	"quantix/db"
	"quantix/internal/control"
	"quantix/internal/fleet"
)

// createConcurrently creates n VMs from the image. All requests have chosen their image copies before the first
// transaction commits.
func (s *libraryFixture) createConcurrently(id fleet.ImageID, n int, ask func(name string) (fleet.VMView, error)) []fleet.VMView {
	s.t.Helper()
	hold := beginTx(s.t, s.pool)
	execInTx(s.t, hold, `SELECT 1 FROM images WHERE id = $1 FOR UPDATE`, id)
	vms := make([]fleet.VMView, n)
	var ends []func() error
	for i := range n {
		ends = append(ends, startBlockedByLock(s.t, s.pool, func() (err error) {
			vms[i], err = ask("vm-" + string(rune('a'+i)))
			return err
		}))
	}
	if err := hold.Commit(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	for i, end := range ends {
		if err := end(); err != nil {
			s.t.Errorf("VM %d: %v", i, err)
		}
	}
	return vms
}

// VMs created concurrently from an unverified image share one verification and wait for it.
func TestConcurrentCreatesVerifyImageOnce(t *testing.T) {
	s := newLibraryFixture(t)
	s.addVolume(s.local, s.h1, `{"name":"golden.qcow2","path":"/v/x","format":"qcow2","capacityBytes":1048576}`)
	id, _ := s.publishImage(s.local, []fleet.HostID{s.h1}, "golden.qcow2", "qcow2", 1<<20)
	const n = 6
	s.createConcurrently(id, n, func(name string) (fleet.VMView, error) {
		// Memory limits do not apply to administrators.
		return s.createFromImage(chief, s.red, name, fleet.Disk{PoolID: s.local, ImageID: id})
	})
	if reads, wait := s.countRows("jobs WHERE kind = 'volume.hash'"), s.countRows("jobs WHERE kind = 'vm.apply' AND run_after = never()"); reads != 1 || wait != n {
		t.Errorf("the image is verified %d times, and %d of %d VMs wait for that", reads, wait, n)
	}
}

// VMs created concurrently on hosts without the image share one copy.
func TestConcurrentCreatesCopyImageOnce(t *testing.T) {
	s := newLibraryFixture(t)
	s.addVolume(s.local, s.h1, `{"name":"golden.qcow2","path":"/v/x","format":"qcow2","capacityBytes":1048576,"sha256":"`+someSHA256+`"}`)
	id, version := s.publishImage(s.local, []fleet.HostID{s.h1}, "golden.qcow2", "qcow2", 1<<20)
	s.execSQL(`UPDATE image_versions SET sha256 = $2 WHERE id = $1`, version, someSHA256)
	const n = 6
	vms := s.createConcurrently(id, n, func(name string) (fleet.VMView, error) {
		in := control.CreateVM{ProjectID: s.red, HostID: s.h2, Name: name, Spec: smallSpec}
		in.Spec.Disks = []fleet.Disk{{PoolID: s.nfs, ImageID: id, Overlay: true}}
		return s.CreateVM(t.Context(), s.member, in)
	})
	if copies, wait := s.countRows("jobs WHERE kind = 'volume.copy'"), s.countRows("jobs WHERE kind = 'vm.apply' AND run_after = never()"); copies != 1 || wait != n {
		t.Errorf("the image is copied %d times, and %d of %d VMs wait for that", copies, wait, n)
	}
	if !slices.ContainsFunc(vms, func(vm fleet.VMView) bool { return len(vm.Spec.Disks) == 1 }) {
		t.Fatal("none was made")
	}
	for _, vm := range vms {
		if len(vm.Spec.Disks) == 1 && *vm.Spec.Disks[0].Image != *vms[0].Spec.Disks[0].Image {
			t.Errorf("they are backed by %+v and %+v", vms[0].Spec.Disks[0].Image, vm.Spec.Disks[0].Image)
		}
	}
}

// A copy job may end after the VM's request has seen it as unfinished. The VM's job must not wait for the ended copy,
// because nothing would start the VM's job later.
func TestVMJobDoesNotWaitForEndedImageCopy(t *testing.T) {
	s := newLibraryFixture(t)
	s.addVolume(s.local, s.h1, `{"name":"golden.qcow2","path":"/v/x","format":"qcow2","capacityBytes":1048576}`)
	id, _ := s.publishImage(s.local, []fleet.HostID{s.h1}, "golden.qcow2", "qcow2", 1<<20)
	read, err := s.VerifyCopy(t.Context(), chief, control.ImageCopy{ImageID: id, PoolID: s.local, Volume: "golden.qcow2", HostID: s.h1})
	if err != nil {
		t.Fatal(err)
	}
	vm, err := s.createFromImage(s.member, s.red, "web", fleet.Disk{PoolID: s.local, SizeBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	task := fleet.TaskID(queryValue[string](&hostFixture{t: t, pool: s.pool}, `SELECT id FROM tasks WHERE subject = $1 AND kind = 'vm.apply'`, fleet.SubjectVM(vm.ID)))
	tx := beginTx(t, s.pool)
	q := db.New(tx)
	at, err := q.JobsAbout(t.Context(), db.JobsAboutParams{Subject: read.Subject, Kind: fleet.VolumeHash})
	if err != nil || len(at) != 1 {
		t.Fatalf("%+v %v", at, err)
	}
	end := startBlockedByLock(t, s.pool, func() error { _, err := s.CancelTask(t.Context(), chief, read.ID); return err })
	if err := q.WaitFor(t.Context(), db.WaitForParams{Others: []string{string(at[0].ID)}, TaskID: &task, Kind: fleet.VMApply}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if n := s.countRows("jobs WHERE state = 'queued' AND run_after = never()"); n != 0 {
		t.Errorf("%d VMs wait for an ended job", n)
	}
}
