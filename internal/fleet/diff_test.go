package fleet_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

func words(all []fleet.Change) string {
	var out []string
	for _, c := range all {
		out = append(out, fmt.Sprintf("%s: %s (%s)", c.Field, c.Words, c.When))
	}
	return strings.Join(out, "; ")
}

func TestDiffSaysWhatChangesInWhichWordsAndWhen(t *testing.T) {
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
		"spec.disks[1]: disk b: cache Usual → Write back, operations default → 100 IOPS (nextBoot)":                                    edit(func(s *fleet.VMSpec) { s.Disks[1].Cache, s.Disks[1].Limits.TotalIOPS = "writeback", 100 }),
		"spec.disks[1]: disk b: reads default → 100 IOPS (now)":                                                                        edit(func(s *fleet.VMSpec) { s.Disks[1].Limits.ReadIOPS = 100 }),
		"spec.disks[1]: disk b: reads default → 100 IOPS (now); spec.disks[1]: disk b 1 B → 2 B (now)":                                 edit(func(s *fleet.VMSpec) { s.Disks[1].SizeBytes, s.Disks[1].Limits.ReadIOPS = 2, 100 }),
		"spec.nics[1]: network card 52:54:00:00:00:02 on bridge br0: cable out off → on (now)":                                         edit(func(s *fleet.VMSpec) { s.NICs[1].LinkDown = true }),
		"spec.nics[1]: network card 52:54:00:00:00:02 on bridge br0: model Virtio → Intel e1000e (nextBoot)":                           edit(func(s *fleet.VMSpec) { s.NICs[1].Model = "e1000e" }),
		"spec.disks[1]: disk b: shareable off → on (powerOff)":                                                                         edit(func(s *fleet.VMSpec) { s.Disks[1].Shareable = true }),
		"spec.disks[0]: disk a 1 B → 2 B (now)":                                                                                        edit(func(s *fleet.VMSpec) { s.Disks[0].SizeBytes = 2 }),
		"spec.disks[1]: disk b 1 B → 0 B (never)":                                                                                      edit(func(s *fleet.VMSpec) { s.Disks[1].SizeBytes = 0 }),
		"spec.disks[1]: disk b → b (never)":                                                                                            edit(func(s *fleet.VMSpec) { s.Disks[1].SizeBytes, s.Disks[1].Existing = 2, true }),
		"spec.nics[1]: network card 52:54:00:00:00:02 on bridge br0 → 52:54:00:00:00:02 on network default (nextBoot)":                 edit(func(s *fleet.VMSpec) { s.NICs[1] = fleet.NIC{Network: "default", MAC: "52:54:00:00:00:02"} }),
		"spec.nics[1]: network card on network lan added (now); spec.nics: network card 52:54:00:00:00:02 on bridge br0 removed (now)": edit(func(s *fleet.VMSpec) { s.NICs[1] = fleet.NIC{Network: "lan"} }),
		"spec.nics[2]: network card 52:54:00:00:00:01 on network default added (now)":                                                  edit(func(s *fleet.VMSpec) { s.NICs = append(s.NICs, s.NICs[0]) }),
	} {
		if got := words(old.Diff(to, true)); got != want {
			t.Errorf("the difference is %q, want %q", got, want)
		}
		for _, c := range old.Diff(to, false) {
			if c.When != fleet.Now && c.When != fleet.Never {
				t.Errorf("of a VM that is off, %+v", c)
			}
		}
	}
}

