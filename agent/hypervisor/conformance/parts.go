package conformance

import (
	"slices"
	"testing"

	"quantix/internal/fleet"
)

// specWithAllFields sets every field that maps to one place of a definition to a non-default value. The spec starts on
// a host with emulation.
func specWithAllFields(s fleet.VMSpec) fleet.VMSpec {
	s.CPUs, s.MemoryMiB = 4, 256
	s.Firmware = fleet.UEFI
	s.CPU = fleet.VMCPU{Model: "qemu64", Sockets: 4, Cores: 2, Max: 8, Features: "+aes -svm", Shares: 512, Limit: 50, Reserved: 25, Pinned: "0"}
	s.Memory = fleet.VMMemory{Shared: true, MaxMiB: 1024, Nodes: "0", BalloonMiB: 192, MinMiB: 160}
	s.NUMA = []fleet.VMNUMANode{{CPUs: "0,1,4-5", MemoryMiB: 128}, {CPUs: "2-3,6-7", MemoryMiB: 128}}
	s.Boot = fleet.VMBoot{Menu: true, CDROM: 3}
	s.Display = fleet.VMDisplay{Video: "virtio", Heads: 2, Keyboard: "de-ch", Pointer: "mouse", Sound: "ich9", Spice: true, USBRedirection: 2}
	s.Security = fleet.VMSecurity{TPM: true, SecureBoot: true}
	s.Devices = fleet.VMDevices{Watchdog: "i6300esb", WatchdogAction: "pause", RNGRate: 4096, GuestAgent: "none", Balloon: "reporting", Serials: 2, Parallel: true}
	s.Drives = []fleet.VMDrive{{Slot: "cdrom2", BootOrder: 4}, {Slot: "floppy1"}}
	s.Rules = []fleet.PlacementRule{{Apart: true, Of: fleet.RuleVMLabels, Name: "tier=web"}}
	s.Health = []fleet.HealthCheck{{Kind: fleet.HealthWatchdog, Action: fleet.HealthReset}}
	s.Migration = fleet.VMMigration{Stays: true, LimitMiB: 100, PostCopy: true, DowntimeMs: 300}
	s.Placement = fleet.VMPlacement{Tolerations: "gpu maintenance=disk", Overcommit: true}
	s.Policy = fleet.VMPolicy{Autostart: "on", StartOrder: 2, StartDelay: 30, Restart: "always", StopOrder: 3, StopDelay: 20, HAPriority: "high", GuestExec: true}
	return s
}

// specWithHostFields sets the fields with which a host may be unable to start a VM: huge pages, vsock, devices, a
// kernel, locked memory. It also inserts media into the drives.
func specWithHostFields(s fleet.VMSpec, p fleet.Pool) fleet.VMSpec {
	in := func(name string) fleet.Volref { return fleet.Volref{PoolID: p.ID, Volume: name} }
	disc, floppy, kernel, initrd := in("drivers.iso"), in("floppy.img"), in("vmlinuz"), in("initrd")
	s.Boot.Kernel, s.Boot.Initrd, s.Boot.Cmdline = &kernel, &initrd, "console=ttyS0 <&'\"quiet"
	s.Drives = []fleet.VMDrive{{Slot: "cdrom2", BootOrder: 4, Medium: &disc}, {Slot: "floppy1", Medium: &floppy}}
	s.HostDevices = []fleet.VMHostDevice{{Device: "pci/0000:41:1f.7"}, {Device: "usb/046d:c52b"}, {Device: "usb-port/1-2.3"}, {Device: "mdev/nvidia-63"}}
	s.Shares = []fleet.VMShare{{Tag: "src", Folder: in("src")}}
	s.CPU.Sockets, s.CPU.Cores, s.CPU.Threads = 2, 2, 2
	s.Memory.Locked, s.Memory.HugePageKiB, s.Devices.VSOCK, s.Devices.GuestAgent = true, 2048, true, fleet.AgentOnVSOCK
	return s
}

