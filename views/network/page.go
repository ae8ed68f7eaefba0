// Package network shows networks: their list, one on each host, and who may use it.
package network

import (
	"time"

	"github.com/a-h/templ"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
)

var onHosts = kit.Columns{
	{Key: "state", Word: "State"},
	{Key: "forward", Word: "Forward mode"},
	{Key: "bridge", Word: "Bridge"},
	{Key: "subnets", Word: "Subnets"},
	{Key: "starts", Word: "Starts with the host"},
	{Key: "says", Word: "What the host says"},
	{Key: "heard", Word: "Heard"},
}

func (p Page) matrix() kit.Matrix[fleet.NetworkHost] {
	m := kit.HostsMatrix("The network on each host", onHosts, p.Network.Hosts)
	m.Row = func(h fleet.NetworkHost) kit.Row {
		return kit.Row{ID: "cell-" + string(h.HostID), Name: h.HostName, Href: views.TabPath(views.HostPath(h.HostID), "networks")}
	}
	m.Cells = func(head kit.Columns, h fleet.NetworkHost) templ.Component {
		return Cells(head, p.Network.Kind, h, p.Now)
	}
	m.None = kit.Empty("server", "On no host", "No host reports this network any more.")
	return m
}

// Page is one network; VMs are those of its tab.
type Page struct {
	Actor   fleet.Actor
	Link    kit.Link
	Tab     string
	Network fleet.NetworkView
	VMs     []fleet.VMView
	Prev    string // cursors around VMs
	Next    string
	Grant   GrantForm
	Now     time.Time
}

func (p Page) tabs() []kit.Tab {
	return kit.TabsAt(kit.Link{Path: views.NetworkPath(p.Network.ID)}, "tab", p.Tab,
		kit.Tab{Key: "hosts", Text: "Hosts"}, kit.Tab{Key: "vms", Text: "VMs"}, kit.Tab{Key: "grants", Text: "Open to"})
}

// Tabs are the names of the views of a network; the first is its own.
func Tabs() []string { return kit.TabKeys(Page{}.tabs()) }

func (p Page) liveKeys() string {
	if p.Tab == "vms" {
		return "vms"
	}
	return p.key()
}

// key is what changes when the network does.
func (p Page) key() string { return "net:" + string(p.Network.ID) }

// Acts is everything that can be asked about a network.
func Acts(a fleet.Actor, n fleet.NetworkView) []kit.Act {
	path, can := views.NetworkPath(n.ID), policy.Offer(a, "network", "", n.Actions())
	return []kit.Act{
		{Icon: "network", Word: "Open", Href: path},
		{Icon: "monitor", Word: "VMs on this network", Href: views.TabPath(path, "vms")},
		kit.Act{Icon: "trash-2", Word: "Delete network", Danger: true}.As(can, fleet.ActDelete),
	}
}
