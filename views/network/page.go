// Package network shows networks: their list, one on each host, and who may use it.
package network

import (
	"time"

	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

// Page is one network; VMs are those of its tab.
type Page struct {
	Actor    fleet.Actor
	Link     kit.Link
	Tab      string
	Network  fleet.NetworkView
	Statuses kit.HostStatuses[fleet.NetworkHost] // of tab hosts
	VMs      []fleet.VMView
	Picture  fleet.NetworkTopology // of tab topology
	Prev     string                // cursors around VMs
	Next     string
	Grant    GrantForm
	Groups   GroupsTab     // of tab groups
	Book     Book          // of tab addresses
	ByLabel  fleet.ByLabel // of tabs hosts and summary, for those who see hosts
	Now      time.Time
}

func (p Page) tabs() []kit.Tab {
	return kit.TabsAt(kit.Link{Path: views.NetworkPath(p.Network.ID)}, "tab", p.Tab,
		kit.Tab{Key: "hosts", Text: "Hosts"}, kit.Tab{Key: "topology", Text: "Topology"}, kit.Tab{Key: "vms", Text: "VMs"}, kit.Tab{Key: "addresses", Text: "Addresses"}, kit.Tab{Key: "groups", Text: "Port groups"}, kit.Tab{Key: "grants", Text: "Sharing"}, kit.Tab{Key: "summary", Text: "Summary"})
}

// Tabs are the names of the views of a network; the first is its own.
func Tabs() []string { return kit.TabKeys(Page{}.tabs()) }

func (p Page) liveKeys() string {
	switch p.Tab {
	case "vms":
		return "vms"
	case "topology":
		return p.key() + " vms"
	}
	return p.key()
}

// key is what changes when the network does.
func (p Page) key() string { return "net:" + string(p.Network.ID) }
