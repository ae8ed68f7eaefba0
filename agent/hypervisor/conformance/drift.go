package conformance

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// reportedDrift returns the VM's drift, and whether HostState and VM report the same drift. A change between the two
// reads is a temporary contradiction.
func (h *testHost) reportedDrift(id fleet.VMID) ([]fleet.Drift, bool) {
	h.t.Helper()
	r, _ := h.reportedVM(id)
	s, _, err := h.VM(h.ctx, id)
	h.requireNoError("read the VM", err)
	same := slices.EqualFunc(s.Drift, r.Status.Drift, func(a, b fleet.Drift) bool {
		return a.Field == b.Field && a.Applied == b.Applied && a.Actual == b.Actual && string(a.Take) == string(b.Take)
	})
	return s.Drift, same
}

// wantDrift waits until the VM has drift in exactly these fields.
func (h *testHost) wantDrift(id fleet.VMID, when string, fields ...string) []fleet.Drift {
	h.t.Helper()
	var got []fleet.Drift
	h.waitUntil(when+": drift of "+strings.Join(fields, ", "), func() bool {
		all, same := h.reportedDrift(id)
		got = all
		return same && slices.EqualFunc(got, fields, func(d fleet.Drift, f string) bool { return d.Field == f })
	})
	return got
}

// driftValue returns the value that the field of the spec gets if the user accepts the drift.
func driftValue[T any](t *testing.T, all []fleet.Drift, field string) (v T) {
	t.Helper()
	d, ok := find(all, func(d fleet.Drift) bool { return d.Field == field })
	if !ok {
		t.Fatalf("no drift of %s in %+v", field, all)
	}
	if err := json.Unmarshal(d.Take, &v); err != nil {
		t.Fatalf("accept the drift of %s: %v of %+v", field, err, d)
	}
	return v
}

// newDriftedVM returns a stopped VM after a change of its number of vCPUs, memory and name on the host.
func (h *testHost) newDriftedVM(disks ...fleet.Disk) (fleet.VM, string) {
	h.t.Helper()
	vm := h.definedVM(disks...)
	h.reportedVM(vm.ID)
	other := uniqueName("other")
	h.harness.EditVM(h.t, vm.ID, VMEdit{CPUs: 2, MemoryMiB: 192, Name: other})
	got := h.wantDrift(vm.ID, "after the change", "name", "cpus", "memoryMiB")
	for i, want := range []fleet.Drift{
		{Field: "name", Applied: vm.Name, Actual: other},
		{Field: "cpus", Applied: "1 vCPU", Actual: "2 vCPUs"},
		{Field: "memoryMiB", Applied: "128 MiB", Actual: "192 MiB"},
	} {
		if d := got[i]; d.Applied != want.Applied || d.Actual != want.Actual {
			h.t.Errorf("the drift is %+v, want %+v", d, want)
		}
	}
	return vm, other
}

func testDrift(t *testing.T, h *testHost) {
	p := h.newPool()
	vm, other := h.newDriftedVM(newDisk(p))
	vm.Generation = 2
	h.apply(vm)
	if s := h.wantStatus(vm.ID, 2); s.CPUs != 2 || s.MemoryMiB != 192 || s.Domain != other {
		t.Errorf("after an edit of the description, the VM's status is %+v, want the host's edits unchanged", s)
	}
	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
	if s := h.wantPower(vm.ID, fleet.Running); s.CPUs != 2 || s.MemoryMiB != 192 || len(s.NextBoot) != 0 {
		t.Errorf("after the start, the VM's status is %+v, want 2 vCPUs, 192 MiB and no pending field", s)
	}
	h.requireNoError("stop", h.StopVM(h.ctx, vm.ID))
	vm.Generation, vm.Spec.Disks = 3, append(slices.Clone(vm.Spec.Disks), newDisk(p))
	h.apply(vm)
	h.wantDrift(vm.ID, "after another disk", "name", "cpus", "memoryMiB")
	// A user's change of a field is applied, even if somebody also changed that field on the host.
	vm.Generation, vm.Spec.CPUs = 4, 3
	h.apply(vm)
	h.wantDrift(vm.ID, "after an edit of the vCPUs", "name", "memoryMiB")
	if s := h.wantStatus(vm.ID, 4); s.CPUs != 3 || s.MemoryMiB != 192 || len(s.Disks) != 2 {
		t.Errorf("after the edit of the vCPUs, the VM's status is %+v, want 3 vCPUs, 192 MiB and two disks", s)
	}
	vm.Generation, vm.Name = 5, uniqueName("renamed")
	h.apply(vm)
	h.wantDrift(vm.ID, "after a rename", "memoryMiB")
	if r, _ := h.reportedVM(vm.ID); r.Status.Domain != "" {
		t.Errorf("after the rename, the status has the domain name %q, want none", r.Status.Domain)
	}
}

