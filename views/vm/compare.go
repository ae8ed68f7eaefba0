package vm

import (
	"strconv"

	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

// ComparePage is two VMs side by side, or a VM and a version of a template.
type ComparePage struct {
	Left, Right fleet.VMView
	Template    fleet.TemplateView
	Version     *fleet.TemplateVersion // of the template, on the right; nil: two VMs are compared
	Rows        []fleet.Compared       // those that differ first; none: there is only one side yet
	All         bool                   // also those that are the same
	VMs         kit.Choices            // to compare with; of a template alone, to compare it with
	Templates   kit.Choices            // likewise: their versions
}

// Address is the page's own, without which fields are shown.
func (p ComparePage) Address() string {
	if p.Version != nil {
		return views.CompareTemplatePath(p.Left.ID, p.Template.ID, p.Version.ID)
	}
	return views.ComparePath(p.Left.ID, p.Right.ID)
}

// version is the template's, as a form names it; empty: none.
func (p ComparePage) version() string {
	if p.Version == nil {
		return ""
	}
	return views.TemplateVersionValue(p.Template.ID, p.Version.ID)
}

// versionName is what the version is called.
func (p ComparePage) versionName() string {
	return p.Template.Name + ", version " + strconv.Itoa(p.Version.Number)
}

// right is what stands to the right: its name, and where it is.
func (p ComparePage) right() (name, at string) {
	if p.Version != nil {
		return p.versionName(), views.TemplatePath(p.Template.ID)
	}
	return p.Right.Name, views.VMPath(p.Right.ID)
}

// alike is what is the same where no field differs.
func (p ComparePage) alike() string {
	if p.Version != nil {
		return "Hardware, devices and policies are as a VM has them that is made from the template now."
	}
	return "Name, labels, hardware and all devices are the same."
}

func (p ComparePage) toggle() string {
	if p.All {
		return p.Address()
	}
	return p.Address() + "&all=1"
}

func (p ComparePage) crumbs() []kit.Crumb {
	if p.Left.ID == "" {
		return []kit.Crumb{{Text: "Templates", Href: "/templates"}, {Text: p.Template.Name, Href: views.TemplatePath(p.Template.ID)}}
	}
	return []kit.Crumb{{Text: "Virtual machines", Href: "/vms"}, {Text: p.Left.Name, Href: views.VMPath(p.Left.ID)}}
}

// differ is how many rows do.
func (p ComparePage) differ() int {
	n := 0
	for _, r := range p.Rows {
		if !r.Same {
			n++
		}
	}
	return n
}

// shown are the rows of the page: of those that are the same only where they are asked for.
func (p ComparePage) shown() []fleet.Compared {
	if p.All {
		return p.Rows
	}
	return p.Rows[:p.differ()]
}

// MergePage is what two people have made of a VM, to choose from.
type MergePage struct {
	Fields     []fleet.Merged
	By         string // who changed it meanwhile; empty: not known
	Generation int64  // as it is now
	Sent       []kit.Sent
}
