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
		"spec.cpus: vCPUs 2 → 4 (nextBoot); spec.memoryMiB: memory 512 → 1024 MiB (nextBoot)":                                          edit(func(s *fleet.VMSpec) { s.CPUs, s.MemoryMiB = 4, 1024 }),
		"spec.firmware: firmware BIOS → UEFI (powerOff)":                                                                               edit(func(s *fleet.VMSpec) { s.Firmware = fleet.UEFI }),
		"spec.iso: CD-ROM none → cd.iso (nextBoot)":                                                                                    edit(func(s *fleet.VMSpec) { s.ISO = &fleet.Volref{PoolID: "p", Volume: "cd.iso"} }),
		"spec.disks: disk b removed (never)":                                                                                           edit(func(s *fleet.VMSpec) { s.Disks = s.Disks[:1] }),
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
		CPU:    fleet.VMCPU{Model: "qemu64", Sockets: 2, Cores: 2, Threads: 2},
		Memory: fleet.VMMemory{Shared: true, Locked: true, HugePageKiB: 2048}, Boot: fleet.VMBoot{Menu: true},
		Display:  fleet.VMDisplay{Video: "virtio", Heads: 2, Keyboard: "de", Pointer: "mouse", Sound: "ich9"},
		Security: fleet.VMSecurity{TPM: true}, Devices: fleet.VMDevices{Watchdog: "i6300esb", WatchdogAction: "pause", RNGRate: 1024, VSOCK: true},
		FirstBoot: fleet.VMFirstBoot{Kind: fleet.Ignition, Number: 2},
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