// Every field that a host's definition holds differs, is copied and has words, so that nothing else has to list them.
func TestTheTableKnowsEveryFieldOfASpec(t *testing.T) {
	t.Parallel()
	full := fleet.VMSpec{
		Power: fleet.Running, CPUs: 2, MemoryMiB: 512, Firmware: fleet.UEFI, Disks: []fleet.Disk{{PoolID: "p", Volume: "a"}},
		NICs: []fleet.NIC{{Network: "default", MAC: "52:54:00:00:00:01"}}, ISO: &fleet.Volref{PoolID: "p", Volume: "cd.iso"},
		CPU:    fleet.VMCPU{Model: "qemu64", Sockets: 2, Cores: 2, Threads: 2, Max: 8, Features: "+aes", Shares: 512, Limit: 50, Reserved: 25, Pinned: "0"},
		Memory: fleet.VMMemory{Shared: true, Locked: true, HugePageKiB: 2048, MaxMiB: 1024, Nodes: "0", BalloonMiB: 256, FloorMiB: 128}, Boot: fleet.VMBoot{Menu: true, CDROM: 1, Kernel: &fleet.Volref{PoolID: "p", Volume: "vmlinuz"}, Initrd: &fleet.Volref{PoolID: "p", Volume: "initrd"}, Cmdline: "quiet"},
		Display:  fleet.VMDisplay{Video: "virtio", Heads: 2, Keyboard: "de", Pointer: "mouse", Sound: "ich9", Spice: true, USBRedirection: 2},
		Security: fleet.VMSecurity{TPM: true, SecureBoot: true, Confidential: "sev"}, Devices: fleet.VMDevices{Watchdog: "i6300esb", WatchdogAction: "pause", RNGRate: 1024, VSOCK: true, GuestAgent: "none", Balloon: "none", Serials: 2, Parallel: true},
		Drives: []fleet.VMDrive{{Slot: "cdrom2"}}, HostDevices: []fleet.VMHostDevice{{Device: "usb/046d:c52b"}}, Shares: []fleet.VMShare{{Tag: "src", Folder: fleet.Volref{PoolID: "p", Volume: "src"}}},
		Policy:    fleet.VMPolicy{Autostart: "on", StartOrder: 2, StartDelay: 30, Restart: "always", StopOrder: 3, StopDelay: 20, HAPriority: "high", GuestExec: true},
		Rules:     []fleet.PlacementRule{{Apart: true, Of: fleet.RuleVMLabels, Name: "tier=web"}},
		Health:    []fleet.HealthCheck{{Kind: fleet.HealthTCP, Port: 22}},
		Migration: fleet.VMMigration{Stays: true, LimitMiB: 100, PostCopy: true, DowntimeMs: 300}, Placement: fleet.VMPlacement{Tolerations: "gpu"},
		FirstBoot: fleet.VMFirstBoot{Kind: fleet.Ignition, Number: 2},
		NUMA:      []fleet.VMCell{{CPUs: "0-3", MemoryMiB: 256}, {CPUs: "4-7", MemoryMiB: 256, Nodes: "0"}},
	}
	everyField(reflect.ValueOf(full), "", func(name string, want reflect.Value) {
		f, known := fleet.FieldOf(name)
		if known == (name == "power") {
			t.Errorf("field %s is in the table: %t", name, known)
		}
		if !known {
			return
		}
		var to fleet.VMSpec
		f.Copy(&to, full)
		if !f.Same(to, full) || f.Same(fleet.VMSpec{}, full) || f.Words(full) == "" || len(fleet.VMSpec{}.Diff(to, true)) != 1 {
			t.Errorf("field %s: %+v", name, to)
		}
		everyField(reflect.ValueOf(to), "", func(copied string, got reflect.Value) {
			if copied == name && (want.IsZero() || !reflect.DeepEqual(got.Interface(), want.Interface())) {
				t.Errorf("field %s is copied as %+v", name, to)
			}
		})
	})
}

// everyField goes through the fields of a spec, and of the parts in it, by their names in JSON.
func everyField(v reflect.Value, prefix string, do func(name string, v reflect.Value)) {
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if _, whole := fleet.FieldOf(prefix + name); v.Field(i).Kind() == reflect.Struct && !whole {
			everyField(v.Field(i), prefix+name+".", do)
			continue
		}
		do(prefix+name, v.Field(i))
	}
}

