// Package pool renders storage pools: the list, one pool with its health on each host, its volumes, and its forms and
// dialogs.
package pool

import (
	"time"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/usage"
	"quantix/views"
	"quantix/views/kit"
)

// Page shows one pool. Only the lists of the current tab are filled.
type Page struct {
	Actor      fleet.Actor
	Link       kit.Link // address of the page as shown
	Tab        string
	Pool       fleet.PoolView                   // with only the first few hosts
	Statuses   kit.HostStatuses[fleet.PoolHost] // tab health
	Drifted    []fleet.PoolHost                 // tab health: the first hosts with another definition of the pool
	Now        time.Time
	Alarms     []fleet.Alarm     // tab monitor: open alarms
	ChartRange string            // tab monitor: key of the charts' range
	Growth     *usage.PoolGrowth // tabs health and monitor, for actors who may see hosts; nil: not predicted yet
	Volumes    VolumesTab        // tab volumes
	Uploads    []fleet.Upload    // tab volumes: the actor's own unfinished uploads
	Counts     TabCounts
	ByLabel    fleet.ByLabel // tabs health and configure, for actors who may see hosts
	First      int           // index of the first shown row of Volumes; Last is the index after the last one
	Last       int
	VMs        []fleet.VMView
	Filter     kit.Filter // tab vms
	Tasks      []fleet.Task
	Publish    PublishForm // tab grants
	Prev       string      // cursors of the previous and next page of the tab's list
	Next       string
}

func (p Page) tabs() []kit.Tab {
	health := "Health"
	if !p.seesHosts() {
		health = "Summary"
	}
	return kit.LinkTabs(kit.Link{Path: p.path()}, "tab", p.Tab, kit.TabsFor(p.Actor,
		kit.Tab{Key: "health", Text: health}, kit.Tab{Key: "monitor", Text: "Monitor", Hosts: true},
		kit.Tab{Key: "volumes", Text: "Volumes", Count: p.Counts.Volumes, Hosts: true}, kit.Tab{Key: "vms", Text: "VMs", Count: p.Counts.VMs},
		kit.Tab{Key: "grants", Text: "Published to", Hosts: true}, kit.Tab{Key: "configure", Text: "Configure", Hosts: true},
		kit.Tab{Key: "tasks", Text: "Tasks", Hosts: true})...)
}

// PublishForm is the form that publishes the pool to one more project.
type PublishForm struct {
	Projects kit.SelectChoices
	Errors   kit.Errors
}

func (p Page) publishing() kit.PublishingPanel {
	return kit.PublishingPanel{
		Noun: "pool", Grants: p.Pool.Grants, Path: p.path("grants"), MayPublish: policy.May(p.Actor, policy.InfraChange, ""),
		Projects: p.Publish.Projects, Errors: p.Publish.Errors, StayText: "VMs keep their disks",
	}
}

// TabCounts are the numbers of volumes and VMs on the tabs; empty: not shown.
type TabCounts struct{ Volumes, VMs string }

// liveKey is the pool's wake-up key.
func (p Page) liveKey() string { return "pool:" + string(p.Pool.ID) }

// Tabs are the keys of the tabs that the actor sees on a pool's page; the first tab is the default.
func Tabs(a fleet.Actor) []string { return kit.TabKeys(Page{Actor: a}.tabs()) }

func (p Page) path(below ...string) string { return views.PoolPath(p.Pool.ID, below...) }

func (p Page) seesHosts() bool { return policy.May(p.Actor, policy.InfraSee, "") }

// liveKeys are the wake-up keys of the current tab.
func (p Page) liveKeys() string {
	switch p.Tab {
	case "vms":
		return p.liveKey() + " vms"
	case "tasks":
		return "tasks"
	}
	return p.liveKey()
}

func (p Page) noVMsText() string {
	if p.Filter.Value != "" {
		return "No VM that matches the filter has a disk in this pool."
	}
	return "No VM that you can see has a disk in this pool."
}

// charts describes the charts of the tab monitor.
func (p Page) charts() kit.MetricChartsView {
	return kit.MetricChartsView{Source: views.PoolPath(p.Pool.ID, "metrics"), Name: p.Pool.Name, Range: p.ChartRange, Page: kit.Link{Path: p.path()}.With("tab", "monitor")}
}
