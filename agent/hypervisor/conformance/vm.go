package conformance

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

func testCreateVM(t *testing.T, h *testHost) {
	p := h.newPool()
	vm := h.newVM(newDisk(p), newDisk(p))
	vm.Spec.NICs = []fleet.NIC{{Network: h.harness.ActiveNetwork, MAC: uniqueMAC()}}
	vm.Generation = 7
	h.apply(vm)

	s := h.wantStatus(vm.ID, 7)
	if s.Power != fleet.Stopped || s.CPUs != 1 || s.MemoryMiB != 128 || len(s.NextBoot) != 0 || s.StartedAt != nil {
		t.Errorf("the new VM's status is %+v, want it stopped, with 1 vCPU and 128 MiB", s)
	}
	if s.Accelerator != "kvm" && s.Accelerator != "qemu" {
		t.Errorf("the accelerator is %q, want kvm or qemu", s.Accelerator)
	}
	if len(s.Disks) != 2 {
		t.Fatalf("disks are %+v, want two", s.Disks)
	}
	for i, d := range s.Disks {
		if d.Target != []string{"vda", "vdb"}[i] || d.Path != p.Spec.Path+"/"+vm.Spec.Disks[i].Volume || d.SizeBytes != 8<<20 {
			t.Errorf("disk %d is %+v, want the target, path and size of the spec", i, d)
		}
	}
	if len(s.NICs) != 1 || s.NICs[0].MAC != vm.Spec.NICs[0].MAC || s.NICs[0].Source != "network "+h.harness.ActiveNetwork {
		t.Errorf("the NICs are %+v, want the spec's NIC", s.NICs)
	}

	state := h.hostState(p)
	r, ok := find(state.VMs, func(r wire.VMReport) bool { return r.ID == vm.ID })
	if !ok || r.Name != vm.Name || r.Generation != 7 || !reflect.DeepEqual(r.Status, s) {
		t.Errorf("the host state has the VM as %+v, but VM returned %+v", r, s)
	}
	if _, ok := find(state.Discovered, func(f fleet.DiscoveredVM) bool { return f.ID == vm.ID }); ok {
		t.Error("a VM of Quantix is listed as discovered")
	}
	if !state.Host.Connected || state.Host.Hypervisor == "" || len(state.Host.Inventory.Accelerators) == 0 ||
		!slices.Contains(state.Host.Inventory.Firmwares, fleet.BIOS) {
		t.Errorf("the host's status is %+v, want it connected, with accelerators and BIOS", state.Host)
	}
}

func testApplyIsIdempotent(t *testing.T, h *testHost) {
	p := h.newPool()
	vm := h.runningVM(newDisk(p))
	before := h.wantStatus(vm.ID, 1)
	h.apply(vm)
	if after := h.wantStatus(vm.ID, 1); !reflect.DeepEqual(before, after) {
		t.Errorf("applying the same spec again changed the status to\n%+v from\n%+v", after, before)
	}
	vm.Generation = 2
	h.apply(vm)
	if after := h.wantStatus(vm.ID, 2); !reflect.DeepEqual(before, after) {
		t.Errorf("a new generation without a change changed the status to\n%+v from\n%+v", after, before)
	}
}

func testAbsentVM(t *testing.T, h *testHost) {
	id := fleet.NewID[fleet.VMID]()
	if s := h.wantStatus(id, 0); s.Power != fleet.Absent {
		t.Errorf("the power state of a missing VM is %q, want absent", s.Power)
	}
	if h.StartVM(h.ctx, id) == nil {
		t.Error("a VM that does not exist was started")
	}
	h.requireNoError("delete", h.DeleteVM(h.ctx, fleet.VM{Meta: fleet.Meta{ID: id, Name: uniqueName("vm")}}, nil, true))
}

func testPowerActions(t *testing.T, h *testHost) {
	vm := h.runningVM()
	first := h.wantPower(vm.ID, fleet.Running)
	if first.StartedAt == nil {
		t.Error("a running guest has no start time")
	}
	h.requireNoError("start again", h.StartVM(h.ctx, vm.ID))
	if again := h.wantPower(vm.ID, fleet.Running); !reflect.DeepEqual(first, again) {
		t.Errorf("the second start changed the status to\n%+v from\n%+v", again, first)
	}
	for range 2 {
		h.requireNoError("pause", h.PauseVM(h.ctx, vm.ID))
		h.wantPower(vm.ID, fleet.Paused)
	}
	for range 2 {
		h.requireNoError("resume", h.ResumeVM(h.ctx, vm.ID))
		h.wantPower(vm.ID, fleet.Running)
	}
	h.requireNoError("reset", h.ResetVM(h.ctx, vm.ID))
	h.wantPower(vm.ID, fleet.Running)
	// The test does not check whether the guest reacts.
	h.requireNoError("reboot", h.RebootVM(h.ctx, vm.ID))
	h.requireNoError("shut down", h.ShutdownVM(h.ctx, vm.ID))
	for range 2 {
		h.requireNoError("stop", h.StopVM(h.ctx, vm.ID))
		if s := h.wantPower(vm.ID, fleet.Stopped); s.StartedAt != nil {
			t.Error("a stopped guest has a start time")
		}
	}
	h.requireNoError("shut down a stopped guest", h.ShutdownVM(h.ctx, vm.ID))
	if got := h.harness.PowerOf(t, vm.ID); got != fleet.Stopped {
		t.Errorf("after the shutdown of a stopped guest, the power state is %q, want stopped", got)
	}
}

