package topology_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"quantix/internal/diagram"
	"quantix/internal/fleet"
	"quantix/views/topology"
)

func connections(g topology.Graph) (out []string) {
	for _, e := range g.Edges {
		out = append(out, e.From+" > "+e.To)
	}
	slices.Sort(out)
	return out
}

func nodeOf(t *testing.T, g topology.Graph, id string) topology.Node {
	t.Helper()
	i := slices.IndexFunc(g.Nodes, func(n topology.Node) bool { return n.ID == id })
	if i < 0 {
		t.Fatalf("there is no %s among %v", id, g.Nodes)
	}
	return g.Nodes[i]
}

func edgeOf(t *testing.T, g topology.Graph, from, to string) topology.Edge {
	t.Helper()
	i := slices.IndexFunc(g.Edges, func(e topology.Edge) bool { return e.From == from && e.To == to })
	if i < 0 {
		t.Fatalf("no edge joins %s and %s: %v", from, to, connections(g))
	}
	return g.Edges[i]
}

func TestHostGraphConnectsNICsToVMs(t *testing.T) {
	t.Parallel()
	g := topology.HostGraph(bondedServer(), now)
	want := []string{
		"dev:bond0 > dev:bond0.20", "dev:bond0.20 > dev:br20", "dev:br0 > net:n-br0", "dev:br20 > net:n-br20", "dev:eno1 > dev:bond0", "dev:eno2 > dev:bond0",
		"dev:eno3 > dev:br0", "dev:virbr0 > net:n-default", "net:n-br0 > vm:v-web-1", "net:n-br0 > vm:v-web-2", "net:n-br20 > vm:v-db-1", "net:n-default > vm:v-db-1",
	}
	if got := connections(g); !slices.Equal(got, want) {
		t.Errorf("the edges are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for id, column := range map[string]string{
		"dev:eno1": "Physical NICs", "dev:bond0": "Bonds", "dev:bond0.20": "VLANs", "dev:br0": "Bridges", "dev:virbr0": "Bridges", "net:n-default": "Networks", "vm:v-db-1": "VMs",
	} {
		if got := g.Columns[nodeOf(t, g, id).Column]; got != column {
			t.Errorf("%s is in the column %q, want %q", id, got, column)
		}
	}
	if f := g.Faults(); len(f) > 0 {
		t.Errorf("a healthy host has the faults %v", f)
	}
	if n := nodeOf(t, g, "dev:eno4"); n.Severity != fleet.SeverityIdle || n.Word != "Not connected" {
		t.Errorf("an unused NIC without a cable is %+v", n)
	}
	if n := nodeOf(t, g, "dev:virbr0"); n.Severity != fleet.SeverityIdle {
		t.Errorf("a bridge without guests is %+v", n)
	}
}

// TestHostFaultsShownAtTheirNodes checks that each fault is drawn at its node with a text, and that nothing else
// becomes a fault.
func TestHostFaultsShownAtTheirNodes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		how  func(*diagram.HostTopology)
		at   string // node; empty: none
		tone fleet.Severity
		word string
		says string
		line string // from > to, drawn as failed
	}{
		"a cable is pulled": {
			how: func(h *diagram.HostTopology) { vmNIC(h, "eno3").Up = false },
			at:  "dev:eno3", tone: fleet.SeverityBad, word: "No link", says: "eno3 has no link", line: "dev:eno3 > dev:br0",
		},
		"half a bond": {
			how: func(h *diagram.HostTopology) { vmNIC(h, "eno2").Up = false },
			at:  "dev:bond0", tone: fleet.SeverityWarn, word: "Degraded", says: "has lost 1 of its 2 ports", line: "dev:eno2 > dev:bond0",
		},
		"a network fails": {
			how: func(h *diagram.HostTopology) {
				h.Networks[2] = newNetworkView("default", fleet.NetworkLibvirt, fleet.NetworkStatus{Active: true, Bridge: "virbr0", Forward: "nat", Error: "Its dnsmasq has ended."})
			},
			at: "net:n-default", tone: fleet.SeverityBad, word: "Failed", says: "Its dnsmasq has ended.", line: "net:n-default > vm:v-db-1",
		},
		"a network's bridge is gone": {
			how: func(h *diagram.HostTopology) { removeNIC(h, "virbr0") },
			at:  "dev:virbr0", tone: fleet.SeverityBad, word: "Missing", says: "default is active, but its bridge virbr0 does not exist", line: "net:n-default > vm:v-db-1",
		},
		"a NIC on a bridge that is gone": {
			how: func(h *diagram.HostTopology) { removeNIC(h, "br0"); h.Networks = h.Networks[1:] },
			at:  "gone:bridge:br0", tone: fleet.SeverityBad, word: "Missing", says: "host-1 has no bridge br0", line: "gone:bridge:br0 > vm:v-web-1",
		},
		"a network that was stopped": {
			how: func(h *diagram.HostTopology) {
				h.Networks[2] = newNetworkView("default", fleet.NetworkLibvirt, fleet.NetworkStatus{Bridge: "virbr0", Forward: "nat", StoppedOutside: true})
			},
			at: "net:n-default", tone: fleet.SeverityWarn, word: "Stopped", says: "The network was stopped on the host outside Quantix.",
		},
		"another network of the name": {
			how: func(h *diagram.HostTopology) {
				h.Networks[2] = newNetworkView("default", fleet.NetworkLibvirt, fleet.NetworkStatus{Active: true, Bridge: "virbr0", NameTaken: true})
			},
			at: "net:n-default", tone: fleet.SeverityBad, word: "Another network", says: "another network of this name", line: "net:n-default > vm:v-db-1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := topology.HostGraph(changedServer(c.how), now)
			n := nodeOf(t, g, c.at)
			if n.Severity != c.tone || n.Word != c.word || !strings.Contains(n.Explanation, c.says) {
				t.Errorf("%s is drawn %s, %q, %q", c.at, n.Severity, n.Word, n.Explanation)
			}
			if !slices.ContainsFunc(g.Faults(), func(f topology.Node) bool { return f.ID == c.at }) {
				t.Errorf("the node is not among the faults %v", g.Faults())
			}
			if from, to, ok := strings.Cut(c.line, " > "); ok {
				if l := edgeOf(t, g, from, to); l.Severity != fleet.SeverityBad || l.Description == "" {
					t.Errorf("the line %s is %+v", c.line, l)
				}
			}
		})
	}
}

