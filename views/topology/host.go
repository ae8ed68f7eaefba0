package topology

import (
	"slices"
	"strconv"
	"time"

	"quantix/internal/diagram"
	"quantix/internal/fleet"
	"quantix/views"
)

// hostGraphBuilder builds a host's picture.
type hostGraphBuilder struct {
	Graph
	reportedDevices
	in       diagram.HostTopology
	now      time.Time
	current  bool // the host's report about networks and VMs is current
	networks int  // column of the networks
}

// HostGraph is the network picture of one host: its devices, their networks, and the VMs on the networks.
func HostGraph(in diagram.HostTopology, now time.Time) Graph {
	h := in.Host
	g := &hostGraphBuilder{in: in, now: now, current: fleet.IsReportFresh(h.InventoryAt, now), reportedDevices: reportedDevices{host: h.ID, online: fleet.IsReportFresh(h.SeenAt, now)}}
	if h.Status != nil {
		g.nics, g.complete = h.Status.Inventory.NICs, h.Status.Inventory.NICsCurrent
	}
	needed := map[string]bool{}
	for _, n := range in.Networks {
		if c := networkStatusOnHost(n, h.ID); c.Status != nil {
			needed[bridgeOnHost(n.Network, c)], needed[c.Status.Uplink] = true, true
		}
	}
	g.networks = max(1, g.addDevices(&g.Graph, needed))
	if len(g.Columns) == 0 {
		g.Columns = []string{"Physical NICs"}
	}
	g.Columns = append(g.Columns, "Networks", "Port groups", "VMs")
	for _, n := range in.Networks {
		g.addNetwork(n)
	}
	for _, v := range in.VMs {
		node := vmNode(v)
		g.addVM(node, v.Phase, nicsOfVM(v.Spec.NICs, reportedNICs(v.Status)))
	}
	for _, f := range in.Discovered {
		node := vmNodeFromStatus("found:"+string(f.ID), f.Name, views.DiscoveredVMPath(f.HostID, f.ID), f.Phase, &f.Status)
		node.Kind = "VM not created by Quantix"
		g.addVM(node, f.Phase, nicsOfVM(nil, f.Status.NICs))
	}
	if in.More > 0 {
		g.addNode(Node{
			ID: "more", Column: g.networks + 2, Icon: "ellipsis", Kind: "VMs", Name: "and " + strconv.Itoa(in.More) + " more", Detail: "all VMs of " + h.Name, Severity: fleet.SeverityIdle,
			Href: views.TabPath(views.HostPath(h.ID), "vms"),
		})
	}
	return g.Graph
}

func reportedNICs(s *fleet.VMStatus) []fleet.NICState {
	if s == nil {
		return nil
	}
	return s.NICs
}

func networkStatusOnHost(n fleet.NetworkView, host fleet.HostID) fleet.NetworkHost {
	if i := slices.IndexFunc(n.Hosts, func(h fleet.NetworkHost) bool { return h.HostID == host }); i >= 0 {
		return n.Hosts[i]
	}
	return fleet.NetworkHost{NetworkID: n.ID, HostID: host}
}

func (g *hostGraphBuilder) addNetwork(n fleet.NetworkView) {
	status := networkStatusOnHost(n, g.in.Host.ID)
	node := networkNode(n, g.networks)
	node.Severity, node.Word, node.Explanation = networkState(status)
	node.Detail = modeText(n.Network, status)
	if status.Status != nil && len(status.Status.Subnets) > 0 {
		node.Detail = joinText(node.Detail, status.Status.Subnets[0])
	}
	if n.Spec != nil && n.Spec.VLAN > 0 {
		node.Detail = joinText(node.Detail, "VLAN "+strconv.Itoa(n.Spec.VLAN))
	}
	g.addNode(node)
	addPortGroups(&g.Graph, n, g.networks+1, lineSeverityToNode(node.Severity))
	g.connectNetwork(n.Network, status, node)
}

// connectNetwork adds edges from the host's devices that carry a network (node) to the network.
func (g *hostGraphBuilder) connectNetwork(n fleet.Network, status fleet.NetworkHost, node Node) {
	bridge := bridgeOnHost(n, status)
	active := status.Status != nil && status.Status.Active
	if _, there := g.deviceByName(bridge); there {
		g.addEdge(Edge{From: g.id(bridge), To: node.ID, Severity: lineSeverityToNode(node.Severity), Description: n.Name + " is on " + bridge})
	} else if bridge != "" && active && g.current && g.online && g.complete && reportListsBridge(n, status) {
		g.addMissingBridge(bridge, n.Name, node.ID, g.networks-1)
	}
	if status.Status == nil {
		return
	}
	up, there := g.deviceByName(status.Status.Uplink)
	if !there {
		return
	}
	to := node.ID
	if b, ok := g.deviceByName(bridge); ok {
		if g.isDeviceBelow(up.Name, b.Name, maxDeviceDepth) {
			return
		}
		to = g.id(b.Name)
		for _, port := range g.devicesBelow(b) { // an overlay's tunnel is on top of the uplink, but not its port
			if status.Status.VTEP != "" && port.Kind == "virtual" {
				to = g.id(port.Name)
			}
		}
	}
	g.addEdge(Edge{From: g.id(up.Name), To: to, Severity: g.lineSeverity(up), Description: n.Name + " uses the uplink " + up.Name})
}

