// Package vm shows virtual machines: their list, one with its tabs, the forms and dialogs about it, and those that hosts run beside.
package vm

import (
	"time"

	"github.com/a-h/templ"

	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

// Page is one VM.
type Page struct {
	VM      fleet.VMView
	Tab     string // "summary", "monitor", "console", "configure", "snapshots", "events"
	Now     time.Time
	Actions []fleet.ActionState // cut by what the person may do, with the reason
	Pools   map[fleet.PoolID]string
	Infra   bool // the person may see hosts
	Actor   fleet.Actor

	Moving     []fleet.MovingDisk // tab summary, of those who may see hosts
	Leaving    *fleet.LeavingVM   // likewise: its own way to another host
	MigrateWhy string             // why the person may not move it there; empty: they may
	MoveWhy    string             // why the person may not move disks; empty: they may

	Guest        fleet.GuestView     // tab summary: what changes by itself in the guest
	GuestActions []fleet.ActionState // cut by what the person may do

	PlaceWhy string // why the person may not say where the VM is; empty: they may

	Busy      []fleet.JobKind      // tab snapshots: what is asked about them and has not ended
	Schedules []fleet.ScheduleView // likewise: when some are taken by themselves

	Edit  Form               // tab configure
	Merge *MergePage         // in its place: somebody else has changed the VM meanwhile
	Audit []fleet.AuditEntry // tab events
	Tasks []fleet.Task
	Meter *Meter               // tab monitor; nil: none yet
	NICs  []fleet.NICAddresses // tab summary
	Retry *fleet.Task          // tab summary: the order that waits for its hypervisor; nil: none

	Filters []fleet.NICFilter // tab summary: what passes the NICs, in the spec's order
}

// Meter is a VM's newest load.
type Meter struct {
	At time.Time
	fleet.Meter
	CPUPercent *float64 // 100 is one core
}

func (p Page) path(below ...string) string { return views.VMPath(p.VM.ID, below...) }

func (p Page) address() string {
	switch p.Tab {
	case "summary":
		return p.path()
	case "console":
		return p.path("console")
	}
	return views.TabPath(p.path(), p.Tab)
}

func (p Page) tabs() []kit.Tab {
	return kit.TabsAt(kit.Link{Path: p.path()}, "tab", p.Tab, kit.Tab{Key: "summary", Text: "Summary"}, kit.Tab{Key: "monitor", Text: "Monitor"},
		kit.Tab{Key: "console", Text: "Console", Href: p.path("console")}, kit.Tab{Key: "configure", Text: "Configure"}, kit.Tab{Key: "snapshots", Text: "Snapshots"}, kit.Tab{Key: "events", Text: "Events"})
}

// key is what changes when the VM does.
func (p Page) key() string { return "vm:" + string(p.VM.ID) }

// screen says to its console's scripts which phase the VM is in; a VM without a console says nothing.
func (p Page) screen() templ.Attributes {
	if !p.action(fleet.ActConsole).Allowed {
		return nil
	}
	return templ.Attributes{"data-screen": string(p.VM.Phase)}
}

func (p Page) crumbs() []kit.Crumb {
	out := []kit.Crumb{{Text: "Virtual machines", Href: "/vms"}}
	if p.Infra && p.VM.HostName != "" {
		out = append(out, kit.Crumb{Text: p.VM.HostName, Href: views.HostPath(p.VM.HostID)})
	}
	return out
}

func (p Page) action(a fleet.Action) fleet.ActionState {
	for _, s := range p.Actions {
		if s.Action == a {
			return s
		}
	}
	return fleet.ActionState{Action: a}
}

func (p Page) pool(id fleet.PoolID) string {
	if name := p.Pools[id]; name != "" {
		return name
	}
	return "a pool"
}

// filter is what passes the NIC; nil: nothing is known of it.
func (p Page) filter(i int) *fleet.NICFilter {
	if i < len(p.Filters) {
		return &p.Filters[i]
	}
	return nil
}

// whyNotEdit says why the VM cannot be edited now; empty: it can.
func (p Page) whyNotEdit() string {
	for _, s := range p.Actions {
		if s.Action == fleet.ActEdit {
			return s.Reason
		}
	}
	return ""
}
