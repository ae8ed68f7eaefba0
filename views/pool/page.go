// Package pool shows storage pools: their list, one with its health on each host, its volumes, and the forms and dialogs about it.
package pool

import (
	"time"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
)

// Page is one pool; of the lists only those of its tab are filled.
type Page struct {
	Actor    fleet.Actor
	Link     kit.Link // of the page as it is shown
	Tab      string
	Pool     fleet.PoolView                   // its hosts are the first few
	Statuses kit.HostStatuses[fleet.PoolHost] // of tab health
	Now      time.Time
	Volumes  Volumes        // of tab volumes
	Uploads  []fleet.Upload // of tab volumes: the person's own that have not ended
	Counts   Counts
	ByLabel  fleet.ByLabel // of tabs health and configure, for those who see hosts
	First    int           // of Volumes, those from First to before Last are shown
	Last     int
	VMs      []fleet.VMView
	Filter   kit.Filter // of tab vms
	Tasks    []fleet.Task
	Prev     string // cursors around this page of the tab's list
	Next     string
}

func (p Page) tabs() []kit.Tab {
	return kit.TabsAt(kit.Link{Path: p.path()}, "tab", p.Tab,
		kit.Tab{Key: "health", Text: "Health"}, kit.Tab{Key: "volumes", Text: "Volumes", Count: p.Counts.Volumes},
		kit.Tab{Key: "vms", Text: "VMs", Count: p.Counts.VMs}, kit.Tab{Key: "configure", Text: "Configure"}, kit.Tab{Key: "tasks", Text: "Tasks"})
}

// Counts are how many volumes and VMs the tabs say there are; empty: they do not say.
type Counts struct{ Volumes, VMs string }

// key is what changes when the pool does.
func (p Page) key() string { return "pool:" + string(p.Pool.ID) }

// Tabs are the names of the views of a pool; the first is its own.
func Tabs() []string { return kit.TabKeys(Page{}.tabs()) }

func (p Page) path(below ...string) string { return views.PoolPath(p.Pool.ID, below...) }

func (p Page) infra() bool { return policy.May(p.Actor, policy.InfraSee, "") }

// liveKeys are what the shown tab depends on.
func (p Page) liveKeys() string {
	switch p.Tab {
	case "vms":
		return p.key() + " vms"
	case "tasks":
		return "tasks"
	}
	return p.key()
}

func (p Page) noVMs() string {
	if p.Filter.Value != "" {
		return "None that fits the filter has a disk in this pool."
	}
	return "No VM that you may see has a disk in this pool."
}
