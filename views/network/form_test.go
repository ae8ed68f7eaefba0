package network

import (
	"strings"
	"testing"

	"quantix/internal/fleet"
)

// TestFormShowsMissingHostCapabilities checks that the form shows, next to each host, missing capabilities for the
// chosen mode, and the device that the agent's connection needs.
func TestFormShowsMissingHostCapabilities(t *testing.T) {
	t.Parallel()
	h := fleet.Host{Status: &fleet.HostStatus{Inventory: fleet.Inventory{
		NetworkGaps: []fleet.NetworkGap{{Mode: fleet.NetworkVXLAN, Why: "The kernel makes no VXLAN tunnels: operation not supported."}},
		NICs:        []fleet.HostNIC{{Name: "eth0", Kind: "physical", Agent: true}, {Name: "eth1", Kind: "physical", VFs: 4, VFsTotal: 64}, {Name: "eth2", Kind: "physical", VFsTotal: 8}, {Name: "virbr0", Kind: "bridge"}},
	}}}
	var all []string
	for _, lack := range MissingCapabilities(h, "") {
		all = append(all, lack.When["data-show-when"].(string)+" "+lack.Text)
	}
	text := strings.Join(all, "\n")
	for _, want := range []string{"mode=vxlan The kernel makes no VXLAN", "mode=uplink The agent reaches the portal through eth0", "Other devices: eth1, eth2.", "mode=sriov Enabled virtual functions: eth1 (4 of 64), eth2 (none of 8)."} {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %q:\n%s", want, text)
		}
	}
	if here := MissingCapabilities(h, fleet.NetworkVXLAN); len(here) != 1 || here[0].When != nil {
		t.Errorf("notes for a VXLAN network: %+v", here)
	}
	if here := MissingCapabilities(h, fleet.NetworkNAT); len(here) != 0 {
		t.Errorf("notes for a NAT network: %+v", here)
	}
}
