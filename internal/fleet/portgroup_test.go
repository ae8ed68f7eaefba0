package fleet_test

import (
	"testing"

	"quantix/internal/fleet"
)

// A VLAN is taken only where the bridge keeps VLANs apart.
func TestPortGroupsHaveVLANsOnOpenVSwitchAlone(t *testing.T) {
	t.Parallel()
	groups := []fleet.PortGroup{{Name: "voice", VLAN: &fleet.VLAN{ID: 20}}, {Name: "firewalls", VLAN: &fleet.VLAN{ID: 20, Trunk: []int{30}}}}
	for name, c := range map[string]struct {
		spec fleet.NetworkSpec
		want bool
	}{
		"Open vSwitch": {fleet.NetworkSpec{Mode: fleet.NetworkOVS, Bridge: "ovs0"}, true},
		"an overlay":   {fleet.NetworkSpec{Mode: fleet.NetworkVXLAN, VNI: 7, Underlay: "10.50.0.0/24"}, false},
		"a device":     {fleet.NetworkSpec{Mode: fleet.NetworkUplink, Device: "eth1", Bridge: "qx-lan"}, false},
		"isolated":     {fleet.NetworkSpec{Mode: fleet.NetworkIsolated}, false},
	} {
		c.spec.PortGroups = groups
		var checks fleet.Checks
		if c.spec.Check(&checks, "spec"); (checks.Err() == nil) != c.want {
			t.Errorf("on %s: %v", name, checks.Err())
		}
	}
}
