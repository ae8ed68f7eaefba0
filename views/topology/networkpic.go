package topology

import (
	"slices"
	"strconv"
	"time"

	"quantix/internal/fleet"
	"quantix/views"
)

// portsDrawn is how many devices of each host a network's picture shows.
const portsDrawn = 3

// Columns of a network's picture.
const (
	ofDevices = iota
	ofHosts
	ofNetwork
	ofGroups
	ofVMs
)

// OfNetwork is the picture of a network: the hosts with their uplink devices on the left, the VMs on the right.
func OfNetwork(in fleet.NetworkTopology, now time.Time) Graph {
	g := Graph{Columns: []string{"Devices", "Hosts", "Network", "Port groups", "VMs"}}
	n := in.Network
	middle := networkNode(n, ofNetwork)
	middle.Mine, middle.Severity, middle.Detail = true, fleet.SeverityIdle, modeOf(n.Network, fleet.NetworkHost{})
	if n.Spec != nil && len(n.Spec.Prefixes()) > 0 {
		middle.Detail = joined(middle.Detail, n.Spec.Prefixes()[0].String())
	}
	for _, h := range in.Hosts {
		g.hostOf(n.Network, h, in.Devices[h.HostID], now)
	}
	if in.MoreHosts > 0 {
		g.add(Node{
			ID: "more-hosts", Column: ofHosts, Icon: "ellipsis", Kind: "Hosts", Name: "and " + strconv.Itoa(in.MoreHosts) + " more", Detail: "all hosts", Severity: fleet.SeverityIdle,
			Href: views.TabPath(views.NetworkPath(n.ID), "hosts"),
		})
		g.join(Edge{From: "more-hosts", To: middle.ID, Severity: fleet.SeverityIdle, Says: strconv.Itoa(in.MoreHosts) + " more hosts"})
	}
	g.add(middle)
	addGroups(&g, n, ofGroups, fleet.SeverityIdle)
	for _, v := range in.VMs {
		g.vmOf(in, v)
	}
	if in.More > 0 || in.Further {
		name := "and " + strconv.Itoa(in.More) + " more"
		if in.Further {
			name = "and over " + strconv.Itoa(in.More) + " more"
		}
		g.add(Node{
			ID: "more", Column: ofVMs, Icon: "ellipsis", Kind: "VMs", Name: name, Detail: "all VMs", Severity: fleet.SeverityIdle,
			Href: views.TabPath(views.NetworkPath(n.ID), "vms"),
		})
		g.join(Edge{From: middle.ID, To: "more", Severity: fleet.SeverityIdle, Says: "further VMs"})
	}
	return g
}

// hostOf adds one host: its bridge and the uplink devices.
func (g *Graph) hostOf(n fleet.Network, h fleet.NetworkHost, d fleet.HostDevices, now time.Time) {
	w := wiring{host: h.HostID, prefix: string(h.HostID) + ":", nics: d.NICs, heard: fleet.Fresh(h.SeenAt, now), looked: d.Looked}
	node := Node{ID: "host:" + string(h.HostID), Column: ofHosts, Icon: "server", Kind: "Host", Name: h.HostName, Href: views.TabPath(views.HostPath(h.HostID), "topology")}
	node.Severity, node.Word, node.Says = look(h)
	bridge := bridgeOf(n, h)
	node.Detail = bridge
	b, there := w.find(bridge)
	if !there && bridge != "" && h.Status.Active && w.heard && w.looked && listsBridge(n, h) {
		node.Severity, node.Word = fleet.SeverityBad, "No bridge"
		node.Says = "The network is active on the host, but its bridge " + bridge + " does not exist: NICs on the network have no connection."
	}
	g.add(node)
	g.join(Edge{From: node.ID, To: "net:" + string(n.ID), Severity: lineTone(node.Severity), Says: n.Name + " on " + h.HostName})
	var ports []fleet.HostNIC
	if there {
		ports = slices.DeleteFunc(w.below(b), func(p fleet.HostNIC) bool { return p.Kind == "virtual" })
	}
	if h.Status != nil {
		if up, ok := w.find(h.Status.Uplink); ok && !slices.ContainsFunc(ports, func(p fleet.HostNIC) bool { return p.Name == up.Name || w.reaches(up.Name, p.Name, deepest) }) {
			ports = append(ports, up)
		}
	}
	for i, p := range ports {
		device := w.device(p, ofDevices)
		device.Detail = joined(h.HostName, device.Detail)
		if device.Says != "" {
			device.Says = h.HostName + ": " + device.Says
		}
		if i == portsDrawn {
			device = Node{ID: w.id(""), Column: ofDevices, Icon: "ellipsis", Kind: "Devices", Name: "and " + strconv.Itoa(len(ports)-i) + " more", Detail: h.HostName, Severity: fleet.SeverityIdle, Href: views.TabPath(views.HostPath(h.HostID), "topology")}
		}
		g.add(device)
		g.join(Edge{From: device.ID, To: node.ID, Severity: lineTone(device.Severity), Says: device.Name + " of " + h.HostName})
		if i == portsDrawn {
			break
		}
	}
}

// vmOf adds a VM with its NICs on the network.
func (g *Graph) vmOf(in fleet.NetworkTopology, v fleet.VMView) {
	node := vmNode(v)
	node.Column, node.Detail = ofVMs, joined(v.HostName, node.Detail)
	tone := fleet.SeverityIdle
	if h := g.node("host:" + string(v.HostID)); h != nil {
		tone = toCard(lineTone(h.Severity), v.Phase)
	}
	for _, c := range v.Spec.NICs {
		if c.NetworkID != in.Network.ID {
			continue
		}
		from := "net:" + string(in.Network.ID)
		if group := groupID(in.Network.ID, c.PortGroup); c.PortGroup != "" && g.node(group) != nil {
			from = group
		}
		g.join(Edge{From: from, To: node.ID, Severity: tone, Says: v.Name + ": NIC " + c.MAC})
	}
	g.add(node)
}
