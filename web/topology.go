package web

import (
	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/views/kit"
	"quantix/views/shell"
	topologyview "quantix/views/topology"
)

// networkGrid is the page of networks on hosts. Hosts are filtered and paged as in their list, networks paged by names of their own.
func (s *Server) networkGrid(c echo.Context, a fleet.Actor) error {
	hosts := queryOf(c)
	hosts.Sort, hosts.Limit = "name", topologyview.FleetHosts
	networks := fleet.Query{After: c.QueryParam("networks"), Before: c.QueryParam("networks-before"), Sort: "name", Limit: topologyview.FleetNetworks}
	p := topologyview.FleetPage{Actor: a, Link: linkOf(c)}
	p.Filter = kit.Filter{Link: p.Link, Noun: "hosts", Label: "Filter hosts", Value: hosts.Filter, Placeholder: "name:h1* label:rack=4 phase:online"}
	var err error
	p.Grid, err = s.Control.NetworkGrid(c.Request().Context(), a, hosts, networks)
	if p.Filter.Error, err = wrongFilter(err); err != nil {
		return err
	}
	return s.showAs(c, listStatus(p.Filter), a, shell.Frame{Title: "Topology of networks"}, topologyview.Fleet(p))
}
