package fleet_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

func changesText(all []fleet.Change) string {
	var out []string
	for _, c := range all {
		out = append(out, fmt.Sprintf("%s: %s (%s)", c.Field, c.Words, c.When))
	}
	return strings.Join(out, "; ")
}

func TestSpecDiffDescribesChangesAndEffectTime(t *testing.T) {
	t.Parallel()
	old := fleet.VMSpec{
		Power: fleet.Running, CPUs: 2, MemoryMiB: 512, Firmware: fleet.BIOS,
		Disks: []fleet.Disk{{PoolID: "p", Volume: "a", SizeBytes: 1}, {PoolID: "p", Volume: "b", SizeBytes: 1}},
		NICs:  []fleet.NIC{{Network: "default", MAC: "52:54:00:00:00:01"}, {Bridge: "br0", MAC: "52:54:00:00:00:02"}},
	}
	edit := func(f func(*fleet.VMSpec)) fleet.VMSpec {
		to := old
		to.Disks, to.NICs = append([]fleet.Disk{}, old.Disks...), append([]fleet.NIC{}, old.NICs...)
		f(&to)
		return to
	}
	for want, to := range map[string]fleet.VMSpec{
		"": edit(func(s *fleet.VMSpec) {
			s.Power = fleet.Stopped
			s.Disks[0], s.Disks[1] = s.Disks[1], s.Disks[0]
		}),
		"spec.cpus: vCPUs 2 → 4 (nextBoot); spec.memoryMiB: memory 512 → 1024 MiB (nextBoot)": edit(func(s *fleet.VMSpec) { s.CPUs, s.MemoryMiB = 4, 1024 }),
		"spec.firmware: firmware BIOS → UEFI (powerOff)":                                      edit(func(s *fleet.VMSpec) { s.Firmware = fleet.UEFI }),
		"spec.iso: CD-ROM none → cd.iso (now)":                                                edit(func(s *fleet.VMSpec) { s.ISO = &fleet.Volref{PoolID: "p", Volume: "cd.iso"} }),
		"spec.disks: disk b removed (now)":                                                    edit(func(s *fleet.VMSpec) { s.Disks = s.Disks[:1] }),
		"spec.disks[2]: disk of 1 GiB added (now)":                                            edit(func(s *fleet.VMSpec) { s.Disks = append(s.Disks, fleet.Disk{PoolID: "p", SizeBytes: 1 << 30}) }),
		"spec.disks[2]: disk of 1 GiB added (nextBoot)": edit(func(s *fleet.VMSpec) {
			s.Disks = append(s.Disks, fleet.Disk{PoolID: "p", SizeBytes: 1 << 30, Bus: "sata"})
		}),
		"spec.disks[1]: disk b: cache Default → Write back, operations default → 100 IOPS (nextBoot)":                edit(func(s *fleet.VMSpec) { s.Disks[1].Cache, s.Disks[1].Limits.TotalIOPS = "writeback", 100 }),
		"spec.disks[1]: disk b: reads default → 100 IOPS (now)":                                                      edit(func(s *fleet.VMSpec) { s.Disks[1].Limits.ReadIOPS = 100 }),
		"spec.disks[1]: disk b: reads default → 100 IOPS (now); spec.disks[1]: disk b 1 B → 2 B (now)":               edit(func(s *fleet.VMSpec) { s.Disks[1].SizeBytes, s.Disks[1].Limits.ReadIOPS = 2, 100 }),
		"spec.nics[1]: NIC 52:54:00:00:00:02 on bridge br0: disconnected off → on (now)":                             edit(func(s *fleet.VMSpec) { s.NICs[1].LinkDown = true }),
		"spec.nics[1]: NIC 52:54:00:00:00:02 on bridge br0: model Virtio → Intel e1000e (nextBoot)":                  edit(func(s *fleet.VMSpec) { s.NICs[1].Model = "e1000e" }),
		"spec.disks[1]: disk b: shareable off → on (powerOff)":                                                       edit(func(s *fleet.VMSpec) { s.Disks[1].Shareable = true }),
		"spec.disks[0]: disk a 1 B → 2 B (now)":                                                                      edit(func(s *fleet.VMSpec) { s.Disks[0].SizeBytes = 2 }),
		"spec.disks[1]: disk b 1 B → 0 B (never)":                                                                    edit(func(s *fleet.VMSpec) { s.Disks[1].SizeBytes = 0 }),
		"spec.disks[1]: disk b → b (never)":                                                                          edit(func(s *fleet.VMSpec) { s.Disks[1].SizeBytes, s.Disks[1].Existing = 2, true }),
		"spec.nics[1]: NIC 52:54:00:00:00:02 on bridge br0 → 52:54:00:00:00:02 on network default (nextBoot)":        edit(func(s *fleet.VMSpec) { s.NICs[1] = fleet.NIC{Network: "default", MAC: "52:54:00:00:00:02"} }),
		"spec.nics[1]: NIC on network lan added (now); spec.nics: NIC 52:54:00:00:00:02 on bridge br0 removed (now)": edit(func(s *fleet.VMSpec) { s.NICs[1] = fleet.NIC{Network: "lan"} }),
		"spec.nics[2]: NIC 52:54:00:00:00:01 on network default added (now)":                                         edit(func(s *fleet.VMSpec) { s.NICs = append(s.NICs, s.NICs[0]) }),
	} {
		if got := changesText(old.Diff(to, true)); got != want {
			t.Errorf("the difference is %q, want %q", got, want)
		}
		for _, c := range old.Diff(to, false) {
			if c.When != fleet.WhenNow && c.When != fleet.WhenNever {
				t.Errorf("change of a stopped VM: %+v", c)
			}
		}
	}
}

