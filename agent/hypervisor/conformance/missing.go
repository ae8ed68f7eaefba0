package conformance

import (
	"slices"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// disappearances are the ways to remove a disk. back restores the disk; it is nil if the disk is lost.
var disappearances = []struct {
	name string
	take func(*testing.T, *host, fleet.Pool, string) (back func())
}{
	{"moved", func(t *testing.T, h *host, p fleet.Pool, v string) func() { return h.h.HideVolume(t, p, v) }},
	{"replaced by a link", func(t *testing.T, h *host, p fleet.Pool, v string) func() { return h.h.LinkVolume(t, p, v) }},
	{"deleted", func(t *testing.T, h *host, p fleet.Pool, v string) func() { h.h.DeleteVolume(t, p, v); return nil }},
	{"pool stopped", func(t *testing.T, h *host, p fleet.Pool, _ string) func() {
		h.h.StopPool(t, p)
		fresh := h.newVM(disk(p))
		h.refused("create a disk in a pool that is not active", h.ApplyVM(h.ctx, h.applyJob(fresh)), "not active")
		h.wantPower(fresh.ID, fleet.Absent)
		return func() { h.must("apply pool", h.ApplyPool(h.ctx, p)) }
	}},
}

// isMissing is the fault text of a missing first disk.
func isMissing(p fleet.Pool, d fleet.Disk) string {
	return "Disk 1 (pool " + p.Name + ", volume " + d.Volume + ") is not on "
}

func (h *host) faultOf(id fleet.VMID, code fleet.FaultCode) (fleet.Fault, bool) {
	h.t.Helper()
	r, _ := h.report(id)
	return find(r.Status.Faults, func(f fleet.Fault) bool { return f.Code == code })
}

// wantDeleted fails the test if the backend created the volume again.
func (h *host) wantDeleted(p fleet.Pool, volume string) {
	h.t.Helper()
	h.must("apply the pool again", h.ApplyPool(h.ctx, p))
	if v, ok := h.volume(p, volume); ok {
		h.t.Errorf("the volume was created again: %+v", v)
	}
}

func testMissingDisk(t *testing.T, h *host) {
	for _, way := range disappearances {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			checkMissingDisk(t, open(t, h.h), way.take)
		})
	}
}

func checkMissingDisk(t *testing.T, h *host, take func(*testing.T, *host, fleet.Pool, string) func()) {
	p := h.pool()
	vm := h.definedVM(disk(p), disk(p))
	first := vm.Spec.Disks[0]
	words := isMissing(p, first)
	s := h.status(vm.ID, 1)
	for i, d := range s.Disks {
		if d.Volume == nil || *d.Volume != vm.Spec.Disks[i].Ref() {
			t.Errorf("disk %d of a complete VM is %+v", i+1, d)
		}
	}
	h.report(vm.ID)
	back := take(t, h, p, first.Volume)
	described, memory := vm, vm
	described.Generation = 2
	memory.Generation, memory.Spec.MemoryMiB = 2, 192
	h.refused("start", h.StartVM(h.ctx, vm.ID), words)
	h.refused("apply", h.ApplyVM(h.ctx, h.applyJob(vm)), words)
	h.refused("apply another description", h.ApplyVM(h.ctx, h.applyJob(described)), words)
	h.refused("apply more memory", h.ApplyVM(h.ctx, h.applyJob(memory)), words)
	h.refused("restore", h.ApplyVM(h.ctx, changedJob(h.applyJob(vm), func(in *hypervisor.Apply) { in.Reapply = true })), words)
	if s := h.wantPower(vm.ID, fleet.Stopped); s.MemoryMiB != 128 {
		t.Errorf("the refused order changed the definition: %+v", s)
	}
	h.eventually("the fault shows", func() bool {
		f, ok := h.faultOf(vm.ID, fleet.FaultDisk)
		return ok && f.Disk != nil && *f.Disk == first.Ref()
	})
	r, _ := h.report(vm.ID)
	if i := slices.IndexFunc(r.Status.Disks, func(d fleet.DiskState) bool { return d.Target == "vda" }); i >= 0 && r.Status.Disks[i].Volume != nil {
		t.Errorf("a missing disk is reported as present: %+v", r.Status.Disks[i])
	}
	if back == nil {
		h.wantDeleted(p, first.Volume)
		// The user requests a new disk with another name.
		vm.Generation, vm.Spec.Disks = 3, []fleet.Disk{disk(p), vm.Spec.Disks[1]}
	} else {
		back()
	}
	h.apply(vm)
	h.must("start", h.StartVM(h.ctx, vm.ID))
	h.eventually("the fault ends", func() bool {
		r, _ := h.report(vm.ID)
		return len(r.Status.Faults) == 0 && !slices.ContainsFunc(r.Status.Disks, func(d fleet.DiskState) bool { return d.Volume == nil })
	})
}