func testActionsNeedRunningGuest(t *testing.T, h *testHost) {
	vm := h.definedVM()
	_, console := h.Console(h.ctx, vm.ID)
	for act, err := range map[string]error{
		"reboot": h.RebootVM(h.ctx, vm.ID), "reset": h.ResetVM(h.ctx, vm.ID), "console": console,
		"pause": h.PauseVM(h.ctx, vm.ID), "resume": h.ResumeVM(h.ctx, vm.ID),
	} {
		if !errors.Is(err, hypervisor.ErrNotRunning) {
			t.Errorf("%s: %v, want ErrNotRunning", act, err)
		}
	}
}

func testEditOfStoppedVM(t *testing.T, h *testHost) {
	p := h.newPool()
	vm := h.definedVM(newDisk(p), newDisk(p))
	vm.Generation, vm.Spec.CPUs, vm.Spec.MemoryMiB = 2, 3, 192
	vm.Spec.Disks = vm.Spec.Disks[1:]
	vm.Spec.NICs = []fleet.NIC{{Network: h.harness.ActiveNetwork, MAC: uniqueMAC()}}
	h.apply(vm)
	s := h.wantStatus(vm.ID, 2)
	if s.CPUs != 3 || s.MemoryMiB != 192 || len(s.NextBoot) != 0 || len(s.NICs) != 1 {
		t.Errorf("the edited VM's status is %+v, want 3 vCPUs, 192 MiB, one NIC and no pending field", s)
	}
	if len(s.Disks) != 1 || !strings.HasSuffix(s.Disks[0].Path, vm.Spec.Disks[0].Volume) {
		t.Errorf("the edited VM's disks are %+v, want only the second disk", s.Disks)
	}
}

func testEditWaitsForNextStart(t *testing.T, h *testHost) {
	p := h.newPool()
	h.harness.AddImage(t, p, Image{Name: "boot.iso", Kind: ISO, SizeBytes: 1 << 20})
	vm := h.runningVM()
	vm.Generation, vm.Spec.CPUs = 2, 2
	h.apply(vm)
	if s := h.wantStatus(vm.ID, 2); s.CPUs != 1 || !slices.Equal(s.NextBoot, []string{"cpus"}) {
		t.Errorf("after an edit of the vCPUs: %d vCPUs, want 1; the pending fields are %q, want cpus", s.CPUs, s.NextBoot)
	}

	vm.Generation, vm.Spec.MemoryMiB = 3, 192
	vm.Spec.Disks = []fleet.Disk{newDisk(p)}
	vm.Spec.NICs = []fleet.NIC{{Network: h.harness.ActiveNetwork, MAC: uniqueMAC()}}
	vm.Spec.ISO = &fleet.Volref{PoolID: p.ID, Volume: "boot.iso"}
	h.apply(vm)
	s := h.wantStatus(vm.ID, 3)
	if want := []string{"cpus", "memoryMiB"}; !slices.Equal(s.NextBoot, want) {
		t.Errorf("the fields pending until the next boot are %q, want %q", s.NextBoot, want)
	}
	if s.Power != fleet.Running || s.CPUs != 1 || s.MemoryMiB != 128 {
		t.Errorf("the edit changed the running guest's status to %+v, want 1 vCPU and 128 MiB", s)
	}

	h.requireNoError("stop", h.StopVM(h.ctx, vm.ID))
	if s := h.wantPower(vm.ID, fleet.Stopped); len(s.NextBoot) != 0 || s.CPUs != 2 || s.MemoryMiB != 192 {
		t.Errorf("after the stop, the VM's status is %+v, want 2 vCPUs, 192 MiB and no pending field", s)
	}
	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
	if s := h.wantPower(vm.ID, fleet.Running); len(s.NextBoot) != 0 || s.CPUs != 2 || s.MemoryMiB != 192 || len(s.Disks) != 1 {
		t.Errorf("after the start, the VM's status is %+v, want 2 vCPUs, 192 MiB, one disk and no pending field", s)
	}
}

