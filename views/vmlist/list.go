package vmlist

import (
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/usage"
	"quantix/views"
	"quantix/views/kit"
	vmview "quantix/views/vm"
)

// ListPage is the list of VMs, or of unmanaged VMs.
type ListPage struct {
	kit.List
	Tab       string // "all", "attention", "restart", "found"
	VMs       []fleet.VMView
	Found     []fleet.DiscoveredVM
	Recent    map[fleet.VMID]*usage.Recent // only with a column of the last hour
	Actor     fleet.Actor
	MayCreate bool // the actor may create VMs

	MayChangeHosts bool // the actor may change infrastructure
	MayUseVMs      bool // the actor may use at least one VM
	Total          fleet.VMTotals
	IsRestricted   bool // a filter, a tab or the project filter restricts the list
}

func (p *ListPage) vmTable() kit.Table[fleet.VMView] {
	return kit.Table[fleet.VMView]{
		List: &p.List, ID: "vm-rows", Live: "vms", Every: "30s", Label: "Virtual machines", Type: "VM", Head: kit.NameColumn,
		Items: p.VMs, HasRowMenus: true, Select: p.MayUseVMs, EmptyContent: emptyListNote(p),
		Row: func(vm *fleet.VMView) kit.Row {
			id := string(vm.ID)
			return kit.Row{ID: "vm-" + id, Name: vm.Name, Href: views.VMPath(vm.ID), Menu: views.ContextMenuPath(fleet.TypeVM, vm.ID), Value: id}
		},
		RowCells: func(shown kit.Columns, vm *fleet.VMView) templ.Component {
			return row(shown, vm, p.Recent[vm.ID], p.Now)
		},
	}
}

func (p *ListPage) discoveredVMTable() kit.Table[fleet.DiscoveredVM] {
	return kit.Table[fleet.DiscoveredVM]{
		List: &p.List, ID: "found-rows", Live: "hosts", Every: "30s", Label: "Discovered virtual machines", Type: "VM", Head: kit.NameColumn,
		Items: p.Found, HasRowMenus: true, Select: p.MayChangeHosts, EmptyContent: noDiscoveredVMsNote(p),
		Row: func(vm *fleet.DiscoveredVM) kit.Row {
			return kit.Row{
				ID: "found-" + string(vm.HostID) + string(vm.ID), Name: vm.Name, Href: views.DiscoveredVMPath(vm.HostID, vm.ID),
				Menu: DiscoveredMenuPath(vm.HostID, vm.ID), Value: string(vm.HostID) + "/" + string(vm.ID),
			}
		},
		RowCells: func(shown kit.Columns, vm *fleet.DiscoveredVM) templ.Component {
			return discoveredVMRow(shown, vm, p.Now)
		},
	}
}

// tabs are the list's tabs. Their links omit the page cursor and the order. The link of the discovered tab also omits
// the filter, because that list has other filter keys and columns.
func (p *ListPage) tabs() []kit.Tab {
	l := p.Link.FirstPage().Without("tab")
	ours, found := l, l.Without("filter", "sort", "columns")
	if p.Tab == "found" {
		ours, found = found, l
	}
	count := func(n int) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	tabs := []kit.Tab{
		{Key: "all", Text: "All"},
		{Key: "attention", Text: "Needs attention", Severity: "bad", Count: count(p.Total.NeedingAttention)},
		{Key: "restart", Text: "Needs restart", Count: count(p.Total.Phases[fleet.PhaseNeedsRestart])},
	}
	if policy.May(p.Actor, policy.InfraSee, "") {
		tabs = append(tabs, kit.Tab{Key: "found", Text: "Discovered", Href: found.With("tab", "found").String(), Count: count(p.Total.Discovered)})
	}
	return kit.LinkTabs(ours, "tab", p.Tab, append(tabs, kit.ResourceTabs(fleet.TypeVM)...)...)
}

// summary is the line under the title: "40 · 29 running · 8 unknown". The line counts the whole fleet, so a filtered
// list shows no summary.
func (p *ListPage) summary() string {
	total := 0
	for _, n := range p.Total.Phases {
		total += n
	}
	if total == 0 {
		return ""
	}
	parts := []string{strconv.Itoa(total)}
	for _, ph := range []fleet.Phase{fleet.PhaseRunning, fleet.PhaseStopped, fleet.PhaseUnknown} {
		if n := p.Total.Phases[ph]; n > 0 {
			parts = append(parts, strconv.Itoa(n)+" "+strings.ToLower(ph.DisplayName()))
		}
	}
	return strings.Join(parts, " · ")
}

func (p *ListPage) noVMsText() string {
	switch {
	case !p.MayCreate:
		return "Your projects have no VMs."
	case !policy.May(p.Actor, policy.InfraSee, ""):
		return "Create the first VM of your project."
	}
	return "Create the first VM. It needs a host, and a pool for its disks."
}

func (p *ListPage) newVMAction() kit.ActionButton {
	return kit.ActionButton{Icon: "plus", Word: "New VM", Href: "/vms/new"}.RequirePermission(p.Actor, policy.VMChange)
}

// importAction is the action that opens the import page.
func (p *ListPage) importAction() kit.ActionButton {
	return kit.ActionButton{Icon: "upload", Word: "Import", Href: vmview.ImportPath}.RequirePermission(p.Actor, policy.InfraChange)
}