func testReapplyOverwritesEdits(t *testing.T, h *testHost) {
	vm, _ := h.newDriftedVM()
	h.requireNoError("reapply", h.ApplyVM(h.ctx, changedJob(h.applyJob(vm), func(in *hypervisor.ApplyWork) { in.Reapply = true })))
	h.wantDrift(vm.ID, "after the reapply")
	if s := h.wantStatus(vm.ID, 1); s.CPUs != 1 || s.MemoryMiB != 128 || s.Domain != "" {
		t.Errorf("after the reapply, the VM's status is %+v, want 1 vCPU, 128 MiB and no domain name", s)
	}
}

func testReapplyOfOneField(t *testing.T, h *testHost) {
	vm, other := h.newDriftedVM()
	h.requireNoError("reapply", h.ApplyVM(h.ctx, changedJob(h.applyJob(vm), func(in *hypervisor.ApplyWork) {
		in.Reapply, in.ReapplyFields = true, []string{"memoryMiB"}
	})))
	h.wantDrift(vm.ID, "after the reapply of the memory", "name", "cpus")
	if s := h.wantStatus(vm.ID, 1); s.CPUs != 2 || s.MemoryMiB != 128 || s.Domain != other {
		t.Errorf("after the reapply of the memory, the VM's status is %+v, want 2 vCPUs, 128 MiB and the domain name %s", s, other)
	}
}

func testAcceptDrift(t *testing.T, h *testHost) {
	p := h.newPool()
	h.harness.AddImage(t, p, Image{Name: "boot.iso", Kind: Raw, SizeBytes: 1 << 20})
	vm, other := h.newDriftedVM()
	h.harness.EditVM(t, vm.ID, VMEdit{ISO: p.Spec.Path + "/boot.iso"})
	got := h.wantDrift(vm.ID, "after a medium", "name", "cpus", "memoryMiB", "iso")
	iso := driftValue[*fleet.Volref](t, got, "iso")
	vm.Generation, vm.Name = 2, driftValue[string](t, got, "name")
	vm.Spec.CPUs, vm.Spec.MemoryMiB, vm.Spec.ISO = driftValue[int](t, got, "cpus"), driftValue[int](t, got, "memoryMiB"), iso
	if vm.Name != other || iso == nil || *iso != (fleet.Volref{PoolID: p.ID, Volume: "boot.iso"}) {
		t.Errorf("the drift to accept has the name %q and the ISO image %+v, want the values on the host", vm.Name, iso)
	}
	h.apply(vm)
	h.wantDrift(vm.ID, "after the drift was accepted")
	if s := h.wantStatus(vm.ID, 2); s.CPUs != 2 || s.MemoryMiB != 192 || s.Domain != "" {
		t.Errorf("after the drift was accepted, the VM's status is %+v, want 2 vCPUs and 192 MiB", s)
	}
}

