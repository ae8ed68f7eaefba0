// Package host renders hosts: the list, one host with its tabs, and the page for joining a machine.
package host

import (
	"strconv"
	"time"

	"quantix/internal/bmc"
	"quantix/internal/deviceclass"
	"quantix/internal/diagram"
	"quantix/internal/fleet"
	"quantix/internal/healthevent"
	"quantix/internal/hostcommand"
	"quantix/internal/maintenance"
	"quantix/internal/policy"
	"quantix/views"
	policyview "quantix/views/healthpolicy"
	"quantix/views/kit"
)

// Page shows one host. Only the lists of the current tab are filled.
type Page struct {
	Actor      fleet.Actor
	Link       kit.Link // address of the page as shown
	Tab        string
	Host       fleet.HostView
	Now        time.Time
	Alarms     []fleet.Alarm // tab monitor: open alarms
	ChartRange string        // tab monitor: key of the charts' range
	VMs        []fleet.VMView
	Found      []fleet.DiscoveredVM
	Pools      []fleet.PoolView
	Networks   []fleet.NetworkView
	Topology   diagram.HostTopology
	Devices    map[string]fleet.NamedVM // host devices assigned to VMs, by device name
	// DeviceClasses are the device classes of the host's devices, by device name.
	DeviceClasses map[string]deviceclass.DeviceClass
	Tasks         []fleet.Task
	Prev          string // cursors of the previous and next page of the tab's list
	Next          string
	Form          SettingsForm
	Progress      maintenance.Progress
	// Artifacts are the diagnostics of the tab diagnostics; Log is the log of the tab agent-log. Open is the tab's task that has
	// not ended.
	Artifacts []hostcommand.Artifact
	Log       AgentLog
	Open      *fleet.Task
	BMC       *bmc.BMC // tab summary; nil: the host has none
	Policies  policyview.HostView
	// FoundPools are the host's own pools that are not assigned to it.
	FoundPools []fleet.DiscoveredPool
	Health     HealthTab           // tab health
	Summary    healthevent.Summary // of the open conditions
}

func (p Page) tabs() []kit.Tab {
	return kit.LinkTabs(kit.Link{Path: p.path()}, "tab", p.Tab,
		kit.Tab{Key: "summary", Text: "Summary"}, kit.Tab{Key: "monitor", Text: "Monitor"}, p.healthTabLink(), kit.Tab{Key: "vms", Text: "VMs", Count: strconv.Itoa(p.Host.VMs)},
		kit.Tab{Key: "hardware", Text: "Hardware"}, kit.Tab{Key: "storage", Text: "Storage"}, kit.Tab{Key: "networks", Text: "Networks"}, kit.Tab{Key: "topology", Text: "Topology"},
		kit.Tab{Key: "configure", Text: "Configure"}, kit.Tab{Key: "tasks", Text: "Tasks"}, kit.Tab{Key: "diagnostics", Text: "Diagnostics"}, kit.Tab{Key: "agent-log", Text: "Agent log"})
}

// Tabs are the keys of the host page's tabs; the first tab is the default.
func Tabs() []string { return kit.TabKeys(Page{}.tabs()) }

func (p Page) path(below ...string) string { return views.HostPath(p.Host.ID, below...) }

// liveKeys are the wake-up keys of the current tab.
func (p Page) liveKeys() string {
	own := "host:" + string(p.Host.ID)
	if p.Host.Lifecycle == fleet.LifecycleDraining {
		own += " tasks"
	}
	switch p.Tab {
	case "vms":
		return own + " vms"
	case "hardware":
		return own + " vms"
	case "storage":
		return own + " pools"
	case "networks":
		return own + " networks"
	case "topology":
		return own + " networks vms"
	case "tasks":
		return "tasks"
	case "diagnostics":
		return own + " tasks"
	case "agent-log":
		if p.Open != nil {
			return own + " tasks"
		}
	}
	return own
}

// mayAdopt reports whether the actor may adopt the VMs that Quantix did not create.
func (p Page) mayAdopt() bool { return policy.May(p.Actor, policy.InfraChange, "") }

// charts describes the charts of the tab monitor.
func (p Page) charts() kit.MetricChartsView {
	return kit.MetricChartsView{Source: views.HostPath(p.Host.ID, "metrics"), Name: p.Host.Name, Range: p.ChartRange, Page: kit.Link{Path: p.path()}.With("tab", "monitor")}
}
