package conformance

import (
	"errors"
	"slices"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/agent/pooldir"
	"quantix/internal/fleet"
)

// moveJob returns a new job that moves the VM's first disk into the pool.
func (h *testHost) moveJob(vm fleet.VM, to fleet.Pool) hypervisor.MoveDiskWork {
	return hypervisor.MoveDiskWork{
		VM: vm, Pools: h.pools, Params: fleet.DiskMigrationParams{Disk: vm.Spec.Disks[0].Ref(), To: fleet.Volref{PoolID: to.ID, Volume: vm.Spec.Disks[0].Volume}},
		RecordFile: func(string) error { return nil }, RecordDisk: func(fleet.Volref) error { return nil },
		Stop: make(chan struct{}), Progress: func(int, string) {},
	}
}

// wantDiskAt fails the test unless the VM's only disk is at the volume, in its definition and in the running guest,
// without pending changes or faults.
func (h *testHost) wantDiskAt(vm fleet.VM, at fleet.Volref) {
	h.t.Helper()
	s := h.wantStatus(vm.ID, vm.Generation)
	if len(s.Disks) != 1 || s.Disks[0].Volume == nil || *s.Disks[0].Volume != at || len(s.Faults) > 0 || len(s.Drift) > 0 || len(s.NextBoot) > 0 {
		h.t.Fatalf("the VM has %+v, faults %v, drift %v, at its next start %v; want its disk at %v", s.Disks, s.Faults, s.Drift, s.NextBoot, at)
	}
}

func testMoveDisk(t *testing.T, h *testHost) {
	for _, on := range []bool{false, true} {
		from, to := h.newPool(), h.newPool()
		vm := h.definedVM(newDisk(from))
		if on {
			h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
		}
		in := h.moveJob(vm, to)
		var whole fleet.Volref
		var told progressRecorder
		in.RecordDisk, in.Progress = func(ref fleet.Volref) error { whole = ref; return nil }, told.report
		h.requireNoError("move", h.MoveDisk(h.ctx, in))
		h.wantDiskAt(vm, in.Params.To)
		if whole != in.Params.To {
			t.Errorf("MoveDisk recorded the disk %v, want the destination", whole)
		}
		h.requireNoError("repeat the job", h.MoveDisk(h.ctx, in))
		h.wantDiskAt(vm, in.Params.To)
		old := vm.Spec.Disks[0]
		h.wantVolume(from, old.Volume, "qcow2", old.SizeBytes)
		h.requireNoError("delete the old disk", h.DeleteVolume(h.ctx, h.newVolumeJob(from, old.Volume, fleet.VolumeParams{})))
		h.wantVolume(to, old.Volume, "qcow2", old.SizeBytes)

		vm.Spec.Disks = []fleet.Disk{old}
		vm.Spec.Disks[0].PoolID, vm.Generation = to.ID, 2
		h.apply(vm) // as the portal does after it has received the result
		h.wantDiskAt(vm, in.Params.To)
		if on {
			h.requireNoError("force off", h.StopVM(h.ctx, vm.ID))
		}
		h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
		h.wantDiskAt(vm, in.Params.To)
		h.requireNoError("delete", h.DeleteVM(h.ctx, vm, h.pools, true))
		h.wantNoVolume(to, old.Volume)
	}
}