// addMissingBridge adds a bridge that a network reports but the host does not have.
func (g *hostGraphBuilder) addMissingBridge(bridge, network, id string, column int) {
	says := network + " is active, but its bridge " + bridge + " does not exist: NICs on the network have no connection."
	if g.nodeByID(g.id(bridge)) == nil {
		g.addNode(Node{ID: g.id(bridge), Column: column, Icon: "columns-3", Kind: "Bridge", Name: bridge, Severity: fleet.SeverityBad, Word: "Missing", Explanation: says, Href: views.TabPath(views.HostPath(g.host), "hardware")})
	}
	g.addEdge(Edge{From: g.id(bridge), To: id, Severity: fleet.SeverityBad, Description: says})
}

// isDeviceBelow reports whether the device from is below the device to, with at most left devices between them.
func (w reportedDevices) isDeviceBelow(from, to string, left int) bool {
	if from == to {
		return true
	}
	n, ok := w.deviceByName(to)
	return ok && left > 0 && slices.ContainsFunc(w.devicesBelow(n), func(b fleet.HostNIC) bool { return w.isDeviceBelow(from, b.Name, left-1) })
}

// addVM adds a VM with its NICs.
func (g *hostGraphBuilder) addVM(node Node, phase fleet.Phase, nics []vmNIC) {
	node.Column = g.networks + 2
	for _, c := range nics {
		if c.other {
			node.Detail = joinText(node.Detail, "a NIC on no network")
			continue
		}
		to, tone, says := g.nicTargetNode(c, phase)
		if tone == fleet.SeverityBad {
			says = node.Name + ": " + says
		}
		g.addEdge(Edge{From: to, To: node.ID, Severity: tone, Description: says})
	}
	g.addNode(node)
}

// nicTargetNode returns the id of the node to which a NIC is connected: a port group, a network, or a missing object. It also
// returns the severity and the description of the line.
func (g *hostGraphBuilder) nicTargetNode(c vmNIC, phase fleet.Phase) (id string, tone fleet.Severity, says string) {
	i := slices.IndexFunc(g.in.Networks, func(n fleet.NetworkView) bool {
		if c.id != "" {
			return n.ID == c.id
		}
		return n.Kind == c.kind && n.Name == c.name || c.kind == fleet.NetworkBridge && c.name == bridgeOnHost(n.Network, networkStatusOnHost(n, g.in.Host.ID))
	})
	if i < 0 {
		return g.addMissingNetwork(c)
	}
	n := g.in.Networks[i]
	status := networkStatusOnHost(n, g.in.Host.ID)
	state, word, _ := networkState(status)
	id, tone, says = "net:"+string(n.ID), nicLineSeverity(lineSeverityToNode(state), phase), "NIC "+c.mac+" on "+n.Name
	if group := portGroupNodeID(n.ID, c.group); c.group != "" && g.nodeByID(group) != nil {
		id = group
	}
	if tone == fleet.SeverityBad {
		says += " (" + word + ")"
	}
	if b := g.nodeByID(g.id(bridgeOnHost(n.Network, status))); b != nil && b.Severity == fleet.SeverityBad && b.Word == "Missing" {
		tone, says = fleet.SeverityBad, "NIC "+c.mac+" is on "+n.Name+", whose bridge "+b.Name+" is missing"
	}
	return id, tone, says
}

// addMissingNetwork adds a node for the network or bridge that a VM's NIC refers to but that does not exist on the
// host.
func (g *hostGraphBuilder) addMissingNetwork(c vmNIC) (id string, tone fleet.Severity, says string) {
	id = "gone:" + string(c.kind) + ":" + c.name
	node := Node{ID: id, Column: g.networks, Icon: "network", Kind: "Network", Name: c.name, Severity: fleet.SeverityUnknown, Word: "Unknown"}
	what := "network "
	if c.kind == fleet.NetworkBridge {
		what, node.Kind = "bridge ", "Bridge"
	}
	tone, says = fleet.SeverityUnknown, "NIC "+c.mac+" on "+what+c.name
	if g.current {
		says = "NIC " + c.mac + " is on " + what + c.name + ", which " + g.in.Host.Name + " does not have"
		tone, node.Severity, node.Word = fleet.SeverityBad, fleet.SeverityBad, "Missing"
		node.Explanation = g.in.Host.Name + " has no " + what + c.name + ", and VMs have NICs on it."
	}
	if g.nodeByID(id) == nil {
		g.addNode(node)
	}
	return id, tone, says
}

// lineSeverityToNode is the severity of a line that leads to a node of severity t.
func lineSeverityToNode(t fleet.Severity) fleet.Severity {
	if t == fleet.SeverityWarn {
		return fleet.SeverityIdle // the node at the line's end shows the warning
	}
	return t
}
