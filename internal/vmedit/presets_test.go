package vmedit_test

import (
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/vmedit"
)

func TestEveryPresetYieldsValidSpec(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, p := range vmedit.Presets {
		s, err := p.ApplyTo(fleet.VMSpec{
			Power: fleet.Stopped, CPU: fleet.VMCPU{Threads: 7},
			Disks: []fleet.Disk{{PoolID: "p", SizeBytes: 1 << 30, Cache: "unsafe"}}, NICs: []fleet.NIC{{Network: "lan", Queues: 4}},
		})
		if err != nil {
			t.Errorf("%s: %v", p.Key, err)
		}
		var checks fleet.Checks
		s.Check(&checks, "spec")
		if err := checks.Err(); err != nil || s.CPU.Threads != 0 || s.Disks[0].Cache != "" || s.NICs[0].Queues != 0 {
			t.Errorf("%s makes %+v: %v", p.Key, s, err)
		}
		known := false
		for _, source := range vmedit.VMSources {
			known = known || source.Key == p.Source
		}
		if seen[p.Key] || !known || p.Title == "" || p.Hint == "" {
			t.Errorf("incomplete or duplicate preset %+v", p)
		}
		seen[p.Key] = true
	}
	if _, ok := vmedit.PresetByKey("no such"); ok {
		t.Error("an unknown preset is found")
	}
	for _, odd := range []vmedit.VMPreset{
		{Fields: map[string]string{"wings": "2"}},
		{Disk: map[string]string{"wings": "2"}},
		{NIC: map[string]string{"wings": "2"}},
		{Fields: map[string]string{"cpus": `"two"`}},
		{Disk: map[string]string{"bus": "2"}},
	} {
		if _, err := odd.ApplyTo(fleet.VMSpec{Disks: make([]fleet.Disk, 1), NICs: make([]fleet.NIC, 1)}); err == nil {
			t.Errorf("accepted a preset with an unknown field or value: %+v", odd)
		}
	}
	old, err := vmedit.Presets[len(vmedit.Presets)-1].ApplyTo(fleet.VMSpec{Disks: make([]fleet.Disk, 2), NICs: make([]fleet.NIC, 1)})
	if err != nil || old.Boot.Machine != "pc" || old.Disks[1].Bus != "ide" || old.NICs[0].Model != "rtl8139" {
		t.Errorf("the legacy preset makes %+v, %v", old, err)
	}
}
