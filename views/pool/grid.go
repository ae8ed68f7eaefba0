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
	kit.Grid
	Actor fleet.Actor
	On    fleet.PoolGrid
}

// gridColumn is what the cells of one pool have in common.
type gridColumn struct{ on, path string }

func (p GridPage) columns() []gridColumn {
	out := make([]gridColumn, len(p.On.Pools.Items))
	for i, v := range p.On.Pools.Items {
		out[i] = gridColumn{v.Name + " on ", views.PoolPath(v.ID)}
	}
	return out
}

// hostQuery is the query by which a pool's own matrix shows the host's cell.
func hostQuery(h fleet.HostView) string {
	return kit.Link{}.With("filter", "name:"+strconv.Quote(h.Name)).String()
}

// words is what a cell says: "shared on host-1: Active, 12 % used".
func (g gridColumn) words(h fleet.HostView, c fleet.GridStatus) string {
	switch {
	case c.Leaving:
		return g.on + h.Name + ": being released"
	case c.State == fleet.PoolActive:
		return g.on + h.Name + ": " + c.State.Word() + ", " + strconv.Itoa(c.UsedPercent) + " % used"
	}
	return g.on + h.Name + ": " + c.State.Word()
}
