package pool

import (
	"strconv"

	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

// How much of a grid stands on one page.
const (
	GridHosts = 50
	GridPools = 40
)

// GridPage is how all pools are on all hosts: a row a host, a column a pool.
type GridPage struct {
	Actor  fleet.Actor
	Link   kit.Link
	Filter kit.Filter // of hosts
	Grid   fleet.PoolGrid
}

// hostPager leads through the rows, poolPager through the columns.
func (p GridPage) hostPager() kit.Pager {
	return kit.PagerOf(p.Link, len(p.Grid.Hosts.Items), "host", p.Grid.Hosts.Prev, p.Grid.Hosts.Next)
}

func (p GridPage) poolPager() (out kit.Pager) {
	l := p.Link.Without("pools", "pools-before")
	out.Text = kit.Count(len(p.Grid.Pools.Items), "pool") + " side by side"
	if c := p.Grid.Pools.Prev; c != "" {
		out.First, out.Prev = l.String(), l.With("pools-before", c).String()
	}
	if c := p.Grid.Pools.Next; c != "" {
		out.Next = l.With("pools", c).String()
	}
	return out
}

// cellWords is what a cell says: "shared on host-1: Active, 12 % used".
func cellWords(v fleet.PoolView, h fleet.HostView, c fleet.GridCell) string {
	out := v.Name + " on " + h.Name + ": "
	switch {
	case c.Leaving:
		return out + "being released"
	case c.State == fleet.PoolActive:
		return out + c.State.Word() + ", " + strconv.Itoa(c.UsedPercent) + " % used"
	}
	return out + c.State.Word()
}

// cellPath is the pool's own matrix with the host's cell.
func cellPath(v fleet.PoolView, h fleet.HostView) string {
	return kit.Link{Path: views.PoolPath(v.ID)}.With("filter", "name:"+strconv.Quote(h.Name)).String()
}