// Every JSON field of a spec must have an entry in VMFields that compares, copies and formats it.
func TestVMFieldsCoverEverySpecField(t *testing.T) {
	t.Parallel()
	full := fleet.VMSpec{
		Power: fleet.Running, CPUs: 2, MemoryMiB: 512, Firmware: fleet.UEFI, Disks: []fleet.Disk{{PoolID: "p", Volume: "a"}},
		NICs: []fleet.NIC{{Network: "default", MAC: "52:54:00:00:00:01"}}, ISO: &fleet.Volref{PoolID: "p", Volume: "cd.iso"},
		CPU:    fleet.VMCPU{Model: "qemu64", Sockets: 2, Cores: 2, Threads: 2, Max: 8, Features: "+aes", Shares: 512, Limit: 50, Reserved: 25, Pinned: "0"},
		Memory: fleet.VMMemory{Shared: true, Locked: true, HugePageKiB: 2048, MaxMiB: 1024, Nodes: "0", BalloonMiB: 256, MinMiB: 128}, Boot: fleet.VMBoot{Menu: true, CDROM: 1, Kernel: &fleet.Volref{PoolID: "p", Volume: "vmlinuz"}, Initrd: &fleet.Volref{PoolID: "p", Volume: "initrd"}, Cmdline: "quiet", Machine: "pc"},
		Display:  fleet.VMDisplay{Video: "virtio", Heads: 2, Keyboard: "de", Pointer: "mouse", Sound: "ich9", Spice: true, USBRedirection: 2},
		Security: fleet.VMSecurity{TPM: true, SecureBoot: true, Confidential: "sev"}, Devices: fleet.VMDevices{Watchdog: "i6300esb", WatchdogAction: "pause", RNGRate: 1024, VSOCK: true, GuestAgent: "none", Balloon: "none", Serials: 2, Parallel: true},
		Drives: []fleet.VMDrive{{Slot: "cdrom2"}}, HostDevices: []fleet.VMHostDevice{{Device: "usb/046d:c52b"}}, Shares: []fleet.VMShare{{Tag: "src", Folder: fleet.Volref{PoolID: "p", Volume: "src"}}},
		Policy:    fleet.VMPolicy{Autostart: "on", StartOrder: 2, StartDelay: 30, Restart: "always", StopOrder: 3, StopDelay: 20, HAPriority: "high", GuestExec: true},
		Rules:     []fleet.PlacementRule{{Apart: true, Of: fleet.RuleVMLabels, Name: "tier=web"}},
		Health:    []fleet.HealthCheck{{Kind: fleet.HealthTCP, Port: 22}},
		Migration: fleet.VMMigration{Stays: true, LimitMiB: 100, PostCopy: true, DowntimeMs: 300}, Placement: fleet.VMPlacement{Tolerations: "gpu", Overcommit: true},
		FirstBoot: fleet.VMFirstBoot{Kind: fleet.Ignition, Number: 2}, DeviceClasses: []fleet.VMDeviceClass{{ClassID: "01a20f00-0000-7000-8000-0000000000ab", Count: 2}},
		NUMA: []fleet.VMNUMANode{{CPUs: "0-3", MemoryMiB: 256}, {CPUs: "4-7", MemoryMiB: 256, Nodes: "0"}},
	}
	forEachField(reflect.ValueOf(full), "", func(name string, want reflect.Value) {
		f, known := fleet.FieldByName(name)
		if known == (name == "power") {
			t.Errorf("field %s has an entry: %t", name, known)
		}
		if !known {
			return
		}
		var to fleet.VMSpec
		f.Copy(&to, full)
		if !f.Same(to, full) || f.Same(fleet.VMSpec{}, full) || f.Words(full) == "" || len(fleet.VMSpec{}.Diff(to, true)) != 1 {
			t.Errorf("field %s: %+v", name, to)
		}
		forEachField(reflect.ValueOf(to), "", func(copied string, got reflect.Value) {
			if copied == name && (want.IsZero() || !reflect.DeepEqual(got.Interface(), want.Interface())) {
				t.Errorf("field %s is copied as %+v", name, to)
			}
		})
	})
}

