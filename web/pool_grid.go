package web

import (
	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/views/kit"
	poolview "quantix/views/pool"
	"quantix/views/shell"
)

// poolGrid is the page of all pools on all hosts. Hosts are filtered and paged as in their list, pools paged by names of their own.
func (s *Server) poolGrid(c echo.Context, a fleet.Actor) error {
	hosts := queryOf(c)
	hosts.Sort, hosts.Limit = "name", poolview.GridHosts
	pools := fleet.Query{After: c.QueryParam("pools"), Before: c.QueryParam("pools-before"), Sort: "name", Limit: poolview.GridPools}
	p := poolview.GridPage{Actor: a, Link: linkOf(c)}
	p.Filter = kit.Filter{Link: p.Link, Noun: "hosts", Label: "Filter hosts", Value: hosts.Filter, Placeholder: "name:h1* label:rack=4 phase:online"}
	var err error
	p.Grid, err = s.Control.PoolGrid(c.Request().Context(), a, hosts, pools)
	if p.Filter.Error, err = wrongFilter(err); err != nil {
		return err
	}
	return s.showAs(c, listStatus(p.Filter), a, shell.Frame{Title: "Pools on each host"}, poolview.Grid(p))
}
