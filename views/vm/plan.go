package vm

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

// PlanPage is the plan (dry run) of a VM change.
type PlanPage struct {
	Plan   fleet.Plan
	Errors kit.Errors
	Now    time.Time
}

func (p PlanPage) createsVM() bool { return p.Plan.VMID == "" }

func (p PlanPage) title() string {
	if p.createsVM() {
		return "Review " + p.Plan.Name
	}
	return "Review changes"
}

func (p PlanPage) crumbs() []kit.Breadcrumb {
	out := []kit.Breadcrumb{{Text: "Virtual machines", Href: "/vms"}}
	if p.createsVM() {
		return append(out, kit.Breadcrumb{Text: "New VM", Href: p.formPath()})
	}
	return append(out, kit.Breadcrumb{Text: p.Plan.Name, Href: views.VMPath(p.Plan.VMID)})
}

// formPath is the address of the form with the values of the plan.
func (p PlanPage) formPath() string {
	if p.createsVM() {
		return kit.Link{Path: "/vms/new"}.With("plan", string(p.Plan.ID)).String()
	}
	return kit.Link{Path: views.VMPath(p.Plan.VMID)}.With("tab", "configure").With("plan", string(p.Plan.ID)).String()
}

func (p PlanPage) submitLabel() string {
	if p.createsVM() {
		return "Create VM"
	}
	return "Save these changes"
}

// hostName is the host's name for use within a sentence.
func (p PlanPage) hostName() string { return kit.HostNameInText(p.Plan.HostName) }

// pollTrigger is the htmx trigger of the page, which polls while the host has not answered.
func (p PlanPage) pollTrigger() string {
	if p.Plan.State == fleet.PlanRequested {
		return "poke, every 1s"
	}
	return "poke"
}

func (p PlanPage) idempotencyKey() string {
	if p.createsVM() {
		return ""
	}
	return "vm:" + string(p.Plan.VMID)
}

// effectText describes pending changes: "2 changes wait for the next start."
func (p PlanPage) effectText() string {
	n := 0
	for _, c := range p.Plan.Changes {
		if c.When == fleet.WhenNextBoot {
			n++
		}
	}
	switch {
	case n == 0:
		return "Takes effect immediately."
	case n == len(p.Plan.Changes):
		return "All changes take effect when the guest is shut down and started again."
	}
	return strconv.Itoa(n) + " of " + strconv.Itoa(len(p.Plan.Changes)) + " take effect when the guest is shut down and started again."
}

// diffPrefix is the prefix of a diff line.
func diffPrefix(op fleet.LineOp) string {
	switch op {
	case fleet.LineAdded:
		return "+"
	case fleet.LineRemoved:
		return "−"
	}
	return " "
}

// hasOnlyAddedLines reports whether the definition is new and therefore has only added lines.
func hasOnlyAddedLines(d fleet.DefinitionDiff) bool {
	return !slices.ContainsFunc(d.Lines, func(l fleet.DefinitionLine) bool { return l.Op != fleet.LineAdded && l.Op != fleet.LineHidden })
}

// addedLinesText is the XML of a new definition, without diff marks.
func addedLinesText(d fleet.DefinitionDiff) string {
	var b strings.Builder
	for _, l := range d.Lines {
		if l.Op == fleet.LineAdded {
			b.WriteString(l.Text + "\n")
		}
	}
	return b.String()
}

// diffScreenReaderText is a text for screen readers with the same meaning as a diff line's colour.
func diffScreenReaderText(op fleet.LineOp) string {
	switch op {
	case fleet.LineAdded:
		return "added: "
	case fleet.LineRemoved:
		return "removed: "
	}
	return ""
}