// forEachField calls do for each field of a spec and of its nested structs, with the field's JSON name.
func forEachField(v reflect.Value, prefix string, do func(name string, v reflect.Value)) {
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if _, known := fleet.FieldByName(prefix + name); v.Field(i).Kind() == reflect.Struct && !known {
			forEachField(v.Field(i), prefix+name+".", do)
			continue
		}
		do(prefix+name, v.Field(i))
	}
}

// Hot-plug is limited by the maximums of the guest's start, which its host reports.
func TestHotPlugWithinMaximumTakesEffectNow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		to   fleet.VMSpec
		want string
	}{
		"vCPUs up to the maximum":  {fleet.VMSpec{CPUs: 4, MemoryMiB: 512}, "spec.cpus: vCPUs 2 → 4 (now)"},
		"vCPUs above the maximum":  {fleet.VMSpec{CPUs: 5, MemoryMiB: 512}, "spec.cpus: vCPUs 2 → 5 (nextBoot)"},
		"fewer vCPUs":              {fleet.VMSpec{CPUs: 1, MemoryMiB: 512}, "spec.cpus: vCPUs 2 → 1 (nextBoot)"},
		"memory up to the maximum": {fleet.VMSpec{CPUs: 2, MemoryMiB: 1024}, "spec.memoryMiB: memory 512 → 1024 MiB (now)"},
		"memory in half a module":  {fleet.VMSpec{CPUs: 2, MemoryMiB: 576}, "spec.memoryMiB: memory 512 → 576 MiB (nextBoot)"},
		"memory above the maximum": {fleet.VMSpec{CPUs: 2, MemoryMiB: 1152}, "spec.memoryMiB: memory 512 → 1152 MiB (nextBoot)"},
		"less memory":              {fleet.VMSpec{CPUs: 2, MemoryMiB: 256}, "spec.memoryMiB: memory 512 → 256 MiB (nextBoot)"},
		"a new maximum":            {fleet.VMSpec{CPUs: 2, MemoryMiB: 512, CPU: fleet.VMCPU{Max: 8}}, "spec.cpu.max: maximum vCPUs default → 8 vCPUs (nextBoot)"},
		"vCPUs with a new maximum": {fleet.VMSpec{CPUs: 8, MemoryMiB: 512, CPU: fleet.VMCPU{Max: 8}}, "spec.cpus: vCPUs 2 → 8 (nextBoot); spec.cpu.max: maximum vCPUs default → 8 vCPUs (nextBoot)"},
	} {
		vm := fleet.VM{Spec: fleet.VMSpec{CPUs: 2, MemoryMiB: 512}, Status: &fleet.VMStatus{Power: fleet.Running, CPUs: 2, MemoryMiB: 512, MaxCPUs: 4, MaxMemory: 1024}}
		if got := changesText(vm.Diff(fleet.VM{Spec: c.to})); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Hot-unplug is limited to vCPUs and memory added since the guest's start, and depends on the accelerator.
func TestHotUnplugOfAddedCPUsAndMemoryTakesEffectNow(t *testing.T) {
	t.Parallel()
	two := func(first, second int) []fleet.VMNUMANode {
		return []fleet.VMNUMANode{{CPUs: "0-1", MemoryMiB: first}, {CPUs: "2-3", MemoryMiB: second}}
	}
	plain, inNodes := fleet.VMSpec{CPUs: 4, MemoryMiB: 1024}, fleet.VMSpec{CPUs: 4, MemoryMiB: 1024, NUMA: two(512, 512)}
	for name, c := range map[string]struct {
		was, to fleet.VMSpec
		want    string
	}{
		"hot-plugged vCPUs":           {plain, fleet.VMSpec{CPUs: 2, MemoryMiB: 1024}, "spec.cpus: vCPUs 4 → 2 (now)"},
		"vCPUs of the start":          {plain, fleet.VMSpec{CPUs: 1, MemoryMiB: 1024}, "spec.cpus: vCPUs 4 → 1 (nextBoot)"},
		"the newest module":           {plain, fleet.VMSpec{CPUs: 4, MemoryMiB: 896}, "spec.memoryMiB: memory 1024 → 896 MiB (now)"},
		"two modules":                 {plain, fleet.VMSpec{CPUs: 4, MemoryMiB: 640}, "spec.memoryMiB: memory 1024 → 640 MiB (now)"},
		"all modules":                 {plain, fleet.VMSpec{CPUs: 4, MemoryMiB: 512}, "spec.memoryMiB: memory 1024 → 512 MiB (now)"},
		"part of a module":            {plain, fleet.VMSpec{CPUs: 4, MemoryMiB: 832}, "spec.memoryMiB: memory 1024 → 832 MiB (nextBoot)"},
		"memory of the start":         {plain, fleet.VMSpec{CPUs: 4, MemoryMiB: 384}, "spec.memoryMiB: memory 1024 → 384 MiB (nextBoot)"},
		"a module of a node":          {inNodes, fleet.VMSpec{CPUs: 4, MemoryMiB: 896, NUMA: two(512, 384)}, "spec.memoryMiB: memory 1024 → 896 MiB (now); numa (now)"},
		"modules of both nodes":       {inNodes, fleet.VMSpec{CPUs: 4, MemoryMiB: 640, NUMA: two(256, 384)}, "spec.memoryMiB: memory 1024 → 640 MiB (now); numa (now)"},
		"a module of the other node":  {inNodes, fleet.VMSpec{CPUs: 4, MemoryMiB: 896, NUMA: two(384, 512)}, "spec.memoryMiB: memory 1024 → 896 MiB (nextBoot); numa (nextBoot)"},
		"one node grows, one shrinks": {inNodes, fleet.VMSpec{CPUs: 4, MemoryMiB: 1024, NUMA: two(640, 384)}, "numa (nextBoot)"},
	} {
		vm := fleet.VM{Spec: c.was, Status: &fleet.VMStatus{
			Power: fleet.Running, CPUs: 4, MinCPUs: 2, MemoryMiB: 1024, MaxMemory: 2048, Modules: []fleet.Module{{MiB: 256}, {MiB: 128}, {MiB: 128}},
		}}
		if c.was.NUMA != nil {
			vm.Status.Modules[1].NUMANode = 1
			vm.Status.Modules = append(vm.Status.Modules[:2], fleet.Module{MiB: 256, NUMANode: 1})
		}
		changes := vm.Diff(fleet.VM{Spec: c.to})
		for i := range changes {
			if changes[i].Field == "spec.numa" {
				changes[i].Field, changes[i].Words = "numa", ""
			}
		}
		if got := strings.ReplaceAll(changesText(changes), "numa:  (", "numa ("); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A change that waits for the next start is described with its reason, a pending unplug with its device.
func TestPendingVMChangesAreDescribed(t *testing.T) {
	t.Parallel()
	vm := fleet.VM{Spec: fleet.VMSpec{CPUs: 2, MemoryMiB: 512}}
	if got := vm.NextStartChanges(); got != nil {
		t.Errorf("of a VM that was never reported: %q", got)
	}
	vm.Status = &fleet.VMStatus{
		Power: fleet.Running, CPUs: 4, MemoryMiB: 768, Accelerator: "qemu",
		NextBoot:      []string{"name", "cpus", "memoryMiB", "disks", "hostDevices", "cpu.max"},
		PendingUnplug: []fleet.PendingUnplug{{Field: "hostDevices", What: "usb/046d:c52b"}, {Field: "hostDevices", What: "pci/0000:41:00.0"}},
	}
	want := []string{
		"name", "vCPUs (an emulated guest cannot unplug vCPUs)", "memory (only complete memory modules hot-plugged since the guest's start can be unplugged)",
		"disks", "usb/046d:c52b (the guest has not released it)", "pci/0000:41:00.0 (the guest has not released it)", "maximum vCPUs",
	}
	if got := vm.NextStartChanges(); !slices.Equal(got, want) {
		t.Errorf("waiting is\n%q, want\n%q", got, want)
	}
	if got := vm.Status.PendingUnplugText(); got != "The guest did not release usb/046d:c52b and pci/0000:41:00.0; they are removed at the next start." {
		t.Errorf("the task ends with %q", got)
	}
	vm.Status.PendingUnplug = vm.Status.PendingUnplug[:1]
	if got := vm.Status.PendingUnplugText(); got != "The guest did not release usb/046d:c52b; it is removed at the next start." {
		t.Errorf("the task ends with %q", got)
	}
	vm.Status.Accelerator = "kvm"
	if got := vm.NextStartChanges()[1]; got != "vCPUs (only vCPUs hot-plugged since the guest's start can be unplugged)" {
		t.Errorf("with KVM: %q", got)
	}
}

// Every JSON field of disks and NICs must have an entry in DiskFields or NICFields that compares, copies and formats
// it.
func TestDeviceFieldsCoverEveryFieldOfDisksAndNICs(t *testing.T) {
	t.Parallel()
	disk := fleet.Disk{Bus: "scsi", Cache: "none", Discard: "ignore", IO: "native", BootOrder: 1, Serial: "a", ReadOnly: true, Shareable: true, Encryption: "luks", Format: "raw", Limits: fleet.DiskLimits{TotalIOPS: 1, ReadIOPS: 2, WriteIOPS: 3, TotalKiB: 4, ReadKiB: 5, WriteKiB: 6, BurstIOPS: 7, BurstKiB: 8, BurstSeconds: 9}}
	nic := fleet.NIC{Model: "e1000e", LinkDown: true, Queues: 2, BootOrder: 2, Limits: fleet.NICLimits{InKiB: 1, InPeakKiB: 2, InBurstKiB: 3, OutKiB: 4, OutPeakKiB: 5, OutBurstKiB: 6}}
	checkFieldsCovered(t, fleet.DiskFields, disk, 19)
	checkFieldsCovered(t, fleet.NICFields, nic, 10)
}

func checkFieldsCovered[S any](t *testing.T, fields []fleet.Field[S], full S, n int) {
	t.Helper()
	var none, to S
	names := map[string]bool{}
	for _, f := range fields {
		if f.Default(full) || !f.Default(none) || f.Same(none, full) || f.Words(full) == "" {
			t.Errorf("field %s of %+v", f.Name, full)
		}
		if f.Copy(&to, full); !f.Same(to, full) {
			t.Errorf("field %s is copied as %+v", f.Name, to)
		}
		names[f.Name] = true
	}
	forEachField(reflect.ValueOf(full), "", func(name string, v reflect.Value) {
		if names[name] == v.IsZero() {
			t.Errorf("field %s has an entry: %t", name, names[name])
		}
	})
	if len(fields) != n || !reflect.DeepEqual(to, full) {
		t.Errorf("%d fields make %+v of %+v", len(fields), to, full)
	}
}
