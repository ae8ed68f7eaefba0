package conformance

import (
	"fmt"
	"slices"
	"testing"

	"quantix/internal/fleet"
)

// diskWithAllFields and nicWithAllFields return the disk or NIC with every field set to a non-default value. The limits
// are consistent.
func diskWithAllFields(d fleet.Disk) fleet.Disk {
	d.Bus, d.Cache, d.IO, d.Discard, d.BootOrder, d.Serial, d.ReadOnly = "scsi", "writeback", "threads", "ignore", 2, "QX-1", true
	d.Limits = fleet.DiskLimits{TotalIOPS: 500, BurstIOPS: 1000, ReadKiB: 2048, WriteKiB: 1024, BurstSeconds: 5}
	return d
}

func nicWithAllFields(n fleet.NIC) fleet.NIC {
	n.Model, n.BootOrder, n.LinkDown = "e1000e", 1, true
	return n
}

// Disks and NICs have the requested values at creation and after an edit of a stopped VM. After an edit of a running
// VM, they have the values immediately if possible, and otherwise at the next start.
func testDiskAndNICFields(t *testing.T, h *testHost) {
	p := h.newPool()
	vm := h.newVM(newDisk(p), newDisk(p))
	plain := slices.Clone(vm.Spec.Disks)
	card := fleet.NIC{Network: h.harness.ActiveNetwork, MAC: uniqueMAC()}
	vm.Spec.Disks = []fleet.Disk{diskWithAllFields(plain[0]), plain[1]}
	vm.Spec.NICs = []fleet.NIC{nicWithAllFields(card)}
	h.apply(vm)
	h.wantNoPendingChanges(vm, "created with all fields")
	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
	h.wantPower(vm.ID, fleet.Running)
	h.wantNoPendingChanges(vm, "started")

	edit := func(waits []string, change func(*fleet.VMSpec)) {
		t.Helper()
		vm.Generation++
		vm.Spec.Disks, vm.Spec.NICs = slices.Clone(vm.Spec.Disks), slices.Clone(vm.Spec.NICs)
		change(&vm.Spec)
		for range 2 { // a repeated job changes nothing
			h.apply(vm)
			if s := h.wantStatus(vm.ID, vm.Generation); !slices.Equal(s.NextBoot, waits) || len(s.Drift) != 0 {
				t.Errorf("generation %d: pending fields %q, want %q; drift %+v", vm.Generation, s.NextBoot, waits, s.Drift)
			}
		}
	}
	edit(nil, func(s *fleet.VMSpec) { s.NICs[0].LinkDown = false })
	edit(nil, func(s *fleet.VMSpec) {
		s.Disks[0].Limits = fleet.DiskLimits{TotalKiB: 4096, BurstKiB: 8192}
		s.Disks[1].Limits = fleet.DiskLimits{WriteIOPS: 100}
	})
	edit(nil, func(s *fleet.VMSpec) { s.Disks[0].Limits, s.Disks[1].Limits = fleet.DiskLimits{}, fleet.DiskLimits{} })
	for _, f := range fleet.DiskFields {
		if f.TakesEffect != fleet.WhenNextBoot { // fields that only a stopped guest can change: see testSharedDisks
			continue
		}
		usual := plain[0]
		edit([]string{"disks"}, func(s *fleet.VMSpec) { f.Copy(&s.Disks[0], usual) })
		full := diskWithAllFields(usual)
		edit(nil, func(s *fleet.VMSpec) { f.Copy(&s.Disks[0], full) })
	}
	edit([]string{"nics"}, func(s *fleet.VMSpec) { s.NICs[0].Model = "" })
	edit([]string{"nics"}, func(s *fleet.VMSpec) { s.NICs[0].Queues = 2 })
	edit([]string{"disks", "nics"}, func(s *fleet.VMSpec) { s.Disks[0], s.NICs[0] = plain[0], card })
	h.requireNoError("stop", h.StopVM(h.ctx, vm.ID))
	h.wantPower(vm.ID, fleet.Stopped)
	h.wantNoPendingChanges(vm, "stopped")
	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
	h.wantPower(vm.ID, fleet.Running)
	h.wantNoPendingChanges(vm, "started with the defaults")

	// Not every host's kernel supports bandwidth limits or several queues for a NIC, but the VM's definition contains
	// these settings on each host.
	other := h.newVM()
	card.MAC, card.Queues = uniqueMAC(), 4
	card.Limits = fleet.NICLimits{InKiB: 1000, InPeakKiB: 2000, InBurstKiB: 512, OutKiB: 500, OutPeakKiB: 600, OutBurstKiB: 64}
	other.Spec.NICs = []fleet.NIC{card}
	h.apply(other)
	h.wantNoPendingChanges(other, "created with NIC limits")
	edits := []func(*fleet.NIC){
		func(n *fleet.NIC) { n.Queues = 0 },
		func(n *fleet.NIC) { n.Limits.InPeakKiB, n.Limits.OutBurstKiB = 0, 0 },
		func(n *fleet.NIC) { n.Limits.InKiB, n.Limits.InBurstKiB = 0, 0 },
		func(n *fleet.NIC) { n.Limits = fleet.NICLimits{} },
	}
	for _, change := range edits {
		other.Generation++
		other.Spec.NICs = slices.Clone(other.Spec.NICs)
		change(&other.Spec.NICs[0])
		h.apply(other)
		h.wantNoPendingChanges(other, "edited")
	}
}