// What a guest that is on can get depends on what it was started with, which its host says.
func TestWhatAGuestGetsAtOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		to   fleet.VMSpec
		want string
	}{
		"vCPUs up to the most":     {fleet.VMSpec{CPUs: 4, MemoryMiB: 512}, "spec.cpus: vCPUs 2 → 4 (now)"},
		"vCPUs above the most":     {fleet.VMSpec{CPUs: 5, MemoryMiB: 512}, "spec.cpus: vCPUs 2 → 5 (nextBoot)"},
		"fewer vCPUs":              {fleet.VMSpec{CPUs: 1, MemoryMiB: 512}, "spec.cpus: vCPUs 2 → 1 (nextBoot)"},
		"memory up to the most":    {fleet.VMSpec{CPUs: 2, MemoryMiB: 1024}, "spec.memoryMiB: memory 512 → 1024 MiB (now)"},
		"memory in half a step":    {fleet.VMSpec{CPUs: 2, MemoryMiB: 576}, "spec.memoryMiB: memory 512 → 576 MiB (nextBoot)"},
		"memory above the most":    {fleet.VMSpec{CPUs: 2, MemoryMiB: 1152}, "spec.memoryMiB: memory 512 → 1152 MiB (nextBoot)"},
		"less memory":              {fleet.VMSpec{CPUs: 2, MemoryMiB: 256}, "spec.memoryMiB: memory 512 → 256 MiB (nextBoot)"},
		"room that it asks for":    {fleet.VMSpec{CPUs: 2, MemoryMiB: 512, CPU: fleet.VMCPU{Max: 8}}, "spec.cpu.max: most vCPUs default → 8 vCPUs (nextBoot)"},
		"vCPUs with room for them": {fleet.VMSpec{CPUs: 8, MemoryMiB: 512, CPU: fleet.VMCPU{Max: 8}}, "spec.cpus: vCPUs 2 → 8 (nextBoot); spec.cpu.max: most vCPUs default → 8 vCPUs (nextBoot)"},
	} {
		vm := fleet.VM{Spec: fleet.VMSpec{CPUs: 2, MemoryMiB: 512}, Status: &fleet.VMStatus{Power: fleet.Running, CPUs: 2, MemoryMiB: 512, MaxCPUs: 4, MaxMemory: 1024}}
		if got := words(vm.Diff(fleet.VM{Spec: c.to})); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// The same of what a disk and a card have as of the spec's own fields.
func TestTheTablesKnowEveryFieldOfADevice(t *testing.T) {
	t.Parallel()
	disk := fleet.Disk{Bus: "scsi", Cache: "none", Discard: "ignore", IO: "native", BootOrder: 1, Serial: "a", ReadOnly: true, Shareable: true, Encryption: "luks", Limits: fleet.DiskLimits{TotalIOPS: 1, ReadIOPS: 2, WriteIOPS: 3, TotalKiB: 4, ReadKiB: 5, WriteKiB: 6, BurstIOPS: 7, BurstKiB: 8, BurstSeconds: 9}}
	card := fleet.NIC{Model: "e1000e", LinkDown: true, Queues: 2, BootOrder: 2, Limits: fleet.NICLimits{InKiB: 1, InPeakKiB: 2, InBurstKiB: 3, OutKiB: 4, OutPeakKiB: 5, OutBurstKiB: 6}}
	same(t, fleet.DiskFields, disk, 18)
	same(t, fleet.NICFields, card, 10)
}

func same[S any](t *testing.T, fields []fleet.Field[S], full S, n int) {
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
	everyField(reflect.ValueOf(full), "", func(name string, v reflect.Value) {
		if names[name] == v.IsZero() {
			t.Errorf("field %s is in the table: %t", name, names[name])
		}
	})
	if len(fields) != n || !reflect.DeepEqual(to, full) {
		t.Errorf("%d fields make %+v of %+v", len(fields), to, full)
	}
}