func testMissingUndefined(t *testing.T, h *host) {
	for _, way := range disappearances {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			h := open(t, h.h)
			p := h.pool()
			vm := h.definedVM(disk(p))
			h.h.Undefine(t, vm.ID)
			back := way.take(t, h, p, vm.Spec.Disks[0].Volume)
			in := changedJob(h.applyJob(vm), func(in *hypervisor.Apply) { in.CreatedDisks = []fleet.Volref{vm.Spec.Disks[0].Ref()} })
			h.refused("apply", h.ApplyVM(h.ctx, in), isMissing(p, vm.Spec.Disks[0]))
			h.wantPower(vm.ID, fleet.Absent)
			if back == nil {
				h.wantDeleted(p, vm.Spec.Disks[0].Volume)
				return
			}
			back()
			h.must("apply", h.ApplyVM(h.ctx, in))
			h.wantPower(vm.ID, fleet.Stopped)
		})
	}
}

func testMissingRunning(t *testing.T, h *host) {
	p := h.pool()
	vm := h.runningVM(disk(p))
	back := h.h.HideVolume(t, p, vm.Spec.Disks[0].Volume)
	h.eventually("the fault shows", func() bool { _, ok := h.faultOf(vm.ID, fleet.FaultDisk); return ok })
	h.wantPower(vm.ID, fleet.Running)
	detached := vm
	detached.Generation, detached.Spec.Disks = 2, nil
	h.apply(detached)
	if _, ok := h.faultOf(vm.ID, fleet.FaultDisk); ok {
		t.Error("the fault stays after the disk was detached")
	}
	back()
}

func testUndefined(t *testing.T, h *host) {
	p := h.pool()
	vm := h.definedVM(disk(p))
	before := h.status(vm.ID, 1)
	h.h.Undefine(t, vm.ID)
	h.wantPower(vm.ID, fleet.Absent)
	h.must("apply", h.ApplyVM(h.ctx, changedJob(h.applyJob(vm), func(in *hypervisor.Apply) { in.CreatedDisks = []fleet.Volref{vm.Spec.Disks[0].Ref()} })))
	if s := h.status(vm.ID, 1); len(s.Disks) != 1 || s.Disks[0].AllocBytes != before.Disks[0].AllocBytes || s.Disks[0].Volume == nil {
		t.Errorf("the disks are %+v, before %+v", s.Disks, before.Disks)
	}
}

// Somebody removes the definition of a running guest. The guest continues, the host reports the fault immediately, and
// the VM is not defined again without a job.
func testRunningUndefined(t *testing.T, h *host) {
	p := h.pool()
	vm := h.runningVM(disk(p))
	h.report(vm.ID)
	wake := h.Changes(h.ctx)
	h.h.Undefine(t, vm.ID)
	h.wakesUntil(wake, "the undefine", func() bool { _, ok := h.faultOf(vm.ID, fleet.FaultUndefined); return ok })
	h.wantPower(vm.ID, fleet.Running)
	edited := vm
	edited.Generation, edited.Spec.CPUs = 2, 2
	h.refused("an edit", h.ApplyVM(h.ctx, h.applyJob(edited)), "removed the VM's definition")
	h.must("reapply", h.ApplyVM(h.ctx, changedJob(h.applyJob(edited), func(in *hypervisor.Apply) { in.Reapply = true })))
	if s := h.status(vm.ID, 2); len(s.Faults) != 0 || !slices.Equal(s.NextBoot, []string{"cpus"}) || len(s.Drift) != 0 {
		t.Errorf("after the reapply: %+v", s)
	}
	h.must("stop", h.StopVM(h.ctx, vm.ID))
	if s := h.wantPower(vm.ID, fleet.Stopped); s.CPUs != 2 {
		t.Errorf("after the stop: %+v", s)
	}
}
