// Package host shows hosts: their list, one with its tabs, and how a machine joins.
package host

import (
	"time"

	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

// Page is one host; of the lists only those of its tab are filled.
type Page struct {
	Actor    fleet.Actor
	Link     kit.Link // of the page as it is shown
	Tab      string
	Host     fleet.HostView
	Now      time.Time
	VMs      []fleet.VMView
	Found    []fleet.FoundVM
	Pools    []fleet.PoolView
	Networks []fleet.NetworkView
	Tasks    []fleet.Task
	Prev     string // cursors around this page of the tab's list
	Next     string
	Form     Form
}

var tabs = []kit.Tab{
	{Text: "Summary", Href: "summary"}, {Text: "VMs", Href: "vms"}, {Text: "Hardware", Href: "hardware"}, {Text: "Storage", Href: "storage"},
	{Text: "Networks", Href: "networks"}, {Text: "Configure", Href: "configure"}, {Text: "Tasks", Href: "tasks"},
}

// Tabs are the names of the views of a host; the first is its own.
func Tabs() []string { return kit.TabNames(tabs) }

func (p Page) path(below ...string) string { return views.HostPath(p.Host.ID, below...) }

// liveKeys are what the shown tab depends on.
func (p Page) liveKeys() string {
	own := "host:" + string(p.Host.ID)
	switch p.Tab {
	case "vms":
		return own + " vms"
	case "storage":
		return own + " pools"
	case "networks":
		return own + " networks"
	case "tasks":
		return "tasks"
	}
	return own
}
