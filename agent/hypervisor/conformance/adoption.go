package conformance

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// adoptableVM creates a running domain with a disk in the pool, and returns the domain as the host reads it.
func (h *testHost) adoptableVM(p fleet.Pool) (vm fleet.VM, read fleet.AdoptableVM) {
	h.t.Helper()
	disk := uniqueName("crm") + ".qcow2"
	h.createVolume(p, disk, fleet.VolumeParams{Format: "qcow2", SizeBytes: 4 << 20})
	vm = h.newVM()
	name := uniqueName("old-crm")
	vm.ID = h.harness.DefineAdoptableVM(h.t, name, filepath.Join(p.Spec.Path, disk), h.harness.ActiveNetwork)
	read, err := h.ReadUnmanagedVM(h.ctx, vm.ID, []fleet.Pool{p})
	h.requireNoError("read the unmanaged domain", err)
	if read.Name != name || len(read.Refusals) > 0 || len(read.Verbatim) == 0 {
		h.t.Fatalf("the host reads the domain %s as %+v, want no refusal and a verbatim part", name, read)
	}
	if d := read.Spec.Disks; len(d) != 1 || d[0].Ref() != (fleet.Volref{PoolID: p.ID, Volume: disk}) || d[0].SizeBytes != 4<<20 {
		h.t.Fatalf("the disks of the domain are read as %+v", d)
	}
	if n := read.Spec.NICs; len(n) != 1 || n[0].Network != h.harness.ActiveNetwork || n[0].MAC == "" {
		h.t.Fatalf("the NICs of the domain are read as %+v", n)
	}
	var checks fleet.Checks
	if read.Spec.Check(&checks, "spec"); checks.Len() > 0 {
		h.t.Fatalf("the portal refuses the spec: %+v", checks.Err())
	}
	vm.Name, vm.Generation, vm.Spec = name, 1, read.Spec
	return vm, read
}

// adoptionJob returns the job that adopts the domain.
func (h *testHost) adoptionJob(vm fleet.VM) hypervisor.ApplyWork {
	job := h.applyJob(vm)
	job.Adopted = true
	return job
}

func testAdoption(t *testing.T, h *testHost) {
	p := h.newPool()
	vm, read := h.adoptableVM(p)
	before := h.harness.DefinitionsOf(t, vm.ID)
	h.requireRefusal("apply a VM that was not adopted", h.ApplyVM(h.ctx, h.applyJob(vm)), "not created by Quantix")
	for range 2 { // the second job finds the VM adopted
		h.requireNoError("adopt", h.ApplyVM(h.ctx, h.adoptionJob(vm)))
		h.wantDefinitions("the adoption", vm.ID, before)
	}
	h.wantDrift(vm.ID, "after the adoption")
	if s := h.wantPower(vm.ID, fleet.Running); len(s.NextBoot) > 0 || len(s.Faults) > 0 {
		t.Errorf("after the adoption, the VM is %+v, want no pending changes and no faults", s)
	}

	vm.Generation, vm.Spec.MemoryMiB = 2, vm.Spec.MemoryMiB+32
	h.requireNoError("edit", h.ApplyVM(h.ctx, h.adoptionJob(vm)))
	h.wantDrift(vm.ID, "after the edit")
	if s := h.wantPower(vm.ID, fleet.Running); !slices.Equal(s.NextBoot, []string{"memoryMiB"}) {
		t.Errorf("after the edit, the fields %q wait for the next start, want the memory", s.NextBoot)
	}
	h.wantVerbatim("the edit of the memory", vm, p, read)

	h.requireNoError("stop", h.StopVM(h.ctx, vm.ID))
	h.requireNoError("apply while off", h.ApplyVM(h.ctx, h.adoptionJob(vm)))
	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
	h.wantDrift(vm.ID, "after the next start")
	h.wantVerbatim("the next start", vm, p, read)
	extra := newDisk(p)
	vm.Generation, vm.Spec.Disks = 3, append(slices.Clone(vm.Spec.Disks), extra)
	h.requireNoError("add a disk", h.ApplyVM(h.ctx, h.adoptionJob(vm)))
	vm.Generation, vm.Spec.Disks, vm.Spec.NICs = 4, vm.Spec.Disks[1:], nil
	h.requireNoError("remove the adopted disk and NIC", h.ApplyVM(h.ctx, h.adoptionJob(vm)))
	h.wantDrift(vm.ID, "after the removal of the adopted devices")

	h.harness.PowerOff(t, vm.ID)
	h.requireNoError("start with other devices", h.StartVM(h.ctx, vm.ID))
	for range 2 {
		h.requireNoError("release", h.ReleaseVM(h.ctx, vm))
	}
	f, ok := find(h.hostState().Discovered, func(f fleet.DiscoveredVM) bool { return f.ID == vm.ID })
	if !ok || f.Status.Power != fleet.Running {
		t.Errorf("after the release, the domain is reported as %+v (%v), want it discovered and running", f, ok)
	}
	again, err := h.ReadUnmanagedVM(h.ctx, vm.ID, []fleet.Pool{p})
	h.requireNoError("read after the release", err)
	if d := again.Spec.Disks; len(d) != 1 || d[0].Ref() != extra.Ref() || len(again.Spec.NICs) != 0 {
		t.Errorf("after the release, the domain is read as %+v, want only the new disk", again.Spec)
	}
	h.requireNoError("release a VM that does not exist", h.ReleaseVM(h.ctx, h.newVM()))
}

