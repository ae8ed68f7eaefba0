package views

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"quantix/internal/fleet"
)

// VMsPage is the list of VMs, or of discovered ones.
type VMsPage struct {
	Link    Link   // of the page as it is shown
	Tab     string // "all", "attention", "restart", "found"
	Filter  Filter
	Sort    string
	Columns []string // keys of VMColumns
	VMs     []fleet.VMView
	Found   []fleet.FoundVM
	Next    string // cursor
	After   string // cursor of this page; empty: the first
	Now     time.Time
	Create  bool // the person may make VMs
	Use     bool // and use some
	Total   map[fleet.Phase]int
	FoundN  int
	Share   string // the whole address of what is shown
	Any     bool   // a filter, tab or project cuts the list
}

// VMColumn is a column that a person may choose. Sort is the key to order by; empty: it cannot be.
type VMColumn struct{ Key, Word, Sort, Class string }

// VMColumns lists the columns in their order; the name always stands first.
var VMColumns = []VMColumn{
	{"state", "State", "", ""},
	{"host", "Host", "host", ""},
	{"project", "Project", "project", ""},
	{"cpus", "vCPU", "cpus", "num"},
	{"load", "CPU", "", "num"},
	{"memory", "Memory", "memory", "num"},
	{"address", "Address", "", ""},
	{"labels", "Labels", "", ""},
	{"created", "Created", "created", ""},
	{"seen", "Heard", "", ""},
	{"id", "UUID", "", ""},
}

// VMColumnsFirst are shown where nobody has chosen.
var VMColumnsFirst = []string{"state", "host", "project", "cpus", "load", "memory", "address", "labels"}

func (p VMsPage) columns() []VMColumn {
	var out []VMColumn
	for _, c := range VMColumns {
		if p.has(c.Key) {
			out = append(out, c)
		}
	}
	return out
}

func (p VMsPage) has(key string) bool {
	return slices.Contains(p.Columns, key)
}

// tabs drop what belongs to one page of one order.
func (p VMsPage) tabs() []Tab {
	l := p.Link.Without("after", "tab")
	count := func(phases ...fleet.Phase) string {
		n := 0
		for _, ph := range phases {
			n += p.Total[ph]
		}
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	found := ""
	if p.FoundN > 0 {
		found = strconv.Itoa(p.FoundN)
	}
	return []Tab{
		{Text: "All", Href: l.String(), Here: p.Tab == "all"},
		{
			Text: "Needs attention", Href: l.With("tab", "attention").String(), Here: p.Tab == "attention", Tone: "bad",
			Count: count(fleet.PhaseFailed, fleet.PhaseCrashed, fleet.PhaseMissing, fleet.PhaseUnknown),
		},
		{Text: "Needs restart", Href: l.With("tab", "restart").String(), Here: p.Tab == "restart", Count: count(fleet.PhaseNeedsRestart)},
		{Text: "Discovered", Href: l.Without("filter", "sort").With("tab", "found").String(), Here: p.Tab == "found", Count: found},
	}
}

// summary is one line under the title: "40 · 29 running · 8 unknown". It is of the whole fleet, so a page that is cut shows none.
func (p VMsPage) summary() string {
	total := 0
	for _, n := range p.Total {
		total += n
	}
	if total == 0 {
		return ""
	}
	parts := []string{strconv.Itoa(total)}
	for _, ph := range []fleet.Phase{fleet.PhaseRunning, fleet.PhaseStopped, fleet.PhaseUnknown} {
		if n := p.Total[ph]; n > 0 {
			parts = append(parts, strconv.Itoa(n)+" "+lower(ph.Word()))
		}
	}
	return strings.Join(parts, " · ")
}

func (p VMsPage) pager() Pager {
	n := len(p.VMs)
	if p.Tab == "found" {
		n = len(p.Found)
	}
	out := Pager{Text: Count(n, "VM") + " on this page"}
	if p.After != "" {
		out.First = p.Link.Without("after").String()
	}
	if p.Next != "" {
		out.Next = p.Link.With("after", p.Next).String()
	}
	return out
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

// load is how much of its vCPUs a VM uses: "37 %".
func load(vm *fleet.VMView) string {
	if vm.CPUPercent == nil || vm.Spec.CPUs == 0 {
		return "–"
	}
	return strconv.FormatFloat(*vm.CPUPercent/float64(vm.Spec.CPUs), 'f', 0, 64) + " %"
}

// bulkActions can be asked of many VMs at once.
var bulkActions = []fleet.Action{fleet.ActStart, fleet.ActShutdown, fleet.ActReboot, fleet.ActPause, fleet.ActResume, fleet.ActStop}

// BulkPage is the outcome of one action asked of many VMs.
type BulkPage struct {
	Action  fleet.Action
	Results []BulkResult
	Back    string
}

// BulkResult is one VM's part of it: a task, or why not.
type BulkResult struct {
	ID    fleet.VMID
	Name  string
	Task  fleet.JobID
	Error string
}
