package conformance

import (
	"slices"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// waysToRemoveDisk are the ways to remove a disk. back restores the disk; it is nil if the disk is lost.
var waysToRemoveDisk = []struct {
	name string
	take func(*testing.T, *testHost, fleet.Pool, string) (back func())
}{
	{"moved", func(t *testing.T, h *testHost, p fleet.Pool, v string) func() { return h.harness.HideVolume(t, p, v) }},
	{"replaced by a link", func(t *testing.T, h *testHost, p fleet.Pool, v string) func() { return h.harness.LinkVolume(t, p, v) }},
	{"deleted", func(t *testing.T, h *testHost, p fleet.Pool, v string) func() {
		h.harness.DeleteVolume(t, p, v)
		return nil
	}},
	{"pool stopped", func(t *testing.T, h *testHost, p fleet.Pool, _ string) func() {
		h.harness.StopPool(t, p)
		fresh := h.newVM(newDisk(p))
		h.requireRefusal("create a disk in a pool that is not active", h.ApplyVM(h.ctx, h.applyJob(fresh)), "not active")
		h.wantPower(fresh.ID, fleet.Absent)
		return func() { h.requireNoError("apply pool", h.ApplyPool(h.ctx, p)) }
	}},
}

// missingDiskText is the fault text of a missing first disk.
func missingDiskText(p fleet.Pool, d fleet.Disk) string {
	return "Disk 1 (pool " + p.Name + ", volume " + d.Volume + ") is not on "
}

func (h *testHost) findFault(id fleet.VMID, code fleet.FaultCode) (fleet.Fault, bool) {
	h.t.Helper()
	r, _ := h.reportedVM(id)
	return find(r.Status.Faults, func(f fleet.Fault) bool { return f.Code == code })
}

// wantNotRecreated fails the test if the backend created the volume again.
func (h *testHost) wantNotRecreated(p fleet.Pool, volume string) {
	h.t.Helper()
	h.requireNoError("apply the pool again", h.ApplyPool(h.ctx, p))
	if v, ok := h.reportedVolume(p, volume); ok {
		h.t.Errorf("the volume was created again: %+v", v)
	}
}

func testMissingDiskOfStoppedVM(t *testing.T, h *testHost) {
	for _, way := range waysToRemoveDisk {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			checkMissingDisk(t, openTestHost(t, h.harness), way.take)
		})
	}
}

func checkMissingDisk(t *testing.T, h *testHost, take func(*testing.T, *testHost, fleet.Pool, string) func()) {
	p := h.newPool()
	vm := h.definedVM(newDisk(p), newDisk(p))
	first := vm.Spec.Disks[0]
	words := missingDiskText(p, first)
	s := h.wantStatus(vm.ID, 1)
	for i, d := range s.Disks {
		if d.Volume == nil || *d.Volume != vm.Spec.Disks[i].Ref() {
			t.Errorf("disk %d of a VM without missing disks is %+v, want the volume of its spec", i+1, d)
		}
	}
	h.reportedVM(vm.ID)
	back := take(t, h, p, first.Volume)
	described, memory := vm, vm
	described.Generation = 2
	memory.Generation, memory.Spec.MemoryMiB = 2, 192
	h.requireRefusal("start", h.StartVM(h.ctx, vm.ID), words)
	h.requireRefusal("apply", h.ApplyVM(h.ctx, h.applyJob(vm)), words)
	h.requireRefusal("apply another description", h.ApplyVM(h.ctx, h.applyJob(described)), words)
	h.requireRefusal("apply more memory", h.ApplyVM(h.ctx, h.applyJob(memory)), words)
	h.requireRefusal("restore", h.ApplyVM(h.ctx, changedJob(h.applyJob(vm), func(in *hypervisor.ApplyWork) { in.Reapply = true })), words)
	if s := h.wantPower(vm.ID, fleet.Stopped); s.MemoryMiB != 128 {
		t.Errorf("the refused jobs changed the VM's status to %+v, want 128 MiB", s)
	}
	h.waitUntil("the fault shows", func() bool {
		f, ok := h.findFault(vm.ID, fleet.FaultDisk)
		return ok && f.Disk != nil && *f.Disk == first.Ref()
	})
	r, _ := h.reportedVM(vm.ID)
	if i := slices.IndexFunc(r.Status.Disks, func(d fleet.DiskState) bool { return d.Target == "vda" }); i >= 0 && r.Status.Disks[i].Volume != nil {
		t.Errorf("a missing disk is reported as present: %+v", r.Status.Disks[i])
	}
	if back == nil {
		h.wantNotRecreated(p, first.Volume)
		// The user requests a new disk with another name.
		vm.Generation, vm.Spec.Disks = 3, []fleet.Disk{newDisk(p), vm.Spec.Disks[1]}
	} else {
		back()
	}
	h.apply(vm)
	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
	h.waitUntil("the fault ends", func() bool {
		r, _ := h.reportedVM(vm.ID)
		return len(r.Status.Faults) == 0 && !slices.ContainsFunc(r.Status.Disks, func(d fleet.DiskState) bool { return d.Volume == nil })
	})
}

