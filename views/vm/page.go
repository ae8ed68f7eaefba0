// Package vm renders virtual machines: the list, one VM with its tabs, its forms and dialogs, and unmanaged VMs.
package vm

import (
	"strings"
	"time"

	"github.com/a-h/templ"

	"quantix/internal/fleet"
	"quantix/internal/schedules"
	"quantix/internal/secgroup"
	"quantix/views"
	consoleview "quantix/views/console"
	"quantix/views/kit"
)

// Page shows one VM.
type Page struct {
	VM          fleet.VMView
	Tab         string // "summary", "monitor", "console", "configure", "snapshots", "events"
	Now         time.Time
	Actions     []fleet.ActionState // the VM's actions, each with the reason if the actor cannot start it now
	Pools       map[fleet.PoolID]string
	MaySeeHosts bool // the actor may see hosts
	Actor       fleet.Actor

	DiskMigrations   []fleet.MovingDisk // tab summary: running disk migrations, for actors who may see hosts
	RunningMigration *fleet.MigratingVM // tab summary: the VM's running migration, for actors who may see hosts
	MigrateWhy       string             // why the actor may not migrate the VM; empty: allowed
	MoveWhy          string             // why the actor may not move disks; empty: allowed

	Guest        fleet.GuestView     // tab summary: guest values that change without an edit
	GuestActions []fleet.ActionState // as Actions, for the guest agent's actions

	PlaceWhy string // why the actor may not set which host the VM is on; empty: allowed

	UnfinishedSnapshotJobs []fleet.JobKind          // tab snapshots: kinds of unfinished snapshot jobs
	Schedules              []schedules.ScheduleView // tab snapshots: snapshot schedules

	Edit       Form               // tab configure
	Merge      *MergePage         // replaces Edit after a concurrent change of the VM
	Audit      []fleet.AuditEntry // tab events
	Tasks      []fleet.Task
	Alarms     []fleet.Alarm        // tab monitor: open alarms
	ChartRange string               // tab monitor: key of the charts' range
	Meter      *LoadSample          // tab monitor; nil: no load reported yet
	NICs       []fleet.NICAddresses // tab summary
	People     consoleview.People   // tab console
	Retry      *fleet.Task          // tab summary: task that waits until the host's hypervisor responds; nil: none

	Devices map[fleet.DeviceClassID][]string // tab summary: allocated devices, for actors who may see hosts

	Filters []secgroup.NICFilter // tab summary: filters of the NICs, in the spec's order
}

// LoadSample is a VM's newest load sample.
type LoadSample struct {
	At time.Time
	fleet.Meter
	CPUPercent *float64 // 100 is one core
}

func (p Page) path(below ...string) string { return views.VMPath(p.VM.ID, below...) }

func (p Page) tabPath() string {
	switch p.Tab {
	case "summary":
		return p.path()
	case "console":
		return p.path("console")
	}
	return views.TabPath(p.path(), p.Tab)
}

func (p Page) tabs() []kit.Tab {
	return kit.LinkTabs(kit.Link{Path: p.path()}, "tab", p.Tab, kit.Tab{Key: "summary", Text: "Summary"}, kit.Tab{Key: "monitor", Text: "Monitor"},
		kit.Tab{Key: "console", Text: "Console", Href: p.path("console")}, kit.Tab{Key: "configure", Text: "Configure"}, kit.Tab{Key: "snapshots", Text: "Snapshots"}, kit.Tab{Key: "events", Text: "Events"})
}

// liveKey is the VM's wake-up key.
func (p Page) liveKey() string { return "vm:" + string(p.VM.ID) }

// consoleAttrs are attributes that pass the VM's phase to the console's scripts. A VM without a console has none.
func (p Page) consoleAttrs() templ.Attributes {
	if !p.actionState(fleet.ActConsole).Allowed {
		return nil
	}
	return templ.Attributes{"data-screen": string(p.VM.Phase)}
}

func (p Page) crumbs() []kit.Breadcrumb {
	out := []kit.Breadcrumb{{Text: "Virtual machines", Href: "/vms"}}
	if p.MaySeeHosts && p.VM.HostName != "" {
		out = append(out, kit.Breadcrumb{Text: p.VM.HostName, Href: views.HostPath(p.VM.HostID)})
	}
	return out
}

func (p Page) actionState(a fleet.Action) fleet.ActionState {
	for _, s := range p.Actions {
		if s.Action == a {
			return s
		}
	}
	return fleet.ActionState{Action: a}
}

func (p Page) poolName(id fleet.PoolID) string {
	if name := p.Pools[id]; name != "" {
		return name
	}
	return "a pool"
}

// nicFilter is the filter status of the NIC with index i; nil: unknown.
func (p Page) nicFilter(i int) *secgroup.NICFilter {
	if i < len(p.Filters) {
		return &p.Filters[i]
	}
	return nil
}

// whyNotEdit is the reason why the VM cannot be edited now; empty: the VM can be edited.
func (p Page) whyNotEdit() string {
	for _, s := range p.Actions {
		if s.Action == fleet.ActEdit {
			return s.Reason
		}
	}
	return ""
}

// adoptionOrigin names the person who adopted the VM, and the VM's host at that time, as far as the reader may know them.
func adoptionOrigin(of fleet.Adoption) string {
	var parts []string
	if of.By != "" {
		parts = append(parts, "by "+of.By)
	}
	if of.HostName != "" {
		parts = append(parts, "from "+of.HostName)
	}
	return strings.Join(parts, " ")
}

// charts describes the charts of the tab monitor.
func (p Page) charts() kit.MetricChartsView {
	return kit.MetricChartsView{Source: views.VMPath(p.VM.ID, "metrics"), Name: p.VM.Name, Range: p.ChartRange, Page: kit.Link{Path: p.path()}.With("tab", "monitor")}
}