func testMoveDiskCancelled(t *testing.T, h *testHost) {
	for _, on := range []bool{false, true} {
		from, to := h.newPool(), h.newPool()
		vm := h.definedVM(newDisk(from))
		if on {
			h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
		}
		early := h.moveJob(vm, to)
		stop := make(chan struct{})
		close(stop)
		early.Stop = stop
		if err := h.MoveDisk(h.ctx, early); !errors.Is(err, hypervisor.ErrCancelled) {
			t.Fatalf("stopped before it began: %v", err)
		}
		h.wantDiskAt(vm, vm.Spec.Disks[0].Ref())
		h.wantNoVolume(to, vm.Spec.Disks[0].Volume)

		middle, stop := h.moveJob(vm, to), make(chan struct{})
		var made string
		middle.Stop, middle.RecordFile = stop, func(file string) error { made = file; close(stop); return nil }
		if err := h.MoveDisk(h.ctx, middle); !errors.Is(err, hypervisor.ErrCancelled) {
			t.Fatalf("stopped in the middle: %v", err)
		}
		h.wantDiskAt(vm, vm.Spec.Disks[0].Ref())
		h.wantNoVolume(to, vm.Spec.Disks[0].Volume)
		if made == "" {
			t.Error("the move created no file")
		}
		h.requireNoError("move the disk after all", h.MoveDisk(h.ctx, h.moveJob(vm, to)))
		h.wantDiskAt(vm, fleet.Volref{PoolID: to.ID, Volume: vm.Spec.Disks[0].Volume})

		vm.Spec.Disks = slices.Clone(vm.Spec.Disks)
		vm.Spec.Disks[0].PoolID, vm.Generation = to.ID, 2
		h.apply(vm) // as the portal does after a disk migration
		h.requireNoError("delete", h.DeleteVM(h.ctx, vm, h.pools, true))
	}
}

func testMoveDiskRefused(t *testing.T, h *testHost) {
	from, to := h.newPool(), h.newPool()
	vm := h.definedVM(newDisk(from))
	own := vm.Spec.Disks[0].Volume
	h.createVolume(to, own, fleet.VolumeParams{Format: "raw", SizeBytes: 1 << 20})
	for _, state := range []string{"off", "on"} {
		if state == "on" {
			h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
		}
		h.requireRefusal("move to the name of an existing volume, "+state, h.MoveDisk(h.ctx, h.moveJob(vm, to)), own)
		h.wantVolume(to, own, "raw", 1<<20)
		for _, bad := range []string{"", "..", "a/b", ".hidden", pooldir.MarkerFile} {
			in := h.moveJob(vm, to)
			in.Params.To.Volume = bad
			if err := h.MoveDisk(h.ctx, in); fleet.CodeOf(err) != fleet.Invalid {
				t.Errorf("move to the invalid name %q: the error is %v, want fleet.Invalid", bad, err)
			}
		}
		other := h.moveJob(vm, to)
		other.Params.Disk.Volume = "another.qcow2"
		other.Params.To.Volume = "moved.qcow2"
		h.requireRefusal("move a disk that the VM does not have", h.MoveDisk(h.ctx, other), "another.qcow2")
		forgetful := h.moveJob(vm, to)
		forgetful.Params.To.Volume = "forgotten.qcow2"
		forgetful.RecordFile = func(string) error { return errors.New("state file not written") }
		h.requireRefusal("move without a record of the file", h.MoveDisk(h.ctx, forgetful), "state file not written")
		h.wantNoVolume(to, "forgotten.qcow2")
		unkept := h.moveJob(vm, to)
		unkept.Params.To.Volume = "unkept.qcow2"
		unkept.RecordDisk = func(fleet.Volref) error { return errors.New("second write failed") }
		h.requireRefusal("switch without a record of the disk", h.MoveDisk(h.ctx, unkept), "second write failed")
		h.wantNoVolume(to, "unkept.qcow2")
		h.wantDiskAt(vm, vm.Spec.Disks[0].Ref())
	}
	h.requireNoError("delete", h.DeleteVolume(h.ctx, h.newVolumeJob(to, own, fleet.VolumeParams{})))
	h.harness.StopPool(t, to)
	h.requireRefusal("move to a pool that is not active", h.MoveDisk(h.ctx, h.moveJob(vm, to)), "not active")
	h.wantDiskAt(vm, vm.Spec.Disks[0].Ref())
	stranger := h.moveJob(h.newVM(newDisk(from)), from)
	stranger.Params.To.Volume = "new.qcow2"
	if err := h.MoveDisk(h.ctx, stranger); err == nil {
		t.Error("the disk of a missing VM was moved")
	}
}