// Disks are hot-plugged and hot-unplugged. A disk that the guest does not release is reported as present. A disk on a
// bus without hot-plug waits for the next start.
func testHotPlugDisks(t *testing.T, h *testHost) {
	p := h.newPool()
	first, second, third, fourth, fifth := newDisk(p), newDisk(p), newDisk(p), newDisk(p), newDisk(p)
	third.Bus, fourth.Bus, fifth.Bus = "scsi", "sata", "usb"
	vm := h.runningVM(first)
	vm.Generation, vm.Spec.Disks = 2, []fleet.Disk{first, second, third, fifth}
	for range 2 {
		h.apply(vm)
		if s := h.wantStatus(vm.ID, 2); len(s.Disks) != 4 || len(s.NextBoot) != 0 || len(s.Drift) != 0 {
			t.Fatalf("with three more disks: %+v", s)
		}
	}
	vm.Generation, vm.Spec.Disks = 3, []fleet.Disk{first, second, third, fourth, fifth}
	h.apply(vm)
	if s := h.wantStatus(vm.ID, 3); len(s.Disks) != 4 || !slices.Equal(s.NextBoot, []string{"disks"}) || len(s.PendingUnplug) != 0 || len(s.Drift) != 0 {
		t.Errorf("after a SATA disk was added, the VM's status is %+v, want four disks and disks pending", s)
	}
	vm.Generation, vm.Spec.Disks = 4, []fleet.Disk{first, third}
	h.apply(vm)
	s := h.wantStatus(vm.ID, 4)
	var held []fleet.PendingUnplug
	if len(s.Disks) > 2 {
		held = []fleet.PendingUnplug{{Field: "disks", What: "disk vdb (" + second.Volume + ")"}}
	}
	if len(s.Disks) > 3 || (held != nil) != slices.Contains(s.NextBoot, "disks") || !slices.Equal(s.PendingUnplug, held) || len(s.Drift) != 0 {
		t.Errorf("after two disks were removed, the VM's status is %+v, want at most the second one pending", s)
	}
	h.requireNoError("stop", h.StopVM(h.ctx, vm.ID))
	h.requireNoError("start again", h.StartVM(h.ctx, vm.ID))
	if s := h.wantPower(vm.ID, fleet.Running); len(s.Disks) != 2 || len(s.NextBoot) != 0 {
		t.Errorf("after the next start, the VM's status is %+v, want two disks and no pending field", s)
	}
	for _, d := range []fleet.Disk{second, fourth, fifth} {
		if _, there := h.reportedVolume(p, d.Volume); !there {
			t.Errorf("the disk %s was removed from the VM, and its volume no longer exists", d.Volume)
		}
	}
}

