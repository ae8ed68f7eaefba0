package pages

import (
	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/views/kit"
	poolview "quantix/views/pool"
	"quantix/views/shell"
	"quantix/web/render"
)

// ShowPoolGrid shows the matrix of all pools and hosts.
func (s *Site) ShowPoolGrid(c echo.Context, a fleet.Actor) (err error) {
	g, hosts, pools := newHostGrid(c, fleet.TypePool, poolview.MaxGridHosts, poolview.MaxGridPools)
	p := poolview.GridPage{Actor: a, Grid: g}
	p.States, err = s.Control.PoolGrid(c.Request().Context(), a, hosts, pools)
	if p.Filter.Error, err = render.SplitFilterError(err); err != nil {
		return err
	}
	p.Hosts, p.Columns = kit.PageExtentOf(p.States.Hosts), kit.PageExtentOf(p.States.Pools)
	return s.ShowPageWithStatus(c, render.ListResponseStatus(p.Filter), a, shell.PageLayout{Title: "Pools on each host"}, poolview.PoolGridPage(p))
}
