package web

import (
	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

// gridOf reads the query of a matrix page. Hosts are filtered and paged as in their list; objects of the other type
// have paging parameters of their own.
func gridOf(c echo.Context, typ fleet.ResourceType, rows, columns int) (g kit.Grid, hosts, side fleet.Query) {
	name := typ.Is().Plural
	hosts = queryOf(c)
	hosts.Sort, hosts.Limit = "name", rows
	side = fleet.Query{After: c.QueryParam(name), Before: c.QueryParam(name + "-before"), Sort: "name", Limit: columns}
	g = kit.Grid{Link: linkOf(c), Type: typ}
	g.Filter = kit.Filter{Link: g.Link, Type: "hosts", Label: "Filter hosts", Value: hosts.Filter, Placeholder: "name:h1* label:rack=4 phase:online"}
	return g, hosts, side
}
