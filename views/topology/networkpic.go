package topology

import (
	"slices"
	"strconv"
	"time"

	"quantix/internal/diagram"
	"quantix/internal/fleet"
	"quantix/views"
)

// maxDrawnPorts is how many devices of each host a network's picture shows.
const maxDrawnPorts = 3

// Columns of a network's picture.
const (
	columnDevices = iota
	columnHosts
	columnNetwork
	columnGroups
	columnVMs
)

// NetworkGraph is the picture of a network: the hosts with their uplink devices on the left, the VMs on the right.
func NetworkGraph(in diagram.NetworkTopology, now time.Time) Graph {
	g := Graph{Columns: []string{"Devices", "Hosts", "Network", "Port groups", "VMs"}}
	n := in.Network
	middle := networkNode(n, columnNetwork)
	middle.IsSubject, middle.Severity, middle.Detail = true, fleet.SeverityIdle, modeText(n.Network, fleet.NetworkHost{})
	if n.Spec != nil && len(n.Spec.Prefixes()) > 0 {
		middle.Detail = joinText(middle.Detail, n.Spec.Prefixes()[0].String())
	}
	for _, h := range in.Hosts {
		g.addHost(n.Network, h, in.Devices[h.HostID], now)
	}
	if in.MoreHosts > 0 {
		g.addNode(Node{
			ID: "more-hosts", Column: columnHosts, Icon: "ellipsis", Kind: "Hosts", Name: "and " + strconv.Itoa(in.MoreHosts) + " more", Detail: "all hosts", Severity: fleet.SeverityIdle,
			Href: views.TabPath(views.NetworkPath(n.ID), "hosts"),
		})
		g.addEdge(Edge{From: "more-hosts", To: middle.ID, Severity: fleet.SeverityIdle, Description: strconv.Itoa(in.MoreHosts) + " more hosts"})
	}
	g.addNode(middle)
	addPortGroups(&g, n, columnGroups, fleet.SeverityIdle)
	for _, v := range in.VMs {
		g.addVM(in, v)
	}
	if in.More > 0 || in.Further {
		name := "and " + strconv.Itoa(in.More) + " more"
		if in.Further {
			name = "and over " + strconv.Itoa(in.More) + " more"
		}
		g.addNode(Node{
			ID: "more", Column: columnVMs, Icon: "ellipsis", Kind: "VMs", Name: name, Detail: "all VMs", Severity: fleet.SeverityIdle,
			Href: views.TabPath(views.NetworkPath(n.ID), "vms"),
		})
		g.addEdge(Edge{From: middle.ID, To: "more", Severity: fleet.SeverityIdle, Description: "further VMs"})
	}
	return g
}

// addHost adds one host: its bridge and the uplink devices.
func (g *Graph) addHost(n fleet.Network, h fleet.NetworkHost, d diagram.HostNetworkDevices, now time.Time) {
	w := reportedDevices{host: h.HostID, prefix: string(h.HostID) + ":", nics: d.NICs, online: fleet.IsReportFresh(h.SeenAt, now), complete: d.Current}
	node := Node{ID: "host:" + string(h.HostID), Column: columnHosts, Icon: "server", Kind: "Host", Name: h.HostName, Href: views.TabPath(views.HostPath(h.HostID), "topology")}
	node.Severity, node.Word, node.Explanation = networkState(h)
	bridge := bridgeOnHost(n, h)
	node.Detail = bridge
	b, there := w.deviceByName(bridge)
	if !there && bridge != "" && h.Status.Active && w.online && w.complete && reportListsBridge(n, h) {
		node.Severity, node.Word = fleet.SeverityBad, "No bridge"
		node.Explanation = "The network is active on the host, but its bridge " + bridge + " does not exist: NICs on the network have no connection."
	}
	g.addNode(node)
	g.addEdge(Edge{From: node.ID, To: "net:" + string(n.ID), Severity: lineSeverityToNode(node.Severity), Description: n.Name + " on " + h.HostName})
	var ports []fleet.HostNIC
	if there {
		ports = slices.DeleteFunc(w.devicesBelow(b), func(p fleet.HostNIC) bool { return p.Kind == "virtual" })
	}
	if h.Status != nil {
		if up, ok := w.deviceByName(h.Status.Uplink); ok && !slices.ContainsFunc(ports, func(p fleet.HostNIC) bool {
			return p.Name == up.Name || w.isDeviceBelow(up.Name, p.Name, maxDeviceDepth)
		}) {
			ports = append(ports, up)
		}
	}
	for i, p := range ports {
		device := w.deviceNode(p, columnDevices)
		device.Detail = joinText(h.HostName, device.Detail)
		if device.Explanation != "" {
			device.Explanation = h.HostName + ": " + device.Explanation
		}
		if i == maxDrawnPorts {
			device = Node{ID: w.id(""), Column: columnDevices, Icon: "ellipsis", Kind: "Devices", Name: "and " + strconv.Itoa(len(ports)-i) + " more", Detail: h.HostName, Severity: fleet.SeverityIdle, Href: views.TabPath(views.HostPath(h.HostID), "topology")}
		}
		g.addNode(device)
		g.addEdge(Edge{From: device.ID, To: node.ID, Severity: lineSeverityToNode(device.Severity), Description: device.Name + " of " + h.HostName})
		if i == maxDrawnPorts {
			break
		}
	}
}

// addVM adds a VM with its NICs on the network.
func (g *Graph) addVM(in diagram.NetworkTopology, v fleet.VMView) {
	node := vmNode(v)
	node.Column, node.Detail = columnVMs, joinText(v.HostName, node.Detail)
	tone := fleet.SeverityIdle
	if h := g.nodeByID("host:" + string(v.HostID)); h != nil {
		tone = nicLineSeverity(lineSeverityToNode(h.Severity), v.Phase)
	}
	for _, c := range v.Spec.NICs {
		if c.NetworkID != in.Network.ID {
			continue
		}
		from := "net:" + string(in.Network.ID)
		if group := portGroupNodeID(in.Network.ID, c.PortGroup); c.PortGroup != "" && g.nodeByID(group) != nil {
			from = group
		}
		g.addEdge(Edge{From: from, To: node.ID, Severity: tone, Description: v.Name + ": NIC " + c.MAC})
	}
	g.addNode(node)
}
