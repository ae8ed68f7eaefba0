package network

import (
	"slices"
	"strings"
	"testing"

	"libvirt.org/go/libvirtxml"

	"quantix/internal/adoption"
	"quantix/internal/drift"
	"quantix/internal/fleet"
)

const defaultNetworkXML = `<network><name>default</name><uuid>11111111-2222-4333-8444-555555555555</uuid>
<forward mode='nat'><nat><port start='1024' end='65535'/></nat></forward><bridge name='virbr0' stp='on' delay='0'/><mac address='52:54:00:5b:c8:00'/>
<ip address='192.168.122.1' netmask='255.255.255.0'><dhcp><range start='192.168.122.2' end='192.168.122.254'/></dhcp></ip></network>`

func hostNetworkState(t *testing.T, text string) networkState {
	t.Helper()
	var x libvirtxml.Network
	if err := x.Unmarshal(text); err != nil {
		t.Fatal(err)
	}
	groups, err := parsePortGroups(text)
	if err != nil {
		t.Fatal(err)
	}
	x.PortGroups = nil
	return networkState{persistent: &x, persistentGroups: groups, status: fleet.NetworkStatus{Active: true}}
}

func TestHostNetworksAreExpressedAsSpecs(t *testing.T) {
	t.Parallel()
	subnet := &fleet.Subnet{Gateway: "192.168.122.1/24", DHCP: &fleet.DHCP{Ranges: []fleet.AddressRange{{Start: "192.168.122.2", End: "192.168.122.254"}}}}
	for name, c := range map[string]struct {
		xml  string
		want fleet.NetworkSpec
		kept []string
	}{
		"libvirt's default network": {defaultNetworkXML, fleet.NetworkSpec{Mode: fleet.NetworkNAT, DNS: true, Bridge: "virbr0", IPv4: subnet}, nil},
		"DNS entries and routes": {
			strings.Replace(defaultNetworkXML, "<ip ", "<dns><host ip='192.168.122.9'><hostname>db</hostname></host></dns><route address='10.0.0.0' prefix='8' gateway='192.168.122.7'/><ip ", 1),
			fleet.NetworkSpec{Mode: fleet.NetworkNAT, DNS: true, Bridge: "virbr0", IPv4: subnet},
			[]string{drift.PartDNS, drift.PartOther},
		},
		"a port group": {
			strings.Replace(defaultNetworkXML, "</network>", "<portgroup name='a' default='yes'><bandwidth><inbound average='100'/></bandwidth></portgroup></network>", 1),
			fleet.NetworkSpec{Mode: fleet.NetworkNAT, DNS: true, Bridge: "virbr0", IPv4: subnet, PortGroups: []fleet.PortGroup{{Name: "a", ToGuest: &fleet.Rate{AverageKiB: 100}}}},
			nil,
		},
		"isolated":      {`<network><name>lan</name><bridge name='virbr1' stp='on' delay='0'/></network>`, fleet.NetworkSpec{Mode: fleet.NetworkIsolated, DNS: true, Bridge: "virbr1"}, nil},
		"bridged":       {`<network><name>lan</name><forward mode='bridge'/><bridge name='br0'/></network>`, fleet.NetworkSpec{Mode: fleet.NetworkBridged, Bridge: "br0"}, nil},
		"Open vSwitch":  {`<network><name>lan</name><forward mode='bridge'/><bridge name='ovs0'/><virtualport type='openvswitch'/><vlan><tag id='7'/></vlan></network>`, fleet.NetworkSpec{Mode: fleet.NetworkOVS, Bridge: "ovs0", VLAN: 7}, nil},
		"macvtap":       {`<network><name>lan</name><forward mode='vepa'><interface dev='eth1'/></forward></network>`, fleet.NetworkSpec{Mode: fleet.NetworkMacvtap, Device: "eth1", Direct: fleet.DirectVEPA}, nil},
		"spanning tree": {`<network><name>lan</name><bridge name='virbr1' stp='off' delay='0'/></network>`, fleet.NetworkSpec{Mode: fleet.NetworkIsolated, DNS: true, Bridge: "virbr1"}, []string{drift.PartBridge}},
	} {
		def := hostNetworkState(t, c.xml).definition()
		if def.Spec == nil || !adoption.SameDefinition(*def.Spec, c.want) || !slices.Equal(def.Kept, c.kept) {
			t.Errorf("%s: the definition is %+v with the spec %+v, want %+v with %q", name, def, def.Spec, c.want, c.kept)
			continue
		}
		adopted := *def.Spec
		adopted.Adopted = true
		if problem := adoptedNetworkProblem(hostNetworkState(t, c.xml), fleet.Network{Name: "lan", Spec: &adopted}); problem != "" {
			t.Errorf("%s: after the adoption, the network has the problem %q", name, problem)
		}
	}
}

func TestHostNetworksThatQuantixCannotExpressAreRefusedWithReason(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ xml, words string }{
		"the forward mode open":  {strings.Replace(defaultNetworkXML, "'nat'", "'open'", 1), "forward mode open"},
		"a pool of host devices": {`<network><name>n</name><forward mode='hostdev'><pf dev='eth1'/></forward></network>`, "forward mode hostdev"},
		"several devices":        {`<network><name>n</name><forward mode='passthrough'><interface dev='eth1'/><interface dev='eth2'/></forward></network>`, "exactly one device"},
		"a virtual port":         {`<network><name>n</name><forward mode='bridge'/><bridge name='br0'/><virtualport type='midonet'><parameters interfaceid='00000000-0000-4000-8000-000000000001'/></virtualport></network>`, "virtual port"},
		"the name":               {strings.Replace(defaultNetworkXML, "<name>default", "<name>My network", 1), "lower-case letters"},
		"an IPv6 NAT only":       {`<network><name>n</name><forward mode='nat'/><bridge name='virbr3'/><ip family='ipv6' address='fd00::1' prefix='64'/></network>`, "IPv4 subnet"},
	} {
		def := hostNetworkState(t, c.xml).definition()
		if def.Spec != nil || !strings.Contains(def.Refusal, c.words) {
			t.Errorf("%s: the definition is %+v, want a refusal with %q", name, def, c.words)
		}
	}
	if def := (networkState{status: fleet.NetworkStatus{Active: true}}).definition(); !strings.Contains(def.Refusal, "no persistent definition") {
		t.Errorf("a transient network: %+v", def)
	}
}

func TestEditOfAdoptedNetworkIsDriftWithoutKeptParts(t *testing.T) {
	t.Parallel()
	text := strings.Replace(defaultNetworkXML, "<ip ", "<dns><txt name='a' value='b'/></dns><ip ", 1)
	spec := *hostNetworkState(t, text).definition().Spec
	spec.Adopted = true
	n := fleet.Network{Name: "default", Spec: &spec}
	if got := networkDrift(hostNetworkState(t, text), n); len(got) != 0 {
		t.Errorf("an unedited network has the drift %+v", got)
	}
	edited := hostNetworkState(t, strings.Replace(text, ".254'", ".200'", 1))
	if got := networkDrift(edited, n); len(got) != 1 || got[0].Field != "ipv4.ranges" || got[0].Take == nil {
		t.Errorf("an edit of the DHCP range is the drift %+v", got)
	}
	if got := networkProblem(edited, n); !strings.Contains(got, drift.PartAddresses) || strings.Contains(got, drift.PartDNS) {
		t.Errorf("an edit of the DHCP range is reported as %q", got)
	}
}
