package fleet_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

func TestNetworkModesWithoutAddressesAreValidated(t *testing.T) {
	t.Parallel()
	overlay := fleet.NetworkSpec{Mode: fleet.NetworkVXLAN, VNI: 100, Underlay: "10.50.0.0/24"}
	uplink := fleet.NetworkSpec{Mode: fleet.NetworkUplink, Device: "eth1"}
	with := func(s fleet.NetworkSpec, change func(*fleet.NetworkSpec)) fleet.NetworkSpec {
		change(&s)
		return s
	}
	for name, c := range map[string]struct {
		spec  fleet.NetworkSpec
		field string // empty: no error
		says  string
	}{
		"an overlay":                 {overlay, "", ""},
		"over IPv6":                  {with(overlay, func(s *fleet.NetworkSpec) { s.Underlay = "fd00:50::/64" }), "", ""},
		"overlay without VNI":        {with(overlay, func(s *fleet.NetworkSpec) { s.VNI = 0 }), "spec.vni", "Enter a VNI that no other overlay of the"},
		"VNI too large":              {with(overlay, func(s *fleet.NetworkSpec) { s.VNI = 1 << 24 }), "spec.vni", "16777215"},
		"without an underlay":        {with(overlay, func(s *fleet.NetworkSpec) { s.Underlay = "" }), "spec.underlay", "Enter the subnet"},
		"an address for an underlay": {with(overlay, func(s *fleet.NetworkSpec) { s.Underlay = "10.50.0.7/24" }), "spec.underlay", "within 10.50.0.0/24"},
		"all addresses as underlay":  {with(overlay, func(s *fleet.NetworkSpec) { s.Underlay = "0.0.0.0/0" }), "spec.underlay", "all addresses"},
		"loopback for an underlay":   {with(overlay, func(s *fleet.NetworkSpec) { s.Underlay = "127.0.0.0/8" }), "spec.underlay", "loopback"},
		"no subnet for an underlay":  {with(overlay, func(s *fleet.NetworkSpec) { s.Underlay = "eth0'/>" }), "spec.underlay", "Enter the subnet"},
		"an overlay with addresses":  {with(overlay, func(s *fleet.NetworkSpec) { s.IPv4 = &fleet.Subnet{Gateway: "10.0.0.1/24"} }), "spec.ipv4.gateway", "no address in a network"},
		"an overlay with DNS":        {with(overlay, func(s *fleet.NetworkSpec) { s.DNS = true }), "spec.dns", "and serve neither DHCP nor DNS."},
		"an overlay on a device":     {with(overlay, func(s *fleet.NetworkSpec) { s.Device = "eth1" }), "spec.device", "has no device"},
		"a system device as bridge":  {with(overlay, func(s *fleet.NetworkSpec) { s.Bridge = "eth0" }), "spec.bridge", "Enter another name, such as qx-lab, or leave the"},
		"a bridge on a device":       {uplink, "", ""},
		"on a VLAN":                  {with(uplink, func(s *fleet.NetworkSpec) { s.VLAN, s.STP = 4094, true }), "", ""},
		"VLAN too high":              {with(uplink, func(s *fleet.NetworkSpec) { s.VLAN = 4095 }), "spec.vlan", "between 1 and 4094"},
		"on no device":               {with(uplink, func(s *fleet.NetworkSpec) { s.Device = "" }), "spec.device", "such as eth1"},
		"on a device with a path":    {with(uplink, func(s *fleet.NetworkSpec) { s.Device = "../eth1" }), "spec.device", "letters"},
		"on its own bridge":          {with(uplink, func(s *fleet.NetworkSpec) { s.Bridge = "eth1x"; s.Device = "eth1x" }), "spec.bridge", ""},
		"an existing bridge":         {fleet.NetworkSpec{Mode: fleet.NetworkBridged, Bridge: "br0"}, "", ""},
		"no existing bridge":         {fleet.NetworkSpec{Mode: fleet.NetworkBridged}, "spec.bridge", "such as br0"},
		"an existing bridge's tag":   {fleet.NetworkSpec{Mode: fleet.NetworkBridged, Bridge: "br0", VLAN: 7}, "spec.vlan", "has no VLAN"},
		"Open vSwitch":               {fleet.NetworkSpec{Mode: fleet.NetworkOVS, Bridge: "ovs0", VLAN: 7}, "", ""},
		"macvtap":                    {fleet.NetworkSpec{Mode: fleet.NetworkMacvtap, Device: "eth1"}, "", ""},
		"macvtap passthrough":        {fleet.NetworkSpec{Mode: fleet.NetworkMacvtap, Device: "eth1", Direct: fleet.DirectPassthrough}, "", ""},
		"unknown macvtap mode":       {fleet.NetworkSpec{Mode: fleet.NetworkMacvtap, Device: "eth1", Direct: "bridge'/>"}, "spec.direct", `"private", "vepa" or "passthrough"`},
		"SR-IOV with passthrough":    {fleet.NetworkSpec{Mode: fleet.NetworkSRIOV, Device: "eth1", Direct: fleet.DirectPassthrough}, "spec.direct", "has no macvtap mode"},
		"virtual functions":          {fleet.NetworkSpec{Mode: fleet.NetworkSRIOV, Device: "eth1", VLAN: 7}, "", ""},
		"NAT with VNI":               {fleet.NetworkSpec{Mode: fleet.NetworkNAT, VNI: 7, IPv4: &fleet.Subnet{Gateway: "10.0.0.1/24"}}, "spec.vni", "has no VNI"},
	} {
		var checks fleet.Checks
		c.spec.Check(&checks, "spec")
		err := checks.Err()
		switch {
		case c.field == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.field != "" && (err == nil || !strings.Contains(err.Error(), c.says) || c.says != "" && !slices.Equal(fieldsWithErrors(func(all *fleet.Checks) { c.spec.Check(all, "spec") }), []string{c.field})):
			t.Errorf("%s: %v, want %s with %q", name, err, c.field, c.says)
		}
	}
}

