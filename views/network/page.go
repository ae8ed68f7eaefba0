// Package network renders networks: the list, one network on its hosts, its addresses, port groups and grants.
package network

import (
	"time"

	"quantix/internal/adoption"
	"quantix/internal/diagram"
	"quantix/internal/fleet"
	"quantix/internal/policy"
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
	summary := kit.Tab{Key: "summary", Text: "Summary"}
	tabs := []kit.Tab{
		{Key: "hosts", Text: "Hosts", Hosts: true},
		{Key: "topology", Text: "Topology"},
		{Key: "vms", Text: "VMs"},
		{Key: "addresses", Text: "Addresses", Hosts: true},
		{Key: "groups", Text: "Port groups"},
		{Key: "grants", Text: "Published to", Hosts: true},
	}
	if p.seesHosts() {
		tabs = append(tabs, summary)
	} else {
		tabs = append([]kit.Tab{summary}, tabs...)
	}
	return kit.LinkTabs(kit.Link{Path: views.NetworkPath(p.Network.ID)}, "tab", p.Tab, kit.TabsFor(p.Actor, tabs...)...)
}

func (p Page) emptyTopologyText() string {
	if !p.seesHosts() {
		return "No VM of yours uses this network."
	}
	return "The network is on no host, and no VM that you can see uses it."
}

func (p Page) seesHosts() bool { return policy.May(p.Actor, policy.InfraSee, "") }

// Tabs are the keys of the tabs that the actor sees on a network's page; the first tab is the default.
func Tabs(a fleet.Actor) []string { return kit.TabKeys(Page{Actor: a}.tabs()) }

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
