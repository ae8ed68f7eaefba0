package vm

import (
	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

// ComparePage is two VMs side by side.
type ComparePage struct {
	Left, Right fleet.VMView
	Rows        []fleet.Compared // those that differ first; none: there is only one VM yet
	All         bool             // also those that are the same
	VMs         kit.Choices      // to compare with
	Infra       bool             // the person may see hosts
}

// ComparePath is the page of two VMs; right empty: one is chosen there.
func ComparePath(left, right fleet.VMID) string {
	l := kit.Link{Path: "/vms/compare"}.With("id", string(left))
	if right != "" {
		l = l.With("with", string(right))
	}
	return l.String()
}

func (p ComparePage) link() kit.Link {
	l := kit.Link{Path: "/vms/compare"}.With("id", string(p.Left.ID))
	if p.Right.ID != "" {
		l = l.With("with", string(p.Right.ID))
	}
	return l
}

func (p ComparePage) toggle() string {
	if p.All {
		return p.link().String()
	}
	return p.link().With("all", "1").String()
}

func (p ComparePage) crumbs() []kit.Crumb {
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