// A form without scripts sends the fields of all modes. WithoutFieldsOfOtherModes drops the fields that the spec's mode does not have, and
// the result is valid.
func TestOfModeDropsFieldsOfOtherNetworkModes(t *testing.T) {
	t.Parallel()
	all := fleet.NetworkSpec{
		IPv4: &fleet.Subnet{Gateway: "10.0.0.1/24"}, IPv6: &fleet.Subnet{Gateway: "fd00:5::1/64"}, DNS: true, Domain: "lab.example.org", Bridge: "qx-lab", MTU: 1400, Device: "eth1", VLAN: 7, VNI: 100,
		Underlay: "10.50.0.0/24", STP: true, Direct: fleet.DirectVEPA, Description: "kept",
	}
	for _, mode := range fleet.NetworkTypes() {
		s := all
		s.Mode = mode.Mode
		s = s.WithoutFieldsOfOtherModes()
		var checks fleet.Checks
		s.Check(&checks, "spec")
		if err := checks.Err(); err != nil || s.Description != "kept" || mode.Word == "" || mode.Help == "" {
			t.Errorf("%s: %v %+v", mode.Mode, err, s)
		}
	}
}

// Device names fit the kernel's 15 characters and are unique per network.
func TestNetworkDeviceNamesAreShortAndUnique(t *testing.T) {
	t.Parallel()
	var names []string
	for range 50 {
		n := fleet.Network{ID: fleet.NewID[fleet.NetworkID](), Spec: &fleet.NetworkSpec{Mode: fleet.NetworkVXLAN}}
		for _, name := range []string{n.BridgeDevice(), n.TunnelDevice(), n.VLANDevice()} {
			if len(name) > 15 || slices.Contains(names, name) {
				t.Errorf("%s is too long or not unique", name)
			}
			names = append(names, name)
		}
	}
	if fleet.VXLANOverhead(netip.MustParseAddr("10.0.0.1")) != 50 || fleet.VXLANOverhead(netip.MustParseAddr("fd00::1")) != 70 {
		t.Error("wrong VXLAN overhead")
	}
}
