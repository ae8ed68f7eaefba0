package kit

import "quantix/internal/fleet"

// Grid is the common part of pages with a row for each host and a column for each object of a resource type.
type Grid struct {
	Link           Link
	Filter         Filter // filter of the hosts
	Type           fleet.ResourceType
	Hosts, Columns PageExtent
}

// PageExtent is the number of items on the current page of a list, and the cursors of the pages before and after.
type PageExtent struct {
	Items      int
	Prev, Next string
}

// PageExtentOf returns the PageExtent of one page of a list.
func PageExtentOf[T any](p fleet.Page[T]) PageExtent { return PageExtent{len(p.Items), p.Prev, p.Next} }

// Empty reports whether the grid has no rows or no columns.
func (g Grid) Empty() bool { return g.Hosts.Items == 0 || g.Columns.Items == 0 }

func (g Grid) hostPager() Pager {
	return NewPager(g.Link, g.Hosts.Items, "host", g.Hosts.Prev, g.Hosts.Next)
}

// columnPager is the pager of the columns.
func (g Grid) columnPager() (out Pager) {
	typ, before := g.Type.Info().Plural, g.Type.Info().Plural+"-before"
	l := g.Link.Without(typ, before)
	out.Text = CountText(g.Columns.Items, g.Type.Info().Label) + " on this page"
	if c := g.Columns.Prev; c != "" {
		out.First, out.Prev = l.String(), l.With(before, c).String()
	}
	if c := g.Columns.Next; c != "" {
		out.Next = l.With(typ, c).String()
	}
	return out
}
