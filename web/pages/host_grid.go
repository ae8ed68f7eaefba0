package pages

import (
	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/views/kit"
	"quantix/web/render"
)

// newHostGrid returns the grid of hosts and objects of typ, with the queries for the hosts and for the objects (side).
// Hosts are filtered and paged as in their list. The objects have separate paging parameters.
func newHostGrid(c echo.Context, typ fleet.ResourceType, rows, columns int) (g kit.Grid, hosts, side fleet.Query) {
	name := typ.Info().Plural
	hosts = render.QueryFromURL(c)
	hosts.Sort, hosts.Limit = "name", rows
	side = fleet.Query{After: c.QueryParam(name), Before: c.QueryParam(name + "-before"), Sort: "name", Limit: columns}
	g = kit.Grid{Link: render.LinkToCurrentPage(c), Type: typ}
	g.Filter = kit.Filter{Link: g.Link, Type: "hosts", Label: "Filter hosts", Value: hosts.Filter, Placeholder: "name:h1* label:rack=4 state:online"}
	return g, hosts, side
}
