package views

import (
	"strconv"
	"strings"

	"github.com/a-h/templ"

	"quantix/internal/fleet"
)

// VMsPage is the list of VMs, or of discovered ones.
type VMsPage struct {
	List
	Tab    string // "all", "attention", "restart", "found"
	VMs    []fleet.VMView
	Found  []fleet.FoundVM
	Create bool // the person may make VMs
	Use    bool // and use some
	Total  fleet.VMTotals
	Any    bool // a filter, tab or project cuts the list
}

// VMColumns are the columns of VMs.
var VMColumns = Columns{
	{Key: "state", Word: "State"},
	{Key: "host", Word: "Host", Sort: "host"},
	{Key: "project", Word: "Project", Sort: "project"},
	{Key: "cpus", Word: "vCPU", Sort: "cpus", Class: "num"},
	{Key: "load", Word: "CPU", Class: "num"},
	{Key: "memory", Word: "Memory", Sort: "memory", Class: "num"},
	{Key: "address", Word: "Address"},
	{Key: "labels", Word: "Labels"},
	{Key: "created", Word: "Created", Sort: "created", Extra: true},
	{Key: "seen", Word: "Heard", Extra: true},
	{Key: "id", Word: "UUID", Extra: true},
}

// FoundColumns are the columns of discovered VMs.
var FoundColumns = Columns{
	{Key: "state", Word: "State"},
	{Key: "host", Word: "Host"},
	{Key: "cpus", Word: "vCPU", Class: "num"},
	{Key: "memory", Word: "Memory", Class: "num"},
	{Key: "seen", Word: "Heard"},
	{Key: "id", Word: "UUID", Extra: true},
}

func (p *VMsPage) vms() Table[fleet.VMView] {
	return Table[fleet.VMView]{
		List: &p.List, ID: "vm-rows", Live: "vms", Every: "30s", Label: "Virtual machines", Noun: "VM", Head: nameHead,
		Items: p.VMs, Acts: true, Select: p.Use, None: noVMs(p),
		Row: func(vm *fleet.VMView) Row {
			id := string(vm.ID)
			return Row{ID: "vm-" + id, Name: vm.Name, Href: VMPath(vm.ID), Menu: MenuPath(fleet.NounVM, vm.ID), Value: id}
		},
		Cells: func(shown Columns, vm *fleet.VMView) templ.Component { return vmRow(shown, vm, p.Now) },
	}
}

func (p *VMsPage) found() Table[fleet.FoundVM] {
	return Table[fleet.FoundVM]{
		List: &p.List, ID: "found-rows", Live: "hosts", Every: "30s", Label: "Discovered virtual machines", Noun: "VM", Head: nameHead,
		Items: p.Found, None: noFound(p),
		Row: func(vm *fleet.FoundVM) Row {
			return Row{ID: "found-" + string(vm.HostID) + string(vm.ID), Name: vm.Name, Href: FoundPath(vm.HostID, vm.ID)}
		},
		Cells: func(shown Columns, vm *fleet.FoundVM) templ.Component { return foundRow(shown, vm, p.Now) },
	}
}

// tabs drop what belongs to one page of one order. Discovered VMs are another list than the other three, with words and columns
// of its own.
func (p *VMsPage) tabs() []Tab {
	l := p.Link.First().Without("tab")
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
	return []Tab{
		{Text: "All", Href: ours.String(), Here: p.Tab == "all"},
		{
			Text: "Needs attention", Href: ours.With("tab", "attention").String(), Here: p.Tab == "attention", Tone: "bad",
			Count: count(p.Total.InNeed),
		},
		{
			Text: "Needs restart", Href: ours.With("tab", "restart").String(), Here: p.Tab == "restart",
			Count: count(p.Total.Phases[fleet.PhaseNeedsRestart]),
		},
		{Text: "Discovered", Href: found.With("tab", "found").String(), Here: p.Tab == "found", Count: count(p.Total.Found)},
	}
}

// summary is one line under the title: "40 · 29 running · 8 unknown". It is of the whole fleet, so a page that is cut shows none.
func (p *VMsPage) summary() string {
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
			parts = append(parts, strconv.Itoa(n)+" "+lower(ph.Word()))
		}
	}
	return strings.Join(parts, " · ")
}

// addresses of all network cards, as the guest's host knows them.
func addresses(vm fleet.VMView) []string {
	var out []string
	if vm.Status == nil {
		return nil
	}
	for _, n := range vm.Status.NICs {
		out = append(out, n.Addresses...)
	}
	return out
}

// load is how much of its vCPUs a VM uses: "37 %". Of a host that is not heard nobody knows.
func load(vm *fleet.VMView) string {
	if vm.CPUPercent == nil || vm.Spec.CPUs == 0 || vm.Phase == fleet.PhaseUnknown {
		return "–"
	}
	return strconv.FormatFloat(*vm.CPUPercent/float64(vm.Spec.CPUs), 'f', 0, 64) + " %"
}

// bulkActions can be asked of many VMs at once.
var bulkActions = []fleet.Action{fleet.ActStart, fleet.ActShutdown, fleet.ActReboot, fleet.ActPause, fleet.ActResume, fleet.ActStop}
