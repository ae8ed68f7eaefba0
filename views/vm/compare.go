package vm

import (
	"strconv"

	"quantix/internal/fleet"
	"quantix/internal/template"
	"quantix/internal/vmedit"
	"quantix/views"
	"quantix/views/kit"
)

// ComparePage compares two VMs, or a VM with a template version.
type ComparePage struct {
	Left, Right fleet.VMView
	Template    template.View
	Version     *template.Version        // right side; nil: two VMs are compared
	Rows        []vmedit.FieldComparison // different fields first; empty: only one side is chosen yet
	All         bool                     // also show equal fields
	VMs         kit.SelectChoices        // VMs for the other side of the comparison
	Templates   kit.SelectChoices        // template versions to compare with
}

// BaseAddress is the page's address without the query value that also shows equal fields.
func (p ComparePage) BaseAddress() string {
	if p.Version != nil {
		return views.CompareTemplatePath(p.Left.ID, p.Template.ID, p.Version.ID)
	}
	return views.ComparePath(p.Left.ID, p.Right.ID)
}

// versionValue is the template version as the value of a form field; empty: none.
func (p ComparePage) versionValue() string {
	if p.Version == nil {
		return ""
	}
	return views.TemplateVersionValue(p.Template.ID, p.Version.ID)
}

// versionName is the display name of the template version.
func (p ComparePage) versionName() string {
	return p.Template.Name + ", version " + strconv.Itoa(p.Version.Number)
}

// rightNameAndPath is the name and the address of the right side.
func (p ComparePage) rightNameAndPath() (name, at string) {
	if p.Version != nil {
		return p.versionName(), views.TemplatePath(p.Template.ID)
	}
	return p.Right.Name, views.VMPath(p.Right.ID)
}

// noDifferencesText is the text for two sides without differences.
func (p ComparePage) noDifferencesText() string {
	if p.Version != nil {
		return "Hardware, devices and policies are those of a new VM from the template."
	}
	return "Name, labels, hardware and all devices are the same."
}

func (p ComparePage) toggleAllPath() string {
	if p.All {
		return p.BaseAddress()
	}
	return p.BaseAddress() + "&all=1"
}

func (p ComparePage) crumbs() []kit.Breadcrumb {
	if p.Left.ID == "" {
		return []kit.Breadcrumb{{Text: "Templates", Href: "/templates"}, {Text: p.Template.Name, Href: views.TemplatePath(p.Template.ID)}}
	}
	return []kit.Breadcrumb{{Text: "Virtual machines", Href: "/vms"}, {Text: p.Left.Name, Href: views.VMPath(p.Left.ID)}}
}

// countDifferent counts the rows with different values.
func (p ComparePage) countDifferent() int {
	n := 0
	for _, r := range p.Rows {
		if !r.Same {
			n++
		}
	}
	return n
}

// shownRows are the rows that the page shows: all rows, or only those with different values.
func (p ComparePage) shownRows() []vmedit.FieldComparison {
	if p.All {
		return p.Rows
	}
	return p.Rows[:p.countDifferent()]
}

// MergePage shows two concurrent edits of a VM side by side, so that the person can choose.
type MergePage struct {
	Fields     []vmedit.MergedField
	By         string // who changed the VM meanwhile; empty: unknown
	Generation int64  // current generation of the VM
	Sent       []kit.FormValue
}