// TestTopologyOfOfflineHostDrawnAsUnknown checks that all nodes and lines of an offline host are unknown, also if the
// last report had faults.
func TestTopologyOfOfflineHostDrawnAsUnknown(t *testing.T) {
	t.Parallel()
	g := topology.HostGraph(changedServer(func(h *diagram.HostTopology) {
		h.Host.SeenAt, h.Host.InventoryAt = &staleReport, &staleReport
		vmNIC(h, "eno3").Up = false
		removeNIC(h, "virbr0")
		for i := range h.Networks {
			c := &h.Networks[i].Hosts[0]
			c.SeenAt = &staleReport
			c.State = c.StateAt(now)
		}
		for i := range h.VMs {
			h.VMs[i].Phase = fleet.PhaseUnknown
		}
		h.VMs = append(h.VMs, newVMView("lost", "bridge nowhere"))
		h.VMs[3].Phase = fleet.PhaseUnknown
	}), now)
	for _, n := range g.Nodes {
		if n.Severity != fleet.SeverityUnknown {
			t.Errorf("%s is drawn %s", n.ID, n.Severity)
		}
	}
	for _, e := range g.Edges {
		if e.Severity != fleet.SeverityUnknown {
			t.Errorf("%s > %s is drawn %s", e.From, e.To, e.Severity)
		}
	}
	if f := g.Faults(); len(f) > 0 {
		t.Errorf("the faults are %v", f)
	}
}

// TestIncompleteDeviceListCausesNoFault covers agents that report devices only after hardware discovery. Such a report
// may lack a bridge that was created after the discovery.
func TestIncompleteDeviceListCausesNoFault(t *testing.T) {
	t.Parallel()
	g := topology.HostGraph(changedServer(func(h *diagram.HostTopology) {
		h.Host.Status.Inventory.NICsCurrent = false
		removeNIC(h, "virbr0")
	}), now)
	if f := g.Faults(); len(f) > 0 {
		t.Errorf("the faults are %v", f)
	}
}

