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
