package fleet_test

import (
	"errors"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

func TestClusterSpecIsChecked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec fleet.ClusterSpec
		at   string // field with the error; empty: valid
	}{
		"spread":               {fleet.ClusterSpec{Placement: fleet.PlacementSpread}, ""},
		"everything":           {fleet.ClusterSpec{Description: "racks 1 to 4", CPUModel: "Haswell-noTSX", Overcommit: fleet.Overcommit{CPU: 2, Memory: 1.5}, Placement: fleet.PlacementPack}, ""},
		"no placement":         {fleet.ClusterSpec{}, "spec.placement"},
		"unknown placement":    {fleet.ClusterSpec{Placement: "pile"}, "spec.placement"},
		"a mode as baseline":   {fleet.ClusterSpec{Placement: fleet.PlacementSpread, CPUModel: "host-model"}, "spec.cpuModel"},
		"baseline of baseline": {fleet.ClusterSpec{Placement: fleet.PlacementSpread, CPUModel: fleet.BaselineModel}, "spec.cpuModel"},
		"blanks in the model":  {fleet.ClusterSpec{Placement: fleet.PlacementSpread, CPUModel: "a b"}, "spec.cpuModel"},
		"high ratio":           {fleet.ClusterSpec{Placement: fleet.PlacementSpread, Overcommit: fleet.Overcommit{CPU: 100}}, "spec.overcommit.cpu"},
		"low ratio":            {fleet.ClusterSpec{Placement: fleet.PlacementSpread, Overcommit: fleet.Overcommit{Memory: 0.01}}, "spec.overcommit.memory"},
		"long description":     {fleet.ClusterSpec{Placement: fleet.PlacementSpread, Description: strings.Repeat("x", 5000)}, "spec.description"},
	} {
		var checks fleet.Checks
		c.spec.Check(&checks, "spec")
		var fields []string
		if refused, ok := errors.AsType[*fleet.Error](checks.Err()); ok {
			for _, f := range refused.Fields {
				fields = append(fields, f.Field)
			}
		}
		if got := strings.Join(fields, " "); got != c.at {
			t.Errorf("%s: errors at %q, want %q", name, got, c.at)
		}
	}
}

func TestCPUModelGapNamesFeatures(t *testing.T) {
	t.Parallel()
	inventory := fleet.Inventory{CPUModels: []string{"Nehalem"}, CPUModelGaps: []fleet.CPUModelGap{
		{Model: "Haswell-noTSX", Missing: []string{"avx2", "erms"}},
		{Model: "Westmere", Missing: []string{"aes"}},
		{Model: "EPYC", Missing: strings.Fields("a b c d e f g h i j")},
	}}
	for model, want := range map[string]string{
		"":              "",
		"Nehalem":       "",
		"Haswell-noTSX": "host-3 lacks the CPU features avx2, erms of the cluster's baseline Haswell-noTSX.",
		"Westmere":      "host-3 lacks the CPU feature aes of the cluster's baseline Westmere.",
		"EPYC":          "host-3 lacks the CPU features a, b, c, d, e, f, g, h and others of the cluster's baseline EPYC.",
		"POWER9":        "host-3 does not support the CPU model POWER9.",
	} {
		got := ""
		if gap := inventory.GapOf(model); gap != nil {
			got = gap.Text("host-3", "cluster's baseline")
		}
		if got != want {
			t.Errorf("%s: %q, want %q", model, got, want)
		}
	}
	if gap := (fleet.Inventory{}).GapOf("Nehalem"); gap != nil {
		t.Errorf("an agent that reports no models: %v", gap)
	}
}

func TestClusterChangesNamedForAudit(t *testing.T) {
	t.Parallel()
	old := fleet.Cluster{Name: "a", Spec: fleet.ClusterSpec{Placement: fleet.PlacementSpread}}
	edited := fleet.Cluster{Name: "b", Spec: fleet.ClusterSpec{Placement: fleet.PlacementPack, CPUModel: "Nehalem", Overcommit: fleet.Overcommit{CPU: 2}, Description: "x"}}
	const want = "name a → b, cpuModel none → Nehalem, overcommit.cpu default → 2, placement spread → pack, description"
	if got := strings.Join(old.Changes(edited), ", "); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := old.Changes(old); got != nil {
		t.Errorf("equal clusters differ in %q", got)
	}
}