func testDetachedDiskIsDrift(t *testing.T, h *testHost) {
	p := h.newPool()
	vm := h.newVM(newDisk(p), newDisk(p))
	vm.Spec.NICs = []fleet.NIC{{Network: h.harness.ActiveNetwork, MAC: uniqueMAC()}}
	h.apply(vm)
	h.reportedVM(vm.ID)
	h.harness.EditVM(t, vm.ID, VMEdit{DetachDisk: "vdb", Network: "elsewhere"})
	got := h.wantDrift(vm.ID, "after the detach", "disks", "nics")
	if left := driftValue[[]fleet.Disk](t, got, "disks"); len(left) != 1 || left[0].Ref() != vm.Spec.Disks[0].Ref() || left[0].SizeBytes != vm.Spec.Disks[0].SizeBytes {
		t.Errorf("the disks in the drift are %+v, want only the first disk", left)
	}
	if nics := driftValue[[]fleet.NIC](t, got, "nics"); len(nics) != 1 || nics[0].Network != "elsewhere" || nics[0].MAC != vm.Spec.NICs[0].MAC {
		t.Errorf("the NICs in the drift are %+v, want the NIC on the network elsewhere", nics)
	}
	vm.Generation, vm.Spec.CPUs = 2, 2
	h.apply(vm)
	if s := h.wantStatus(vm.ID, 2); len(s.Disks) != 1 || s.CPUs != 2 || s.NICs[0].Source != "network elsewhere" {
		t.Errorf("after an edit of the vCPUs, the VM's status is %+v, want the host's edits unchanged", s)
	}
	h.wantDrift(vm.ID, "after the edit", "disks", "nics")
	putBack := changedJob(h.applyJob(vm), func(in *hypervisor.ApplyWork) { in.Reapply = true })
	back := h.harness.HideVolume(t, p, vm.Spec.Disks[1].Volume)
	h.requireRefusal("reapply a missing disk", h.ApplyVM(h.ctx, putBack), "Disk 2 (pool "+p.Name)
	back()
	h.requireNoError("reapply", h.ApplyVM(h.ctx, putBack))
	h.wantDrift(vm.ID, "after the reapply")
	if s := h.wantStatus(vm.ID, 2); len(s.Disks) != 2 || s.NICs[0].Source != "network "+h.harness.ActiveNetwork {
		t.Errorf("after the reapply, the VM's status is %+v, want two disks and the spec's network", s)
	}
	// Accepting the drift removes the detached disk from the spec, so the VM has no drift.
	h.harness.EditVM(t, vm.ID, VMEdit{DetachDisk: "vdb"})
	got = h.wantDrift(vm.ID, "after another detach", "disks")
	vm.Generation, vm.Spec.Disks = 3, driftValue[[]fleet.Disk](t, got, "disks")
	h.apply(vm)
	h.wantDrift(vm.ID, "after the drift was accepted")
}

// Somebody defines the domain again from an old copy. The generation in the copy is valid, but the agent knows that it
// applied a newer one.
func testRestoredDefinition(t *testing.T, h *testHost) {
	vm := h.definedVM()
	restore := h.harness.SaveDefinition(t, vm.ID)
	vm.Generation, vm.Spec.CPUs = 2, 2
	h.apply(vm)
	restore()
	vm.Generation = 3
	h.requireNoError("apply", h.ApplyVM(h.ctx, changedJob(h.applyJob(vm), func(in *hypervisor.ApplyWork) { in.AppliedGeneration = 2 })))
	if s := h.wantStatus(vm.ID, 3); s.CPUs != 1 {
		t.Errorf("after an edit of the restored domain, the VM's status is %+v, want 1 vCPU", s)
	}
	h.wantDrift(vm.ID, "after the edit", "cpus")
}

// After a restore of its database, the portal sends a generation older than the definition's generation, or another
// spec with the same generation. The applied spec stays and shows as drift; later edits are applied.
func testPortalDatabaseRestored(t *testing.T, h *testHost) {
	vm := h.definedVM()
	order := func(generation, stamped int64, hash string, cpus, memoryMiB int) {
		vm.Generation, vm.Spec.CPUs, vm.Spec.MemoryMiB = generation, cpus, memoryMiB
		h.requireNoError("apply", h.ApplyVM(h.ctx, changedJob(h.applyJob(vm), func(in *hypervisor.ApplyWork) { in.AppliedGeneration, in.SpecHash = stamped, hash })))
	}
	memory := vm.Spec.MemoryMiB
	has := func(when string, generation int64, cpus, memoryMiB int, drift ...string) {
		t.Helper()
		if s := h.wantStatus(vm.ID, generation); s.CPUs != cpus || s.MemoryMiB != memoryMiB {
			t.Errorf("%s the VM has %d vCPUs and %d MiB", when, s.CPUs, s.MemoryMiB)
		}
		h.wantDrift(vm.ID, when, drift...)
	}
	order(2, 1, "b", 2, memory)
	has("after an edit", 2, 2, memory)
	order(1, 2, "a", 1, memory)
	has("at the generation before", 1, 2, memory, "cpus")
	order(2, 1, "c", 1, memory+64)
	has("after another edit", 2, 2, memory+64, "cpus")
	order(2, 2, "d", 1, memory+128)
	has("at the same generation with another spec", 2, 2, memory+64, "cpus", "memoryMiB")
	order(2, 2, "d", 1, memory+128)
	has("at the same generation again", 2, 2, memory+64, "cpus", "memoryMiB")
	order(3, 2, "e", 3, memory+128)
	has("after an edit of a drifted field", 3, 3, memory+64, "memoryMiB")
}