// TestUnlistedOpenVSwitchBridgeIsNoFault covers Open vSwitch bridges, which may be missing in a host's device list.
func TestUnlistedOpenVSwitchBridgeIsNoFault(t *testing.T) {
	t.Parallel()
	g := topology.HostGraph(changedServer(func(h *diagram.HostTopology) {
		n := newNetworkView("ovs", fleet.NetworkLibvirt, fleet.NetworkStatus{Active: true, Bridge: "ovs0", Forward: "bridge"})
		n.Spec = &fleet.NetworkSpec{Mode: fleet.NetworkOVS, Bridge: "ovs0"}
		h.Networks = append(h.Networks, n)
	}), now)
	if f := g.Faults(); len(f) > 0 {
		t.Errorf("the faults are %v", f)
	}
}

func TestOverlayIsConnectedToItsTunnel(t *testing.T) {
	t.Parallel()
	g := topology.HostGraph(changedServer(func(h *diagram.HostTopology) {
		h.Host.Status.Inventory.NICs = append(h.Host.Status.Inventory.NICs,
			fleet.HostNIC{Name: "qxb", Kind: "bridge", Up: true}, fleet.HostNIC{Name: "qxv", Kind: "virtual", Master: "qxb"})
		n := newNetworkView("tenants", fleet.NetworkLibvirt, fleet.NetworkStatus{Active: true, Bridge: "qxb", Forward: "bridge", Uplink: "eno3", VTEP: "10.50.0.1"})
		n.Spec = &fleet.NetworkSpec{Mode: fleet.NetworkVXLAN, PortGroups: []fleet.PortGroup{{Name: "blue", VLAN: &fleet.VLAN{ID: 7}}}}
		h.Networks = append(h.Networks, n)
		h.VMs = append(h.VMs, newVMView("inner", "network tenants, port group blue"))
	}), now)
	for _, l := range []string{"dev:eno3 > dev:qxv", "dev:qxv > dev:qxb", "dev:qxb > net:n-tenants", "net:n-tenants > group:n-tenants:blue", "group:n-tenants:blue > vm:v-inner"} {
		from, to, _ := strings.Cut(l, " > ")
		edgeOf(t, g, from, to)
	}
	if n := nodeOf(t, g, "group:n-tenants:blue"); n.Detail != "VLAN 7" || g.Columns[n.Column] != "Port groups" {
		t.Errorf("the port group is %+v", n)
	}
	if f := g.Faults(); len(f) > 0 {
		t.Errorf("the faults are %v", f)
	}
}

// TestDeviceCyclesAndLongDeviceListsAreDrawn checks that a report with a device cycle, or with more devices than a
// picture holds, is drawn.
func TestDeviceCyclesAndLongDeviceListsAreDrawn(t *testing.T) {
	t.Parallel()
	g := topology.HostGraph(changedServer(func(h *diagram.HostTopology) {
		nics := []fleet.HostNIC{{Name: "a", Kind: "bridge", Master: "b", Up: true}, {Name: "b", Kind: "bridge", Master: "a", Up: true}, {Name: "c", Kind: "vlan", Over: "c", Up: true}}
		for i := range 200 {
			nics = append(nics, fleet.HostNIC{Name: fmt.Sprintf("eth%03d", i), Kind: "physical"})
		}
		h.Host.Status.Inventory.NICs = append(h.Host.Status.Inventory.NICs, nics...)
		h.More = 160
	}), now)
	if n := nodeOf(t, g, "dev:"); !strings.Contains(n.Name, "more devices") || n.Href == "" {
		t.Errorf("the node of further devices is %+v", n)
	}
	nodeOf(t, g, "dev:eno3") // devices in use come before unused ones
	if n := nodeOf(t, g, "more"); n.Name != "and 160 more" || n.Href != "/hosts/h1?tab=vms" {
		t.Errorf("the node of further VMs is %+v", n)
	}
	if len(g.Nodes) > 70 {
		t.Errorf("%d nodes are drawn", len(g.Nodes))
	}
	checkPicture(t, topology.LayOut(g))
}

// TestNetworksUnknownWhileHypervisorUnreachable checks that devices stay known while only the hypervisor does not
// respond, and that networks become unknown.
func TestNetworksUnknownWhileHypervisorUnreachable(t *testing.T) {
	t.Parallel()
	g := topology.HostGraph(changedServer(func(h *diagram.HostTopology) {
		h.Host.InventoryAt = &staleReport
		removeNIC(h, "virbr0")
		vmNIC(h, "eno3").Up = false
		for i := range h.Networks {
			h.Networks[i].Hosts[0].State = fleet.NetworkUnknown
		}
	}), now)
	if f := g.Faults(); len(f) != 1 || f[0].ID != "dev:eno3" {
		t.Errorf("the faults are %v", f)
	}
}