// hotUnplugAndReplug removes vCPUs and memory from the guest and adds them again. If the guest does not release them,
// the host must report that. An emulated guest keeps its vCPUs.
func (h *testHost) hotUnplugAndReplug(vm *fleet.VM) {
	h.t.Helper()
	was := h.wantStatus(vm.ID, vm.Generation)
	if len(was.Modules) < 2 || was.Accelerator != "kvm" && was.MinCPUs != 0 {
		h.t.Fatalf("the guest can give back %+v and, on %s, all but %d vCPUs", was.Modules, was.Accelerator, was.MinCPUs)
	}
	newest := was.Modules[len(was.Modules)-1].MiB
	full := vm.Spec
	vm.Generation++
	vm.Spec.CPUs, vm.Spec.MemoryMiB = full.CPUs-1, full.MemoryMiB-newest
	h.apply(*vm)
	s := h.wantStatus(vm.ID, vm.Generation)
	var waits []string
	var held []fleet.PendingUnplug
	if s.CPUs == full.CPUs {
		waits = append(waits, "cpus")
	}
	if s.MemoryMiB == full.MemoryMiB {
		waits, held = append(waits, "memoryMiB"), append(held, fleet.PendingUnplug{Field: "memoryMiB", What: fmt.Sprintf("%d MiB of memory", newest)})
	}
	if s.CPUs == full.CPUs && s.MinCPUs != 0 {
		held = append(held, fleet.PendingUnplug{Field: "cpus", What: "1 vCPU"})
	}
	if !slices.Equal(s.NextBoot, waits) || !slices.Equal(s.PendingUnplug, held) || len(s.Drift) != 0 {
		h.t.Errorf("after the removal: %d vCPUs, %d MiB, pending fields %q, pending unplug %+v, drift %+v", s.CPUs, s.MemoryMiB, s.NextBoot, s.PendingUnplug, s.Drift)
	}
	vm.Generation++
	vm.Spec.CPUs, vm.Spec.MemoryMiB = full.CPUs, full.MemoryMiB
	h.apply(*vm)
	if s := h.wantStatus(vm.ID, vm.Generation); s.CPUs != full.CPUs || s.MemoryMiB != full.MemoryMiB || len(s.NextBoot)+len(s.PendingUnplug)+len(s.Drift) != 0 {
		h.t.Errorf("after vCPUs and memory were added again, the VM's status is %+v, want no pending field", s)
	}
}

