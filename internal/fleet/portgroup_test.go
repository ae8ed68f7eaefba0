package fleet_test

import (
	"testing"

	"quantix/internal/fleet"
)

// Port groups can have a VLAN only where the bridge supports VLANs.
func TestPortGroupVLANOnlyOnOpenVSwitch(t *testing.T) {
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

// Security groups and anti-spoofing of a port group are refused where hosts cannot filter NICs: they would have no
// effect.
func TestPortGroupFilterRefusedWhereHostsCannotFilter(t *testing.T) {
	t.Parallel()
	on, off := true, false
	for name, g := range map[string]struct {
		group fleet.PortGroup
		bare  bool // the settings are also accepted where hosts cannot filter NICs
	}{
		"a security group": {fleet.PortGroup{Name: "a", SecurityGroups: []fleet.SecurityGroupID{"00000000-0000-7000-8000-000000000001"}}, false},
		"anti-spoofing":    {fleet.PortGroup{Name: "a", AntiSpoofing: &on}, false},
		"no anti-spoofing": {fleet.PortGroup{Name: "a", AntiSpoofing: &off}, true},
		"neither":          {fleet.PortGroup{Name: "a"}, true},
	} {
		for spec, want := range map[*fleet.NetworkSpec]bool{
			{Mode: fleet.NetworkOVS, Bridge: "ovs0"}: g.bare,
			{Mode: fleet.NetworkIsolated}:            true,
		} {
			spec.PortGroups = []fleet.PortGroup{g.group}
			var checks fleet.Checks
			if spec.Check(&checks, "spec"); (checks.Err() == nil) != want {
				t.Errorf("%s on %s: %v", name, spec.Mode, checks.Err())
			}
		}
	}
}
