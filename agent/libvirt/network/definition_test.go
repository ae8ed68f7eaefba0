package network

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"libvirt.org/go/libvirtxml"

	"quantix/internal/fleet"
	"quantix/internal/testkit/golden"
)

func sampleNetworks() map[string]fleet.Network {
	network := func(s fleet.NetworkSpec) fleet.Network {
		return fleet.Network{ID: "01a206b5-2a62-7003-a101-340befa69b68", Name: "lan", Kind: fleet.NetworkLibvirt, Generation: 3, Spec: &s}
	}
	return map[string]fleet.Network{
		"nat": network(fleet.NetworkSpec{
			Mode: fleet.NetworkNAT, DNS: true, Domain: "lab.example.org", Bridge: "qx-lan", MTU: 1450, Device: "eth1", Description: "not libvirt's <affair>",
			IPv4: &fleet.Subnet{Gateway: "10.5.0.1/24", DHCP: &fleet.DHCP{
				Ranges: []fleet.AddressRange{{Start: "10.5.0.100", End: "10.5.0.150"}, {Start: "10.5.0.200", End: "10.5.0.210"}},
				Leases: []fleet.StaticLease{{MAC: "52:54:00:12:34:56", IP: "10.5.0.9", Name: "db"}, {MAC: "52:54:00:12:34:57", IP: "10.5.0.10"}},
			}},
			IPv6: &fleet.Subnet{Gateway: "fd00:5:0::1/64", DHCP: &fleet.DHCP{Ranges: []fleet.AddressRange{{Start: "fd00:5:0:0::100", End: "fd00:5::1ff"}}}},
		}),
		"route":    network(fleet.NetworkSpec{Mode: fleet.NetworkRouted, IPv6: &fleet.Subnet{Gateway: "fd00:5::1/64"}}),
		"isolated": network(fleet.NetworkSpec{Mode: fleet.NetworkIsolated, DNS: true, IPv4: &fleet.Subnet{Gateway: "10.5.0.1/24"}}),
		"bare":     network(fleet.NetworkSpec{Mode: fleet.NetworkIsolated}),
		"vxlan":    network(fleet.NetworkSpec{Mode: fleet.NetworkVXLAN, VNI: 100, Underlay: "10.50.0.0/24"}),
		"uplink":   network(fleet.NetworkSpec{Mode: fleet.NetworkUplink, Device: "eth1", VLAN: 7, Bridge: "qx-wire"}),
		"bridge":   network(fleet.NetworkSpec{Mode: fleet.NetworkBridged, Bridge: "br0"}),
		"ovs": network(fleet.NetworkSpec{Mode: fleet.NetworkOVS, Bridge: "ovs0", VLAN: 7, PortGroups: []fleet.PortGroup{
			{Name: "voice", VLAN: &fleet.VLAN{ID: 20}, ToGuest: &fleet.Rate{AverageKiB: 1000}}, {Name: "firewalls", VLAN: &fleet.VLAN{ID: 20, Trunk: []int{30, 40}}},
		}}),
		"macvtap":     network(fleet.NetworkSpec{Mode: fleet.NetworkMacvtap, Device: "eth1"}),
		"passthrough": network(fleet.NetworkSpec{Mode: fleet.NetworkMacvtap, Device: "eth1", Direct: fleet.DirectPassthrough}),
		"sriov":       network(fleet.NetworkSpec{Mode: fleet.NetworkSRIOV, Device: "eth1", VLAN: 7}),
	}
}

// Golden files show the libvirt definition of each network mode.
func TestNetworkDefinitionsMatchGoldenFiles(t *testing.T) {
	t.Parallel()
	for name, n := range sampleNetworks() {
		text, err := definitionWithMetadata(n)
		if err != nil {
			t.Fatal(err)
		}
		golden.Text(t, filepath.Join("testdata", "network-"+name+".xml"), text+"\n")
	}
}

