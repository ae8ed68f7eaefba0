package pool

import (
	"strconv"

	"quantix/internal/diagram"
	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

// Limits of one page of a grid.
const (
	MaxGridHosts = 50
	MaxGridPools = 40
)

// GridPage shows the state of all pools on all hosts: a row for each host, a column for each pool.
type GridPage struct {
	kit.Grid
	Actor  fleet.Actor
	States diagram.PoolGrid
}

// gridColumn holds the constant parts of a pool's column: the beginning of its accessible texts, and the path of the
// pool's page.
type gridColumn struct{ sharedOn, path string }

func (p GridPage) columns() []gridColumn {
	out := make([]gridColumn, len(p.States.Pools.Items))
	for i, v := range p.States.Pools.Items {
		out[i] = gridColumn{v.Name + " on ", views.PoolPath(v.ID)}
	}
	return out
}

// hostFilterQuery is the query that filters the table on a pool's page by the host.
func hostFilterQuery(h fleet.HostView) string {
	return kit.Link{}.With("filter", "name:"+strconv.Quote(h.Name)).String()
}

// statusText is the accessible text of a host status: "shared on host-1: Active, 12 % used".
func (g gridColumn) statusText(h fleet.HostView, c diagram.GridStatus) string {
	switch {
	case c.Leaving:
		return g.sharedOn + h.Name + ": being released"
	case c.State == fleet.PoolActive:
		return g.sharedOn + h.Name + ": " + c.State.DisplayName() + ", " + strconv.Itoa(c.UsedPercent) + " % used"
	}
	return g.sharedOn + h.Name + ": " + c.State.DisplayName()
}
