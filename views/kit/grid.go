package kit

import "quantix/internal/fleet"

// Grid is a page with a row a host and a column for each thing of a noun: what all such pages have.
type Grid struct {
	Link        Link
	Filter      Filter // of hosts
	Type        fleet.ResourceType
	Hosts, Side Extent
}

// Extent is what of a list stands on this page.
type Extent struct {
	Items      int
	Prev, Next string
}

// ExtentOf is the extent of a page of a list.
func ExtentOf[T any](p fleet.Page[T]) Extent { return Extent{len(p.Items), p.Prev, p.Next} }

// Empty reports whether there is nothing to draw.
func (g Grid) Empty() bool { return g.Hosts.Items == 0 || g.Side.Items == 0 }

func (g Grid) hostPager() Pager {
	return PagerOf(g.Link, g.Hosts.Items, "host", g.Hosts.Prev, g.Hosts.Next)
}

// sidePager leads through the columns.
func (g Grid) sidePager() (out Pager) {
	noun, before := g.Type.Is().Plural, g.Type.Is().Plural+"-before"
	l := g.Link.Without(noun, before)
	out.Text = Count(g.Side.Items, g.Type.Is().Label) + " side by side"
	if c := g.Side.Prev; c != "" {
		out.First, out.Prev = l.String(), l.With(before, c).String()
	}
	if c := g.Side.Next; c != "" {
		out.Next = l.With(noun, c).String()
	}
	return out
}
