package views

import (
	"time"

	"quantix/internal/fleet"
)

// VMPage is one VM.
type VMPage struct {
	VM      fleet.VMView
	Tab     string // "summary", "monitor", "console", "configure", "events"
	Now     time.Time
	Actions []fleet.ActionState // cut by what the person may do, with the reason
	Pools   map[fleet.PoolID]string
	Infra   bool // the person may see hosts

	PlaceWhy string // why the person may not say where the VM is; empty: they may

	Edit  VMForm             // tab configure
	Audit []fleet.AuditEntry // tab events
	Tasks []fleet.Task
	Meter *Meter      // tab monitor; nil: none yet
	Retry *fleet.Task // tab summary: the order that waits for its hypervisor; nil: none
}

// Meter is a VM's newest load.
type Meter struct {
	At time.Time
	fleet.Meter
	CPUPercent *float64 // 100 is one core
}

func (p VMPage) path(below ...string) string { return VMPath(p.VM.ID, below...) }

func (p VMPage) address() string {
	switch p.Tab {
	case "summary":
		return p.path()
	case "console":
		return p.path("console")
	}
	return TabPath(p.path(), p.Tab)
}

func (p VMPage) tabs() []Tab {
	tab := func(key, word string) Tab {
		return Tab{Text: word, Href: VMPage{VM: p.VM, Tab: key}.address(), Here: p.Tab == key}
	}
	return []Tab{tab("summary", "Summary"), tab("monitor", "Monitor"), tab("console", "Console"), tab("configure", "Configure"), tab("events", "Events")}
}

func (p VMPage) crumbs() []Crumb {
	out := []Crumb{{"Virtual machines", "/vms"}}
	if p.Infra && p.VM.HostName != "" {
		out = append(out, Crumb{p.VM.HostName, HostPath(p.VM.HostID)})
	}
	return out
}

func (p VMPage) action(a fleet.Action) fleet.ActionState {
	for _, s := range p.Actions {
		if s.Action == a {
			return s
		}
	}
	return fleet.ActionState{Action: a}
}

func (p VMPage) pool(id fleet.PoolID) string {
	if name := p.Pools[id]; name != "" {
		return name
	}
	return "a pool"
}

var actionIcons = map[fleet.Action]string{
	fleet.ActStart: "play", fleet.ActShutdown: "power", fleet.ActStop: "power-off", fleet.ActReboot: "rotate-cw", fleet.ActReset: "zap",
	fleet.ActPause: "pause", fleet.ActResume: "play", fleet.ActConsole: "monitor", fleet.ActEdit: "pencil", fleet.ActDelete: "trash-2",
}

// sure is what the browser asks before an action that loses what the guest has not written; empty: nothing.
func sure(a fleet.Action, name string) string {
	if !a.Job().Is().Forces {
		return ""
	}
	return a.Word() + " " + name + "? The guest is not asked: what it has not written is lost."
}

// DeleteVMPage asks what is to go.
type DeleteVMPage struct {
	VM     fleet.VMView
	Pools  map[fleet.PoolID]string
	Errors Errors
}

// FoundVMPage is a VM that Quantix did not make.
type FoundVMPage struct {
	VM  fleet.FoundVM
	Now time.Time
}