// Additions by libvirt are not reported as differences. Edits by people are, with the name of the edited part.
func TestNetworkDifferencesNameEditedParts(t *testing.T) {
	t.Parallel()
	n := sampleNetworks()["nat"]
	n.Spec.Bridge = ""
	text, err := definitionWithMetadata(n)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		old, becomes string
		want         []string
	}{
		"nothing":              {"", "", nil},
		"the bridge's name":    {`<bridge stp`, `<bridge name="virbr7" stp`, nil},
		"a MAC address":        {`<domain `, `<mac address="52:54:00:aa:bb:cc"></mac><domain `, nil},
		"the usual ports":      {`<forward mode="nat" dev="eth1"></forward>`, `<forward dev="eth1" mode="nat"><nat><port start="1024" end="65535"/></nat><interface dev="eth1"/></forward>`, nil},
		"other ports":          {`<forward mode="nat" dev="eth1"></forward>`, `<forward dev="eth1" mode="nat"><nat><port start="2000" end="3000"/></nat></forward>`, []string{"the forward mode"}},
		"another mode":         {`mode="nat"`, `mode="open"`, []string{"the forward mode"}},
		"another device":       {`dev="eth1"`, `dev="eth2"`, []string{"the forward mode"}},
		"spanning tree off":    {`stp="on"`, `stp="off"`, []string{"the bridge"}},
		"another MTU":          {`size="1450"`, `size="9000"`, []string{"the MTU"}},
		"another domain":       {`lab.example.org`, `evil.example.org`, []string{"the domain"}},
		"an added DNS host":    {`<ip address="10.5.0.1"`, `<dns><host ip="10.5.0.9"><hostname>bank</hostname></host></dns><ip address="10.5.0.1"`, []string{"DNS"}},
		"another range":        {`10.5.0.150`, `10.5.0.160`, []string{"addresses and DHCP"}},
		"a port group":         {`</network>`, `<portgroup name="x"></portgroup></network>`, []string{"settings that Quantix does not manage"}},
		"options of dnsmasq":   {`</network>`, `<dnsmasq:options xmlns:dnsmasq="http://libvirt.org/schemas/network/dnsmasq/1.0"><dnsmasq:option value="dhcp-script=/bin/sh"/></dnsmasq:options></network>`, []string{"settings that Quantix does not manage"}},
		"two parts at once":    {`size="1450"></mtu>`, `size="9000"></mtu><vlan><tag id="7"></tag></vlan>`, []string{"the MTU", "settings that Quantix does not manage"}},
		"the stamp's contents": {`<quantix:generation>3<`, `<quantix:generation>2<`, nil},
	} {
		changed := text
		if i := strings.LastIndex(text, c.old); c.old != "" && i >= 0 {
			changed = text[:i] + c.becomes + text[i+len(c.old):]
		} else if c.old != "" {
			t.Fatalf("%s: %q is not in the definition", name, c.old)
		}
		var is libvirtxml.Network
		if err := is.Unmarshal(changed); err != nil {
			t.Fatal(err)
		}
		if got := editedParts(networkDefinition(n), is); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if untouched := readNetworkMetadata(is).matchesDefinition(is); untouched != (c.want == nil) {
			t.Errorf("%s: untouched %v", name, untouched)
		}
	}
}

// Quantix overwrites an older definition that it wrote. It never overwrites a definition without Quantix's metadata.
func TestOnlyUneditedNetworkIsOverwritten(t *testing.T) {
	t.Parallel()
	old, next := sampleNetworks()["nat"], sampleNetworks()["isolated"]
	text, err := definitionWithMetadata(old)
	if err != nil {
		t.Fatal(err)
	}
	var is libvirtxml.Network
	if err := is.Unmarshal(text); err != nil {
		t.Fatal(err)
	}
	if len(editedParts(networkDefinition(next), is)) == 0 || !readNetworkMetadata(is).matchesDefinition(is) || readNetworkMetadata(is).Generation != 3 {
		t.Errorf("the older definition: differences %v, stamp %+v", editedParts(networkDefinition(next), is), readNetworkMetadata(is))
	}
	is.Metadata = nil
	if readNetworkMetadata(is).matchesDefinition(is) {
		t.Error("a definition without a stamp counts as written by Quantix")
	}
	is.Metadata = &libvirtxml.NetworkMetadata{XML: `<quantix:network xmlns:quantix="https://quantix.dev/xmlns/network/1"><quantix:digest></quantix:digest></quantix:network>`}
	if readNetworkMetadata(is).matchesDefinition(is) {
		t.Error("an empty stamp matches a definition")
	}
}

func TestOnlyNetworksWithDHCPOrDNSHaveDnsmasq(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"nat": true, "route": false, "isolated": true, "bare": false} {
		if got := hasDnsmasq(networkDefinition(sampleNetworks()[name])); got != want || got != sampleNetworks()[name].Spec.RunsDHCPOrDNS() {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
