//go:build linux && ordeal

package libvirt_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/agent/hypervisor/conformance"
	"quantix/internal/fleet"
)

// A start is refused if a path leads out of a pool, and the host reports the fault before. After the file is restored,
// the guest starts.
func TestStartRefusesPathLeadingOutOfPool(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, make([]byte, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	ref := func(f fixture, name string) *fleet.Volref { return &fleet.Volref{PoolID: f.pool.ID, Volume: name} }
	raw := func(f fixture) fleet.Disk {
		d := f.newDisk("plain.raw")
		d.Format = fleet.Raw
		return d
	}
	for what, c := range map[string]struct {
		file  string // in the pool
		spec  func(f fixture, s *fleet.VMSpec)
		fault bool // the report has a fault
	}{
		"a raw disk":   {"plain.raw", func(f fixture, s *fleet.VMSpec) { s.Disks = []fleet.Disk{raw(f)} }, true},
		"a qcow2 disk": {"disk.qcow2", func(f fixture, s *fleet.VMSpec) { s.Disks = []fleet.Disk{f.newDisk("disk.qcow2")} }, true},
		"an ISO":       {"tools.iso", func(f fixture, s *fleet.VMSpec) { s.ISO = ref(f, "tools.iso") }, true},
		"a kernel":     {"kernel", func(f fixture, s *fleet.VMSpec) { s.Boot.Kernel = ref(f, "kernel") }, true},
		"a shared folder": {"folder", func(f fixture, s *fleet.VMSpec) {
			s.Memory.Shared, s.Shares = true, []fleet.VMShare{{Tag: "t", Folder: *ref(f, "folder")}}
		}, true},
		"a backing file": {"image", func(f fixture, s *fleet.VMSpec) {
			d := f.newDisk("disk.qcow2")
			d.Image, d.Overlay, d.VersionID = ref(f, "image"), true, "version"
			s.Disks = []fleet.Disk{d}
		}, false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			addImage(t, f.pool, conformance.Image{Name: "image", Kind: conformance.Qcow2, SizeBytes: 4 << 20})
			addImage(t, f.pool, conformance.Image{Name: "tools.iso", Kind: conformance.ISO, SizeBytes: 1 << 20})
			addImage(t, f.pool, conformance.Image{Name: "kernel", Kind: conformance.Raw, SizeBytes: 1 << 20})
			addImage(t, f.pool, conformance.Image{Name: "folder", Kind: conformance.DirectoryImage})
			f.requireNoError(f.ApplyPool(t.Context(), f.pool))
			vm := f.newVM()
			c.spec(f, &vm.Spec)
			f.apply(vm)
			faults := func() []fleet.Fault {
				s, err := f.HostState(t.Context(), hypervisor.Assignment{Assigned: hypervisor.Assigned{Pools: []fleet.Pool{f.pool}}})
				f.requireNoError(err)
				for _, r := range s.VMs {
					if r.ID == vm.ID {
						return r.Status.Faults
					}
				}
				return nil
			}
			if all := faults(); len(all) > 0 {
				t.Fatalf("before: %+v", all)
			}
			aside := filepath.Join(t.TempDir(), "aside")
			f.requireNoError(os.Rename(f.volumePath(c.file), aside))
			f.requireNoError(os.Symlink(secret, f.volumePath(c.file)))
			if err := f.StartVM(t.Context(), vm.ID); fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), c.file) ||
				!strings.Contains(err.Error(), "not a plain file of a pool") && !strings.Contains(err.Error(), "a link, a device or a folder has replaced the disk's file") {
				t.Errorf("the start: %v", err)
			}
			if p := powerOf(t, vm.ID); p != fleet.Stopped {
				t.Errorf("the guest is %s", p)
			}
			if c.fault {
				waitFor(t, "the fault shows", func() bool { return len(faults()) == 1 })
			}
			f.requireNoError(os.Remove(f.volumePath(c.file)))
			f.requireNoError(os.Rename(aside, f.volumePath(c.file)))
			if vm.Spec.Shares != nil {
				return // the test host cannot start a guest with a shared folder
			}
			f.requireNoError(f.StartVM(t.Context(), vm.ID))
			waitFor(t, "the fault ends", func() bool { return len(faults()) == 0 })
		})
	}
}

// On shared storage another host may have written a disk's header. So the disk's backing files must be in pools.
func TestStartRefusesBackingFileOutsideSharedPool(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.pool.Spec.Shared = true
	f.requireNoError(f.ApplyPool(t.Context(), f.pool))
	secret := filepath.Join(t.TempDir(), "secret")
	f.requireNoError(os.WriteFile(secret, make([]byte, 8<<20), 0o600))
	vm := f.newVM()
	vm.Spec.Disks = []fleet.Disk{f.newDisk("disk.qcow2")}
	f.apply(vm)
	run(t, "qemu-img", "rebase", "-u", "-f", "qcow2", "-b", secret, "-F", "raw", f.volumePath("disk.qcow2"))
	if err := f.StartVM(t.Context(), vm.ID); fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), secret) {
		t.Errorf("the start: %v", err)
	}
	if p := powerOf(t, vm.ID); p != fleet.Stopped {
		t.Errorf("the guest is %s", p)
	}
}

// A guest does not resume from a snapshot's memory or from saved memory if a path leads out of a pool.
func TestResumeFromMemoryRefusedWhenFileIsReplaced(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	addImage(t, f.pool, conformance.Image{Name: "tools.iso", Kind: conformance.ISO, SizeBytes: 1 << 20})
	f.requireNoError(f.ApplyPool(t.Context(), f.pool))
	vm := f.newVM()
	vm.Spec.Disks = []fleet.Disk{f.newDisk("disk.qcow2")}
	vm.Spec.ISO = &fleet.Volref{PoolID: f.pool.ID, Volume: "tools.iso"}
	f.apply(vm)
	f.requireNoError(f.StartVM(t.Context(), vm.ID))
	snap := func(o fleet.SnapshotParams) hypervisor.SnapshotWork {
		return hypervisor.SnapshotWork{VM: vm, Pools: []fleet.Pool{f.pool}, Params: o, Job: fleet.NewID[fleet.JobID](), Progress: func(int, string) {}}
	}
	id := fleet.NewID[fleet.SnapshotID]()
	f.requireNoError(f.TakeSnapshot(t.Context(), snap(fleet.SnapshotParams{ID: id, Name: "then", Memory: true})))
	back := linkVolume(t, f.pool, "tools.iso")
	if err := f.RevertSnapshot(t.Context(), snap(fleet.SnapshotParams{ID: id})); fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "plain file") {
		t.Errorf("revert to the snapshot: %v", err)
	}
	if p := powerOf(t, vm.ID); p != fleet.Running {
		t.Errorf("the guest is %s", p)
	}
	back()
	f.requireNoError(f.RevertSnapshot(t.Context(), snap(fleet.SnapshotParams{ID: id})))
	virsh(t, "managedsave", string(vm.ID))
	virsh(t, "change-media", string(vm.ID), "sda", "--eject", "--config") // the saved memory still uses the ISO
	back = linkVolume(t, f.pool, "tools.iso")
	if err := f.StartVM(t.Context(), vm.ID); fleet.CodeOf(err) != fleet.Conflict || !strings.Contains(err.Error(), "tools.iso") {
		t.Errorf("the start from saved memory: %v", err)
	}
	back()
}
