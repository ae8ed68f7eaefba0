package placement_test

import (
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/placement"
)

// hostOf returns a host of the cluster with the given memory.
func hostOf(name string, memoryMiB int64, cluster fleet.ClusterID, how fleet.ClusterPlacement) placement.Host {
	return placement.Host{
		ID: fleet.HostID(name), Name: name, Phase: fleet.HostOnline, Spec: fleet.DefaultHostSpec(), Firmwares: []fleet.Firmware{fleet.BIOS},
		Capacity: fleet.DefaultHostSpec().Capacity(0, memoryMiB, fleet.DefaultOvercommit),
		Cluster:  fleet.Cluster{ID: cluster, Name: string(cluster), Spec: fleet.ClusterSpec{Placement: how}},
	}
}

// A cluster that packs offers its fullest host that fits. Among several clusters, the offered host with the most free
// memory is chosen.
func TestClusterPlacementPolicy(t *testing.T) {
	t.Parallel()
	pack := []placement.Host{hostOf("p1", 8000, "pack", fleet.PlacementPack), hostOf("p2", 2000, "pack", fleet.PlacementPack), hostOf("p3", 4000, "pack", fleet.PlacementPack)}
	spread := []placement.Host{hostOf("s1", 3000, "spread", fleet.PlacementSpread), hostOf("s2", 5000, "spread", fleet.PlacementSpread), hostOf("s3", 1000, "old", "")}
	other := []placement.Host{hostOf("q1", 9000, "other", fleet.PlacementPack), hostOf("q2", 2500, "other", fleet.PlacementPack)}
	for name, c := range map[string]struct {
		hosts     []placement.Host
		memoryMiB int
		want      string
	}{
		"spread":                   {spread, 500, "s2"},
		"pack":                     {pack, 500, "p2"},
		"pack what fits":           {pack, 3000, "p3"},
		"pack what fits only once": {pack, 7000, "p1"},
		"pack and spread":          {append(spread[:3:3], pack...), 500, "s2"},
		"two that pack":            {append(pack[:3:3], other...), 500, "q2"},
		"nothing fits":             {pack, 9000, ""},
	} {
		spec := fleet.VMSpec{CPUs: 1, MemoryMiB: c.memoryMiB, Firmware: fleet.BIOS}
		for range 5 { // the result does not depend on the order of a map
			got := ""
			if choice := placement.Place(spec, c.hosts); choice.Host != nil {
				got = choice.Host.Name
			}
			if got != c.want {
				t.Errorf("%s: %q, want %q", name, got, c.want)
			}
		}
	}
}

// A host that does not support the VM's model is refused by the names of the missing features.
func TestHostRefusedByMissingCPUFeatures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		model   string // of the VM
		missing []string
		want    string
	}{
		"supported":          {"", nil, ""},
		"the baseline":       {"", []string{"avx2", "erms"}, "h lacks the CPU features avx2, erms of the cluster's baseline Haswell. Choose another CPU model or host."},
		"a named model":      {"Haswell", []string{"avx2"}, "h lacks the CPU feature avx2 of the CPU model Haswell. The host's page lists the supported models."},
		"unknown features":   {"Haswell", []string{}, "h does not support the CPU model Haswell. The host's page lists the supported models."},
		"unknown, baseline":  {"", []string{}, "h does not support the CPU model Haswell. Choose another CPU model or host."},
		"supported, by name": {"Haswell", nil, ""},
	} {
		h := hostOf("h", 8000, "c", fleet.PlacementSpread)
		h.CPUModel, h.MissingFeatures = "Haswell", c.missing
		h.AgentFields = fleet.OptionalFieldNames()
		spec := fleet.VMSpec{CPUs: 1, MemoryMiB: 100, Firmware: fleet.BIOS, CPU: fleet.VMCPU{Model: c.model}}
		var got []string
		for _, f := range placement.Faults(spec, h) {
			got = append(got, f.Message)
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
	}
}
