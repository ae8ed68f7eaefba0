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
func (h *host) moveJob(vm fleet.VM, to fleet.Pool) hypervisor.MoveDisk {
	return hypervisor.MoveDisk{
		VM: vm, Pools: h.pools, Order: fleet.MoveParams{Disk: vm.Spec.Disks[0].Ref(), To: fleet.Volref{PoolID: to.ID, Volume: vm.Spec.Disks[0].Volume}},
		RecordFile: func(string) error { return nil }, RecordDisk: func(fleet.Volref) error { return nil },
		Stop: make(chan struct{}), Progress: func(int, string) {},
	}
}

// wantDisk fails the test unless the VM's only disk is at the volume, in its definition and in the running guest,
// without pending changes or faults.
func (h *host) wantDisk(vm fleet.VM, at fleet.Volref) {
	h.t.Helper()
	s := h.status(vm.ID, vm.Generation)
	if len(s.Disks) != 1 || s.Disks[0].Volume == nil || *s.Disks[0].Volume != at || len(s.Faults) > 0 || len(s.Drift) > 0 || len(s.NextBoot) > 0 {
		h.t.Fatalf("the VM has %+v, faults %v, drift %v, at its next start %v; want its disk at %v", s.Disks, s.Faults, s.Drift, s.NextBoot, at)
	}
}

func testMove(t *testing.T, h *host) {
	for _, on := range []bool{false, true} {
		from, to := h.pool(), h.pool()
		vm := h.definedVM(disk(from))
		if on {
			h.must("start", h.StartVM(h.ctx, vm.ID))
		}
		in := h.moveJob(vm, to)
		var whole fleet.Volref
		var told progress
		in.RecordDisk, in.Progress = func(ref fleet.Volref) error { whole = ref; return nil }, told.report
		h.must("move", h.MoveDisk(h.ctx, in))
		h.wantDisk(vm, in.Order.To)
		if whole != in.Order.To {
			t.Errorf("the recorded disk is %v", whole)
		}
		h.must("repeat the job", h.MoveDisk(h.ctx, in))
		h.wantDisk(vm, in.Order.To)
		old := vm.Spec.Disks[0]
		h.wantVolume(from, old.Volume, "qcow2", old.SizeBytes)
		h.must("delete the old disk", h.DeleteVolume(h.ctx, h.volumeJob(from, old.Volume, fleet.VolumeParams{})))
		h.wantVolume(to, old.Volume, "qcow2", old.SizeBytes)

		vm.Spec.Disks = []fleet.Disk{old}
		vm.Spec.Disks[0].PoolID, vm.Generation = to.ID, 2
		h.apply(vm) // as the portal does after it has received the result
		h.wantDisk(vm, in.Order.To)
		if on {
			h.must("force off", h.StopVM(h.ctx, vm.ID))
		}
		h.must("start", h.StartVM(h.ctx, vm.ID))
		h.wantDisk(vm, in.Order.To)
		h.must("delete", h.DeleteVM(h.ctx, vm, h.pools, true))
		h.wantNoVolume(to, old.Volume)
	}
}

func testMoveStopped(t *testing.T, h *host) {
	for _, on := range []bool{false, true} {
		from, to := h.pool(), h.pool()
		vm := h.definedVM(disk(from))
		if on {
			h.must("start", h.StartVM(h.ctx, vm.ID))
		}
		early := h.moveJob(vm, to)
		stop := make(chan struct{})
		close(stop)
		early.Stop = stop
		if err := h.MoveDisk(h.ctx, early); !errors.Is(err, hypervisor.ErrStopped) {
			t.Fatalf("stopped before it began: %v", err)
		}
		h.wantDisk(vm, vm.Spec.Disks[0].Ref())
		h.wantNoVolume(to, vm.Spec.Disks[0].Volume)

		middle, stop := h.moveJob(vm, to), make(chan struct{})
		var made string
		middle.Stop, middle.RecordFile = stop, func(file string) error { made = file; close(stop); return nil }
		if err := h.MoveDisk(h.ctx, middle); !errors.Is(err, hypervisor.ErrStopped) {
			t.Fatalf("stopped in the middle: %v", err)
		}
		h.wantDisk(vm, vm.Spec.Disks[0].Ref())
		h.wantNoVolume(to, vm.Spec.Disks[0].Volume)
		if made == "" {
			t.Error("the move created no file")
		}
		h.must("move the disk after all", h.MoveDisk(h.ctx, h.moveJob(vm, to)))
		h.wantDisk(vm, fleet.Volref{PoolID: to.ID, Volume: vm.Spec.Disks[0].Volume})

		vm.Spec.Disks = slices.Clone(vm.Spec.Disks)
		vm.Spec.Disks[0].PoolID, vm.Generation = to.ID, 2
		h.apply(vm) // as the portal does after a disk migration
		h.must("delete", h.DeleteVM(h.ctx, vm, h.pools, true))
	}
}

func testMoveRefused(t *testing.T, h *host) {
	from, to := h.pool(), h.pool()
	vm := h.definedVM(disk(from))
	own := vm.Spec.Disks[0].Volume
	h.newVolume(to, own, fleet.VolumeParams{Format: "raw", SizeBytes: 1 << 20})
	for _, state := range []string{"off", "on"} {
		if state == "on" {
			h.must("start", h.StartVM(h.ctx, vm.ID))
		}
		h.refused("move to the name of an existing volume, "+state, h.MoveDisk(h.ctx, h.moveJob(vm, to)), own)
		h.wantVolume(to, own, "raw", 1<<20)
		for _, bad := range []string{"", "..", "a/b", ".hidden", pooldir.Marker} {
			in := h.moveJob(vm, to)
			in.Order.To.Volume = bad
			if err := h.MoveDisk(h.ctx, in); fleet.CodeOf(err) != fleet.Invalid {
				t.Errorf("move to %q: %v", bad, err)
			}
		}
		other := h.moveJob(vm, to)
		other.Order.Disk.Volume = "another.qcow2"
		other.Order.To.Volume = "moved.qcow2"
		h.refused("move a disk that the VM does not have", h.MoveDisk(h.ctx, other), "another.qcow2")
		forgetful := h.moveJob(vm, to)
		forgetful.Order.To.Volume = "forgotten.qcow2"
		forgetful.RecordFile = func(string) error { return errors.New("state file not written") }
		h.refused("move without a record of the file", h.MoveDisk(h.ctx, forgetful), "state file not written")
		h.wantNoVolume(to, "forgotten.qcow2")
		unkept := h.moveJob(vm, to)
		unkept.Order.To.Volume = "unkept.qcow2"
		unkept.RecordDisk = func(fleet.Volref) error { return errors.New("second write failed") }
		h.refused("switch without a record of the disk", h.MoveDisk(h.ctx, unkept), "second write failed")
		h.wantNoVolume(to, "unkept.qcow2")
		h.wantDisk(vm, vm.Spec.Disks[0].Ref())
	}
	h.must("delete", h.DeleteVolume(h.ctx, h.volumeJob(to, own, fleet.VolumeParams{})))
	h.h.StopPool(t, to)
	h.refused("move to a pool that is not active", h.MoveDisk(h.ctx, h.moveJob(vm, to)), "not active")
	h.wantDisk(vm, vm.Spec.Disks[0].Ref())
	stranger := h.moveJob(h.newVM(disk(from)), from)
	stranger.Order.To.Volume = "new.qcow2"
	if err := h.MoveDisk(h.ctx, stranger); err == nil {
		t.Error("the disk of a missing VM was moved")
	}
}
