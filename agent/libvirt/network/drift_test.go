package network

import (
	"slices"
	"strings"
	"testing"

	"libvirt.org/go/libvirtxml"

	"quantix/internal/drift"
	"quantix/internal/fleet"
)

// definedState returns the state of a network with an edited definition.
func definedState(t *testing.T, n fleet.Network, edits ...string) networkState {
	t.Helper()
	text, err := definitionWithMetadata(n)
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Index(text, "</metadata>")
	head, rest := text[:at], text[at:]
	for i := 0; i < len(edits); i += 2 {
		if !strings.Contains(rest, edits[i]) {
			t.Fatalf("%q is not in the definition:\n%s", edits[i], rest)
		}
		rest = strings.Replace(rest, edits[i], edits[i+1], 1)
	}
	var x libvirtxml.Network
	if err := x.Unmarshal(head + rest); err != nil {
		t.Fatal(err)
	}
	x.PortGroups = nil
	groups, err := parsePortGroups(head + rest)
	if err != nil {
		t.Fatal(err)
	}
	return networkState{persistent: &x, persistentGroups: groups, status: fleet.NetworkStatus{Autostart: true}}
}

func TestUneditedNetworkHasNoDrift(t *testing.T) {
	t.Parallel()
	for name, n := range sampleNetworks() {
		state := definedState(t, n)
		if got := networkDrift(state, n); len(got) != 0 {
			t.Errorf("%s: the drift is %+v", name, got)
		}
		// The definition, read as a spec, is the spec.
		if got := drift.OfNetwork(*n.Spec, definedSpec(*state.persistent, state.persistentGroups, n), *n.Spec, nil); len(got) != 0 {
			t.Errorf("%s: read back, the spec differs: %+v", name, got)
		}
	}
}

func TestEditedNetworkDefinitionIsDrift(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		network string
		edits   []string
		want    string // fields and values on the host
	}{
		"a DHCP range":    {"nat", []string{`end="10.5.0.150"`, `end="10.5.0.160"`}, "ipv4.ranges 10.5.0.100–10.5.0.160, 10.5.0.200–10.5.0.210"},
		"MTU and domain":  {"nat", []string{`size="1450"`, `size="9000"`, `lab.example.org`, `evil.example.org`}, "mtu 9000; domain evil.example.org"},
		"no MTU":          {"nat", []string{`<mtu size="1450"></mtu>`, ``}, "mtu default"},
		"the mode":        {"nat", []string{`mode="nat"`, `mode="open"`}, "mode open"},
		"the device":      {"nat", []string{`dev="eth1"`, `dev="eth2"`}, "device eth2"},
		"the bridge":      {"nat", []string{`name="qx-lan"`, `name="virbr7"`}, "bridge virbr7"},
		"spanning tree":   {"nat", []string{`stp="on"`, `stp="off"`}, "bridge qx-lan, with settings that Quantix does not have"},
		"an unknown part": {"nat", []string{`</network>`, `<dnsmasq:options xmlns:dnsmasq="http://libvirt.org/schemas/network/dnsmasq/1.0"><dnsmasq:option value="x"/></dnsmasq:options></network>`}, "other none, with settings that Quantix does not have"},
		"a VLAN":          {"ovs", []string{`<tag id="7">`, `<tag id="8">`}, "vlan 8"},
		"a port group":    {"ovs", []string{`average="1000"`, `average="2000"`}, "portGroups firewalls (trunk 30, 40, untagged 20), voice (VLAN 20, to guests 2000 KiB/s)"},
	} {
		n := sampleNetworks()[c.network]
		var got []string
		for _, d := range networkDrift(definedState(t, n, c.edits...), n) {
			got = append(got, d.Field+" "+d.Actual)
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%s: the drift is %q, want %q", name, text, c.want)
		}
	}
}

// The edited definition is compared with the spec that was applied, and not with a newer one.
func TestNetworkDriftIsComparedWithAppliedSpec(t *testing.T) {
	t.Parallel()
	n := sampleNetworks()["nat"]
	state := definedState(t, n, `size="1450"`, `size="9000"`)
	next, spec := n, *n.Spec
	spec.Domain = "next.example.org"
	next.Generation, next.Spec = 4, &spec
	if got := networkDrift(state, next); len(got) != 1 || got[0].Field != "mtu" || got[0].Applied != "1450" {
		t.Errorf("the drift is %+v, want only the MTU", got)
	}
	spec.MTU = 9000
	if got := networkDrift(state, next); len(got) != 0 {
		t.Errorf("with the value in the spec, the drift is %+v", got)
	}
	state.status.Autostart = false
	if got := drift.Fields(networkDrift(state, next)); !slices.Equal(got, []string{drift.Autostart}) {
		t.Errorf("without autostart, the drift is %q", got)
	}
	state.persistent = nil
	if got := networkDrift(state, next); got != nil {
		t.Errorf("a network without a definition has the drift %+v", got)
	}
}
