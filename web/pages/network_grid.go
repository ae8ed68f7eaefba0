package pages

import (
	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/views/kit"
	"quantix/views/shell"
	topologyview "quantix/views/topology"
	"quantix/web/render"
)

// ShowNetworkGrid shows the topology page of all networks: a matrix of networks and hosts.
func (s *Site) ShowNetworkGrid(c echo.Context, a fleet.Actor) (err error) {
	g, hosts, networks := newHostGrid(c, fleet.TypeNetwork, topologyview.MaxFleetHosts, topologyview.MaxFleetNetworks)
	p := topologyview.FleetPage{Actor: a, Grid: g}
	p.Statuses, err = s.Control.NetworkGrid(c.Request().Context(), a, hosts, networks)
	if p.Filter.Error, err = render.SplitFilterError(err); err != nil {
		return err
	}
	p.Hosts, p.Columns = kit.PageExtentOf(p.Statuses.Hosts), kit.PageExtentOf(p.Statuses.Networks)
	return s.ShowPageWithStatus(c, render.ListResponseStatus(p.Filter), a, shell.PageLayout{Title: "Topology of networks"}, topologyview.FleetTopology(p))
}
