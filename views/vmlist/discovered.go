package vmlist

import (
	"time"

	"github.com/a-h/templ"

	"quantix/internal/fleet"
	"quantix/views"
	consoleview "quantix/views/console"
	"quantix/views/kit"
	vmview "quantix/views/vm"
)

// DiscoveredPage shows an unmanaged VM.
type DiscoveredPage struct {
	VM      fleet.DiscoveredVM
	Tab     string // "summary", "console"
	Actions []fleet.ActionState
	Now     time.Time
	People  consoleview.People // tab console
}

func (p DiscoveredPage) crumbs() []kit.Breadcrumb {
	return []kit.Breadcrumb{{Text: "Discovered", Href: "/vms?tab=found"}, {Text: p.VM.HostName, Href: views.HostPath(p.VM.HostID)}}
}

func (p DiscoveredPage) path(below ...string) string {
	return views.DiscoveredVMPath(p.VM.HostID, p.VM.ID, below...)
}

// tabPath is the address of the current tab.
func (p DiscoveredPage) tabPath() string {
	if p.Tab == "console" {
		return p.path("console")
	}
	return p.path()
}

func (p DiscoveredPage) tabs() []kit.Tab {
	return kit.LinkTabs(kit.Link{Path: p.path()}, "tab", p.Tab, kit.Tab{Key: "summary", Text: "Summary"}, kit.Tab{Key: "console", Text: "Console", Href: p.path("console")})
}

func (p DiscoveredPage) actionState(a fleet.Action) fleet.ActionState {
	for _, s := range p.Actions {
		if s.Action == a {
			return s
		}
	}
	return fleet.ActionState{Action: a}
}

// consoleAttrs are attributes that pass the VM's phase to the console's scripts. A VM without a console has none.
func (p DiscoveredPage) consoleAttrs() templ.Attributes {
	if !p.actionState(fleet.ActConsole).Allowed {
		return nil
	}
	return templ.Attributes{"data-screen": string(p.VM.Phase)}
}

func (p DiscoveredPage) actionButton(a fleet.Action) kit.ActionButton {
	s := p.actionState(a)
	if a == fleet.ActConsole {
		return kit.ActionButton{Icon: "monitor", Word: a.Label(), Href: p.path("console"), Separated: true, Why: s.Reason}
	}
	if a == fleet.ActAdopt {
		return kit.ActionButton{Icon: "log-in", Word: "Adopt…", Href: p.path("adopt"), Dialog: true, Separated: true}.DisableFor(s.Reason)
	}
	return vmview.PowerButton(s, p.VM.Name, p.path("actions"))
}

func (p DiscoveredPage) actionMenu() []kit.ActionButton {
	out := make([]kit.ActionButton, len(fleet.DiscoveredVMActions))
	for i, a := range fleet.DiscoveredVMActions {
		out[i] = p.actionButton(a)
	}
	return out
}

// Screen is the VM's screen, in a tab or in a separate browser window.
func (p DiscoveredPage) Screen(window bool) vmview.Screen {
	return vmview.Screen{
		VM: p.VM.ID, Name: p.VM.Name, Path: p.path("console"), TicketPath: p.path("console", "ticket"), State: p.actionState(fleet.ActConsole), Window: window, People: p.People,
	}
}