// A guest may not release a NIC. The NIC is then reported until the guest releases it.
func testHotPlugNICs(t *testing.T, h *testHost) {
	vm := h.newVM()
	first, second := fleet.NIC{Network: h.harness.ActiveNetwork, MAC: uniqueMAC()}, fleet.NIC{Network: h.harness.ActiveNetwork, MAC: uniqueMAC()}
	vm.Spec.NICs = []fleet.NIC{first}
	h.apply(vm)
	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
	vm.Generation, vm.Spec.NICs = 2, []fleet.NIC{first, second}
	for range 2 {
		h.apply(vm)
		s := h.wantStatus(vm.ID, 2)
		if len(s.NICs) != 2 || s.NICs[1].MAC != second.MAC || s.NICs[1].Source != "network "+h.harness.ActiveNetwork || len(s.NextBoot) != 0 || len(s.Drift) != 0 {
			t.Fatalf("with another NIC: %+v", s)
		}
	}
	h.requireNoError("pause", h.PauseVM(h.ctx, vm.ID)) // a paused guest does not react
	vm.Generation, vm.Spec.NICs = 3, []fleet.NIC{second}
	h.apply(vm)
	if s := h.wantStatus(vm.ID, 3); len(s.NICs) != 2 || !slices.Equal(s.NextBoot, []string{"nics"}) || !slices.Equal(s.PendingUnplug, []fleet.PendingUnplug{{Field: "nics", What: "NIC " + first.MAC}}) {
		t.Errorf("after the first NIC's removal from the paused VM, its status is %+v, want a pending unplug", s)
	}
	h.requireNoError("resume", h.ResumeVM(h.ctx, vm.ID))
	s := h.wantStatus(vm.ID, 3)
	held := slices.ContainsFunc(s.NICs, func(n fleet.NICState) bool { return n.MAC == first.MAC })
	if held != slices.Contains(s.NextBoot, "nics") || held != slices.Contains(s.PendingUnplug, fleet.PendingUnplug{Field: "nics", What: "NIC " + first.MAC}) || len(s.Drift) != 0 || !slices.ContainsFunc(s.NICs, func(n fleet.NICState) bool { return n.MAC == second.MAC }) {
		t.Errorf("after the resume, the VM's status is %+v, want the first NIC absent or its unplug pending", s)
	}
	h.requireNoError("stop", h.StopVM(h.ctx, vm.ID))
	h.requireNoError("start again", h.StartVM(h.ctx, vm.ID))
	if s := h.wantPower(vm.ID, fleet.Running); len(s.NICs) != 1 || s.NICs[0].MAC != second.MAC || len(s.NextBoot) != 0 {
		t.Errorf("after the next start, the VM's status is %+v, want only the second NIC and no pending field", s)
	}
}

func testRenameVM(t *testing.T, h *testHost) {
	vm := h.definedVM()
	vm.Generation, vm.Name = 2, uniqueName("renamed")
	h.apply(vm)
	if r, ok := h.reportedVM(vm.ID); !ok || r.Name != vm.Name || r.Generation != 2 || len(r.Status.NextBoot) != 0 {
		t.Errorf("the renamed VM's report is %+v, want the new name and no pending field", r)
	}
}

func testRenameRunningVM(t *testing.T, h *testHost) {
	vm := h.runningVM()
	old := vm.Name
	vm.Generation, vm.Name = 2, uniqueName("renamed")
	h.apply(vm)
	r, ok := h.reportedVM(vm.ID)
	if !ok || r.Name != old || r.Generation != 2 || !slices.Equal(r.Status.NextBoot, []string{"name"}) {
		t.Errorf("the report of the renamed running VM is %+v, want the old name, and name pending", r)
	}
	h.requireNoError("stop", h.StopVM(h.ctx, vm.ID))
	h.apply(vm)
	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
	if r, ok := h.reportedVM(vm.ID); !ok || r.Name != vm.Name || len(r.Status.NextBoot) != 0 || r.Status.Power != fleet.Running {
		t.Errorf("after the restart, the renamed VM's report is %+v, want the new name", r)
	}
}

func testDeleteVM(t *testing.T, h *testHost) {
	p := h.newPool()
	vm := h.runningVM(newDisk(p))
	vol := vm.Spec.Disks[0].Volume
	for range 2 {
		h.requireNoError("delete", h.DeleteVM(h.ctx, vm, h.pools, false))
		h.wantPower(vm.ID, fleet.Absent)
		if got := h.harness.PowerOf(t, vm.ID); got != fleet.Absent {
			t.Fatalf("the host itself reports %q", got)
		}
	}
	if v, ok := h.reportedVolume(p, vol); !ok || v.Format != "qcow2" || v.CapacityBytes != 8<<20 {
		t.Fatalf("the remaining disk is %+v", v)
	}
	h.apply(vm)
	for range 2 {
		h.requireNoError("delete with disks", h.DeleteVM(h.ctx, vm, h.pools, true))
	}
	if _, ok := h.reportedVolume(p, vol); ok {
		t.Error("the disk still exists")
	}
}

func testRecycleVM(t *testing.T, h *testHost) {
	p := h.newPool()
	vm := h.runningVM(newDisk(p))
	for range 2 {
		h.requireNoError("recycle", h.RecycleVM(h.ctx, vm.ID))
		h.wantPower(vm.ID, fleet.Stopped)
	}
	if v, ok := h.reportedVolume(p, vm.Spec.Disks[0].Volume); !ok {
		t.Fatalf("the disk is %+v, want it unchanged", v)
	}
	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
	h.wantPower(vm.ID, fleet.Running)
}