func testMissingDiskOfUndefinedVM(t *testing.T, h *testHost) {
	for _, way := range waysToRemoveDisk {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			h := openTestHost(t, h.harness)
			p := h.newPool()
			vm := h.definedVM(newDisk(p))
			h.harness.UndefineVM(t, vm.ID)
			back := way.take(t, h, p, vm.Spec.Disks[0].Volume)
			in := changedJob(h.applyJob(vm), func(in *hypervisor.ApplyWork) { in.CreatedDisks = []fleet.Volref{vm.Spec.Disks[0].Ref()} })
			h.requireRefusal("apply", h.ApplyVM(h.ctx, in), missingDiskText(p, vm.Spec.Disks[0]))
			h.wantPower(vm.ID, fleet.Absent)
			if back == nil {
				h.wantNotRecreated(p, vm.Spec.Disks[0].Volume)
				return
			}
			back()
			h.requireNoError("apply", h.ApplyVM(h.ctx, in))
			h.wantPower(vm.ID, fleet.Stopped)
		})
	}
}

func testMissingDiskOfRunningVM(t *testing.T, h *testHost) {
	p := h.newPool()
	vm := h.runningVM(newDisk(p))
	back := h.harness.HideVolume(t, p, vm.Spec.Disks[0].Volume)
	h.waitUntil("the fault shows", func() bool { _, ok := h.findFault(vm.ID, fleet.FaultDisk); return ok })
	h.wantPower(vm.ID, fleet.Running)
	detached := vm
	detached.Generation, detached.Spec.Disks = 2, nil
	h.apply(detached)
	if _, ok := h.findFault(vm.ID, fleet.FaultDisk); ok {
		t.Error("the fault stays after the disk was detached")
	}
	back()
}

func testStoppedVMUndefined(t *testing.T, h *testHost) {
	p := h.newPool()
	vm := h.definedVM(newDisk(p))
	before := h.wantStatus(vm.ID, 1)
	h.harness.UndefineVM(t, vm.ID)
	h.wantPower(vm.ID, fleet.Absent)
	h.requireNoError("apply", h.ApplyVM(h.ctx, changedJob(h.applyJob(vm), func(in *hypervisor.ApplyWork) { in.CreatedDisks = []fleet.Volref{vm.Spec.Disks[0].Ref()} })))
	if s := h.wantStatus(vm.ID, 1); len(s.Disks) != 1 || s.Disks[0].AllocBytes != before.Disks[0].AllocBytes || s.Disks[0].Volume == nil {
		t.Errorf("after the domain was defined again, the disks are %+v, before %+v", s.Disks, before.Disks)
	}
}

// Somebody removes the definition of a running guest. The guest continues, the host reports the fault immediately, and
// the VM is not defined again without a job.
func testRunningVMUndefined(t *testing.T, h *testHost) {
	p := h.newPool()
	vm := h.runningVM(newDisk(p))
	h.reportedVM(vm.ID)
	wake := h.WatchChanges(h.ctx)
	h.harness.UndefineVM(t, vm.ID)
	h.waitWakeUps(wake, "the undefine", func() bool { _, ok := h.findFault(vm.ID, fleet.FaultUndefined); return ok })
	h.wantPower(vm.ID, fleet.Running)
	edited := vm
	edited.Generation, edited.Spec.CPUs = 2, 2
	h.requireRefusal("an edit", h.ApplyVM(h.ctx, h.applyJob(edited)), "removed the VM's definition")
	h.requireNoError("reapply", h.ApplyVM(h.ctx, changedJob(h.applyJob(edited), func(in *hypervisor.ApplyWork) { in.Reapply = true })))
	if s := h.wantStatus(vm.ID, 2); len(s.Faults) != 0 || !slices.Equal(s.NextBoot, []string{"cpus"}) || len(s.Drift) != 0 {
		t.Errorf("after the reapply, the VM's status is %+v, want no fault or drift, and cpus pending", s)
	}
	h.requireNoError("stop", h.StopVM(h.ctx, vm.ID))
	if s := h.wantPower(vm.ID, fleet.Stopped); s.CPUs != 2 {
		t.Errorf("after the stop, the VM's status is %+v, want 2 vCPUs", s)
	}
}