// A running guest gets vCPUs and memory up to its maximum, and media in its drives.
func testHotPlugCPUsAndMemory(t *testing.T, h *testHost) {
	p := h.newPool()
	h.harness.AddImage(t, p, Image{Name: "boot.iso", Kind: ISO, SizeBytes: 1 << 20})
	h.harness.AddImage(t, p, Image{Name: "floppy.img", Kind: Raw, SizeBytes: 1440 << 10})
	vm := h.newVM()
	vm.Spec.CPU.Max, vm.Spec.Memory.MaxMiB = 6, 1024
	vm.Spec.Drives = []fleet.VMDrive{{Slot: "cdrom2"}, {Slot: "floppy1"}}
	h.apply(vm)
	h.wantNoPendingChanges(vm, "created with higher maximums")
	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
	if s := h.wantPower(vm.ID, fleet.Running); s.CPUs != 1 || s.MaxCPUs != 6 || s.MemoryMiB != 128 || s.MaxMemory != 1024 {
		t.Fatalf("the guest can get %+v", s)
	}
	edit := func(cpus, memory int, waits []string, change func(*fleet.VMSpec)) {
		t.Helper()
		vm.Generation++
		change(&vm.Spec)
		for range 2 {
			h.apply(vm)
			if s := h.wantStatus(vm.ID, vm.Generation); s.CPUs != cpus || s.MemoryMiB != memory || !slices.Equal(s.NextBoot, waits) || len(s.Drift) != 0 {
				t.Errorf("generation %d: status %+v, want %d vCPUs, %d MiB, pending %q", vm.Generation, s, cpus, memory, waits)
			}
		}
	}
	edit(2, 128, nil, func(s *fleet.VMSpec) { s.CPUs = 2 })
	edit(2, 512, nil, func(s *fleet.VMSpec) { s.MemoryMiB = 512 })
	edit(4, 1024, nil, func(s *fleet.VMSpec) { s.CPUs, s.MemoryMiB = 4, 1024 })
	edit(4, 1024, []string{"memoryMiB"}, func(s *fleet.VMSpec) { s.MemoryMiB = 200 }) // only a part of a module
	edit(4, 1024, nil, func(s *fleet.VMSpec) { s.MemoryMiB = 1024 })
	h.hotUnplugAndReplug(&vm)
	edit(4, 1024, nil, func(s *fleet.VMSpec) { s.ISO = &fleet.Volref{PoolID: p.ID, Volume: "boot.iso"} })
	in := func(slot int, volume string) func(s *fleet.VMSpec) {
		return func(s *fleet.VMSpec) {
			if s.Drives = slices.Clone(s.Drives); volume == "" {
				s.Drives[slot].Medium = nil
			} else {
				s.Drives[slot].Medium = &fleet.Volref{PoolID: p.ID, Volume: volume}
			}
		}
	}
	edit(4, 1024, nil, in(0, "boot.iso"))
	edit(4, 1024, nil, in(1, "floppy.img"))
	edit(4, 1024, nil, func(s *fleet.VMSpec) { s.ISO = nil })
	edit(4, 1024, nil, in(0, ""))
	edit(4, 1024, nil, in(1, ""))
	edit(4, 1024, []string{"drives"}, func(s *fleet.VMSpec) { s.Drives = s.Drives[:1] })
	edit(4, 1024, nil, func(s *fleet.VMSpec) { s.Drives = append(s.Drives[:1:1], fleet.VMDrive{Slot: "floppy1"}) })
	edit(4, 1024, nil, func(s *fleet.VMSpec) { s.Memory.BalloonMiB = 512 })
	edit(4, 1024, nil, func(s *fleet.VMSpec) { s.Memory.BalloonMiB = 0 })
	less := func(s *fleet.VMSpec) { s.CPUs, s.MemoryMiB, s.CPU.Max, s.Memory.MaxMiB = 1, 128, 0, 0 }
	edit(4, 1024, []string{"cpu.max", "memory.maxMiB"}, func(s *fleet.VMSpec) { s.CPU.Max, s.Memory.MaxMiB = 4, 1152 })
	edit(4, 1024, nil, func(s *fleet.VMSpec) { s.CPU.Max, s.Memory.MaxMiB = 6, 1024 })
	edit(6, 1024, nil, func(s *fleet.VMSpec) { s.CPUs = 6 }) // the maximum
	vm.Generation++
	less(&vm.Spec)
	h.apply(vm)
	h.requireNoError("stop", h.StopVM(h.ctx, vm.ID))
	h.requireNoError("start again", h.StartVM(h.ctx, vm.ID))
	if s := h.wantPower(vm.ID, fleet.Running); s.CPUs != 1 || s.MemoryMiB != 128 || s.MaxCPUs != 0 || s.MaxMemory != 0 || len(s.NextBoot) != 0 {
		t.Errorf("after the next start, the VM's status is %+v, want 1 vCPU, 128 MiB and no pending field", s)
	}
}
