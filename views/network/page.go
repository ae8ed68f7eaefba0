// Package network renders networks: the list, one network on its hosts, its addresses, port groups and grants.
package network

import (
	"time"

	"quantix/internal/adoption"
	"quantix/internal/diagram"
	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

// Page shows one network. VMs are filled on the VMs tab only.
type Page struct {
	Actor    fleet.Actor
	Link     kit.Link
	Tab      string
	Network  fleet.NetworkView
	Statuses kit.HostStatuses[fleet.NetworkHost] // tab hosts
	Drifted  []fleet.NetworkHost                 // tab hosts: the first hosts with another definition of the network
	VMs      []fleet.VMView
	Picture  diagram.NetworkTopology // tab topology
	Prev     string                  // cursors of the previous and next page of VMs
	Next     string
	Grant    GrantForm
	Groups   PortGroupsTab // tab groups
	Book     AddressTab    // tab addresses
	ByLabel  fleet.ByLabel // tabs hosts and summary, for actors who may see hosts
	Now      time.Time
}

func (p Page) tabs() []kit.Tab {
	return kit.LinkTabs(kit.Link{Path: views.NetworkPath(p.Network.ID)}, "tab", p.Tab,
		kit.Tab{Key: "hosts", Text: "Hosts"}, kit.Tab{Key: "topology", Text: "Topology"}, kit.Tab{Key: "vms", Text: "VMs"}, kit.Tab{Key: "addresses", Text: "Addresses"}, kit.Tab{Key: "groups", Text: "Port groups"}, kit.Tab{Key: "grants", Text: "Published to"}, kit.Tab{Key: "summary", Text: "Summary"})
}

// Tabs are the keys of the network page's tabs; the first tab is the default.
func Tabs() []string { return kit.TabKeys(Page{}.tabs()) }

func (p Page) liveKeys() string {
	switch p.Tab {
	case "vms":
		return "vms"
	case "topology":
		return p.liveKey() + " vms"
	}
	return p.liveKey()
}

// liveKey is the network's wake-up key.
func (p Page) liveKey() string { return "net:" + string(p.Network.ID) }

// changeRefusal is why the network's definition cannot be changed in Quantix; empty: it can.
func (p Page) changeRefusal() string {
	if p.Network.IsAdopted() {
		return adoption.ChangeRefusal
	}
	return ""
}
