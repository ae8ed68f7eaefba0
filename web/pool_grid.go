package web

import (
	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/views/kit"
	poolview "quantix/views/pool"
	"quantix/views/shell"
)

// poolGrid shows the matrix of all pools and hosts.
func (s *Server) poolGrid(c echo.Context, a fleet.Actor) (err error) {
	g, hosts, pools := gridOf(c, fleet.TypePool, poolview.GridHosts, poolview.GridPools)
	p := poolview.GridPage{Actor: a, Grid: g}
	p.States, err = s.Control.PoolGrid(c.Request().Context(), a, hosts, pools)
	if p.Filter.Error, err = filterError(err); err != nil {
		return err
	}
	p.Hosts, p.Side = kit.ExtentOf(p.States.Hosts), kit.ExtentOf(p.States.Pools)
	return s.showPageWithStatus(c, listStatus(p.Filter), a, shell.Frame{Title: "Pools on each host"}, poolview.Grid(p))
}
