package topology

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"quantix/internal/fleet"
	"quantix/views"
)

// networkState describes the state of a network on a host, in the same words as the table of hosts on the network's
// page.
func networkState(h fleet.NetworkHost) (tone fleet.Severity, word, says string) {
	switch st := h.Status; {
	case h.State == fleet.NetworkUnknown:
		return fleet.SeverityUnknown, "Unknown", ""
	case h.Releasing:
		return fleet.SeverityWarn, "Being released", ""
	case st == nil || h.State == fleet.NetworkPending:
		return fleet.SeverityWarn, "Pending", ""
	case st.NameTaken:
		return fleet.SeverityBad, "Another network", cmp.Or(st.Error, "The host has another network of this name.")
	case st.RolledBack != nil:
		return fleet.SeverityBad, "Rolled back", cmp.Or(st.Error, "The host rolled back the last change.")
	case h.State == fleet.NetworkFailed:
		return fleet.SeverityBad, "Failed", st.Error
	case h.State == fleet.NetworkActive:
		return fleet.SeverityOK, "Active", ""
	case st.StoppedOutside:
		return fleet.SeverityWarn, "Stopped", "The network was stopped on the host outside Quantix."
	case h.Assigned:
		return fleet.SeverityWarn, "Inactive", "The network is defined on the host, but not started."
	}
	return fleet.SeverityIdle, "Inactive", ""
}

// bridgeOnHost is the host's bridge for the network's NICs; empty: none, or not reported.
func bridgeOnHost(n fleet.Network, h fleet.NetworkHost) string {
	switch {
	case n.Kind == fleet.NetworkBridge:
		return n.Name
	case h.Status != nil:
		return h.Status.Bridge
	}
	return ""
}

// reportListsBridge reports whether the host's device list includes the network's bridge. Bridges of Open vSwitch may
// be tap devices, which the list omits.
func reportListsBridge(n fleet.Network, h fleet.NetworkHost) bool {
	switch {
	case n.Kind == fleet.NetworkBridge:
		return true
	case n.Spec != nil:
		return n.Spec.Mode != fleet.NetworkOVS
	}
	return h.Status != nil && (h.Status.Forward == "nat" || h.Status.Forward == "route" || h.Status.Forward == "")
}

// modeText is a network's mode in one word.
func modeText(n fleet.Network, h fleet.NetworkHost) string {
	switch {
	case n.Spec != nil:
		return n.Spec.Mode.Info().Word
	case n.Kind == fleet.NetworkBridge:
		return "Host bridge"
	case h.Status == nil:
		return ""
	}
	return map[string]string{"nat": "NAT", "route": "Routed", "bridge": "Bridged", "open": "Open", "": "Isolated"}[h.Status.Forward]
}

func networkNode(n fleet.NetworkView, column int) Node {
	return Node{ID: "net:" + string(n.ID), Column: column, Icon: "network", Kind: "Network", Name: n.Name, Href: views.NetworkPath(n.ID)}
}

func portGroupNodeID(n fleet.NetworkID, group string) string {
	return "group:" + string(n) + ":" + group
}

// addPortGroups adds a network's port groups.
func addPortGroups(g *Graph, n fleet.NetworkView, column int, tone fleet.Severity) {
	if n.Spec == nil {
		return
	}
	for _, p := range n.Spec.PortGroups {
		detail := ""
		switch v := p.VLAN; {
		case v != nil && len(v.Trunk) > 0:
			detail = "Trunk"
		case v != nil:
			detail = "VLAN " + strconv.Itoa(v.ID)
		}
		g.addNode(Node{
			ID: portGroupNodeID(n.ID, p.Name), Column: column, Icon: "tag", Kind: "Port group", Name: p.Name, Detail: detail, Severity: fleet.SeverityIdle,
			Href: views.TabPath(views.NetworkPath(n.ID), "groups"),
		})
		g.addEdge(Edge{From: "net:" + string(n.ID), To: portGroupNodeID(n.ID, p.Name), Severity: tone, Description: "port group " + p.Name + " of " + n.Name})
	}
}

// vmNIC is one NIC of a VM, as reported by the VM's host. Before the host's first report, it is a NIC of the spec.
type vmNIC struct {
	id    fleet.NetworkID // empty: unknown
	kind  fleet.NetworkKind
	name  string
	group string
	mac   string
	other bool // not on a network: an unmanaged tap or another device
}

func nicsOfVM(wanted []fleet.NIC, said []fleet.NICState) (out []vmNIC) {
	if len(said) == 0 {
		for _, n := range wanted {
			kind, name := n.NetworkKindAndName()
			out = append(out, vmNIC{id: n.NetworkID, kind: kind, name: name, group: n.PortGroup, mac: n.MAC})
		}
		return out
	}
	for _, s := range said {
		c := vmNIC{mac: s.MAC}
		on, group, _ := strings.Cut(s.Source, ", port group ")
		c.group = group
		name, isNetwork := strings.CutPrefix(on, "network ")
		if c.kind, c.name = fleet.NetworkLibvirt, name; !isNetwork {
			bridge, isBridge := strings.CutPrefix(on, "bridge ")
			c.kind, c.name, c.other = fleet.NetworkBridge, bridge, !isBridge
		}
		if i := slices.IndexFunc(wanted, func(n fleet.NIC) bool { return strings.EqualFold(n.MAC, s.MAC) }); i >= 0 {
			if kind, name := wanted[i].NetworkKindAndName(); kind == c.kind && name == c.name {
				c.id = wanted[i].NetworkID
			}
		}
		out = append(out, c)
	}
	return out
}

// vmNodeFromStatus is the node of a VM, managed or unmanaged.
func vmNodeFromStatus(id, name, href string, phase fleet.Phase, said *fleet.VMStatus) Node {
	out := Node{ID: id, Icon: "monitor", Kind: "VM", Name: name, Href: href, Severity: phase.Severity(), Word: phase.DisplayName()}
	if said != nil {
		for _, n := range said.NICs {
			if len(n.Addresses) > 0 {
				out.Detail = n.Addresses[0]
				break
			}
		}
	}
	return out
}

func vmNode(v fleet.VMView) Node {
	return vmNodeFromStatus("vm:"+string(v.ID), v.Name, views.VMPath(v.ID), v.Phase, v.Status)
}

// nicLineSeverity is the severity of the line between a network and a VM's NIC. It depends on the network's severity on
// the host and the VM's phase.
func nicLineSeverity(network fleet.Severity, vm fleet.Phase) fleet.Severity {
	if network == fleet.SeverityOK && vm.Severity() == fleet.SeverityIdle {
		return fleet.SeverityIdle
	}
	return network
}