// wantDefinitions checks that the domain's definitions are unchanged.
func (h *testHost) wantDefinitions(after string, id fleet.VMID, want []string) {
	h.t.Helper()
	for i, text := range h.harness.DefinitionsOf(h.t, id) {
		if text != want[i] {
			h.t.Errorf("after %s, definition %d is\n%s\nwant\n%s", after, i, text, want[i])
		}
	}
}

// wantVerbatim checks that the definition still has the parts that the spec does not express.
func (h *testHost) wantVerbatim(after string, vm fleet.VM, p fleet.Pool, want fleet.AdoptableVM) {
	h.t.Helper()
	is, err := h.ReadUnmanagedVM(h.ctx, vm.ID, []fleet.Pool{p})
	h.requireNoError("read", err)
	if !slices.Equal(is.Verbatim, want.Verbatim) {
		h.t.Errorf("after %s, the verbatim parts are\n%s\nwant\n%s", after, strings.Join(is.Verbatim, "\n"), strings.Join(want.Verbatim, "\n"))
	}
}

func testAdoptionRefused(t *testing.T, h *testHost) {
	p := h.newPool()
	vm, _ := h.adoptableVM(p)
	at := filepath.Join(p.Spec.Path, vm.Spec.Disks[0].Volume)
	want := func(words string, pools ...fleet.Pool) {
		t.Helper()
		read, err := h.ReadUnmanagedVM(h.ctx, vm.ID, pools)
		h.requireNoError("read", err)
		if !slices.ContainsFunc(read.Refusals, func(r string) bool { return strings.Contains(r, words) }) {
			t.Errorf("the refusals are %q, want one with %q", read.Refusals, words)
		}
	}
	restore := h.harness.HideVolume(t, p, vm.Spec.Disks[0].Volume)
	want("file is missing", p)
	restore()
	restore = h.harness.LinkVolume(t, p, vm.Spec.Disks[0].Volume)
	want("a link", p)
	restore()
	h.harness.DefineAdoptableVM(t, uniqueName("twin"), at, "")
	want("another VM of the host uses it", p)

	lost := h.newVM()
	h.requireRefusal("adopt a domain that the host does not have", h.ApplyVM(h.ctx, h.adoptionJob(lost)), "no longer has the VM")
	_, err := h.ReadUnmanagedVM(h.ctx, lost.ID, nil)
	h.requireRefusal("read a domain that the host does not have", err, string(lost.ID))

	define := h.harness.SaveDefinition(t, vm.ID)
	h.harness.UndefineVM(t, vm.ID)
	defer define()
	want("no persistent definition", p)
	h.requireRefusal("adopt a domain without definition", h.ApplyVM(h.ctx, h.adoptionJob(vm)), "no persistent definition")
}
