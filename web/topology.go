package web

import (
	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/views/kit"
	"quantix/views/shell"
	topologyview "quantix/views/topology"
)

// networkGrid shows the topology page of all networks: a matrix of networks and hosts.
func (s *Server) networkGrid(c echo.Context, a fleet.Actor) (err error) {
	g, hosts, networks := gridOf(c, fleet.TypeNetwork, topologyview.FleetHosts, topologyview.FleetNetworks)
	p := topologyview.FleetPage{Actor: a, Grid: g}
	p.Statuses, err = s.Control.NetworkGrid(c.Request().Context(), a, hosts, networks)
	if p.Filter.Error, err = filterError(err); err != nil {
		return err
	}
	p.Hosts, p.Side = kit.ExtentOf(p.Statuses.Hosts), kit.ExtentOf(p.Statuses.Networks)
	return s.showPageWithStatus(c, listStatus(p.Filter), a, shell.Frame{Title: "Topology of networks"}, topologyview.Fleet(p))
}
