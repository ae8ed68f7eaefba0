package fleet_test

import (
	"testing"

	"quantix/internal/fleet"
)

func TestEveryPresetMakesAGoodVM(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, p := range fleet.Presets {
		s, err := p.On(fleet.VMSpec{Power: fleet.Stopped, CPU: fleet.VMCPU{Threads: 7}})
		if err != nil {
			t.Errorf("%s: %v", p.Key, err)
		}
		var checks fleet.Checks
		s.Check(&checks, "spec")
		if err := checks.Err(); err != nil || s.CPU.Threads != 0 {
			t.Errorf("%s makes %+v: %v", p.Key, s, err)
		}
		known := false
		for _, source := range fleet.VMSources {
			known = known || source.Key == p.Source
		}
		if seen[p.Key] || !known || p.Title == "" || p.Hint == "" {
			t.Errorf("the preset %+v", p)
		}
		seen[p.Key] = true
	}
	if _, ok := fleet.PresetNamed("no such"); ok {
		t.Error("there is a preset of no name")
	}
	if _, err := (fleet.Preset{Fields: map[string]string{"wings": "2"}}).On(fleet.VMSpec{}); err == nil {
		t.Error("a preset names a field that there is not")
	}
}