// Each field has the requested value on a stopped VM and in its running guest. A change that waits for the next start
// is reported, and reverting the change ends the wait.
func testEveryDefinitionField(t *testing.T, h *testHost) {
	vm := h.newVM()
	p := h.newPool()
	for name, kind := range map[string]ImageKind{"drivers.iso": ISO, "floppy.img": Raw, "vmlinuz": Raw, "initrd": Raw, "src": DirectoryImage} {
		h.harness.AddImage(t, p, Image{Name: name, Kind: kind, SizeBytes: 1440 << 10})
	}
	vm.Spec = specWithHostFields(specWithAllFields(vm.Spec), p)
	for _, f := range fleet.VMFields {
		// testMemoryEncryption and testOldMachineType cover the first two excluded fields. Agents never get device classes.
		excluded := []string{"security.confidential", "boot.machine", "deviceClasses"}
		if f.Input.Section != "" && f.Default(vm.Spec) && !slices.Contains(excluded, f.Name) {
			t.Errorf("the field %s has its default value, so the test does not cover the field", f.Name)
		}
	}
	h.apply(vm)
	h.wantNoPendingChanges(vm, "created with all fields")

	starts := specWithAllFields(fleet.VMSpec{})
	vm.Generation, vm.Spec.CPU, vm.Spec.Memory, vm.Spec.Devices = vm.Generation+1, starts.CPU, starts.Memory, starts.Devices
	vm.Spec.Boot, vm.Spec.HostDevices = starts.Boot, nil // the media in the drives stay
	h.apply(vm)
	h.wantNoPendingChanges(vm, "edited while off")
	if models := h.hostState().Host.Inventory.CPUModels; !slices.Contains(models, vm.Spec.CPU.Model) {
		t.Errorf("the host's CPU models are %q, want the VM's model among them", models)
	}
	h.requireNoError("start", h.StartVM(h.ctx, vm.ID))
	h.wantPower(vm.ID, fleet.Running)
	h.wantNoPendingChanges(vm, "started")

	usual, full := h.newVM().Spec, vm.Spec
	usual.Firmware = full.Firmware
	change := func(to fleet.VMSpec, waits ...string) {
		vm.Spec = to
		vm.Generation++
		h.apply(vm)
		if s := h.wantStatus(vm.ID, vm.Generation); !slices.Equal(s.NextBoot, waits) || len(s.Drift) != 0 {
			h.t.Errorf("the fields pending until the next boot are %q, want %q; the drift is %+v", s.NextBoot, waits, s.Drift)
		}
	}
	// Each of these fields (keys) takes effect only together with the other field (value).
	with := map[string]string{"display.video": "display.heads", "devices.watchdog": "devices.watchdogAction", "display.spice": "display.usbRedirection", "memory.shared": "shares"}
	together := []string{"cpu.sockets", "cpu.cores", "cpu.threads", "cpu.max"}
	for _, f := range fleet.VMFields {
		if f.Input.Section == "" || f.Default(full) || slices.Contains(together, f.Name) {
			continue
		}
		one, waits := full, []string{f.Name}
		f.Copy(&one, usual)
		if more, ok := fleet.FieldByName(with[f.Name]); ok {
			more.Copy(&one, usual)
			waits = append(waits, more.Name)
		}
		if f.TakesEffect == fleet.WhenNow {
			waits = nil
		}
		change(one, waits...)
		change(full)
	}
	one := full // the product of the topology's values is the number of vCPUs
	one.CPU.Sockets, one.CPU.Cores, one.CPU.Threads = 2, 2, 2
	change(one, "cpu.sockets", "cpu.threads")
	change(full)
	h.requireNoError("stop", h.StopVM(h.ctx, vm.ID))
	h.wantPower(vm.ID, fleet.Stopped)
	h.requireNoError("delete", h.DeleteVM(h.ctx, vm, nil, true))
}

func (h *testHost) wantNoPendingChanges(vm fleet.VM, when string) {
	h.t.Helper()
	if s := h.wantStatus(vm.ID, vm.Generation); len(s.NextBoot) != 0 || len(s.Drift) != 0 {
		h.t.Errorf("%s: pending fields %q, want none; drift %+v", when, s.NextBoot, s.Drift)
	}
}
