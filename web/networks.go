package web

import (
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/views"
)

func (s *Server) listNetworks(c echo.Context, a fleet.Actor) error {
	link, q := listOf(c)
	p := views.NetworksPage{
		Actor: a, Link: link, Sort: sortOf(q, "name"), After: q.After, Now: time.Now(),
		Filter: views.Filter{Link: link, Noun: "networks", Label: "Filter networks", Value: q.Filter, Placeholder: "kind:bridge host:h1 name:br*"},
	}
	networks, err := s.Control.ListNetworks(c.Request().Context(), a, q)
	if p.Filter.Error, err = wrongFilter(err); err != nil {
		return err
	}
	p.Networks, p.Next = networks.Items, networks.Next
	return s.showAs(c, listStatus(p.Filter), a, views.Frame{Title: "Networks"}, views.Networks(p))
}

func (s *Server) networkPage(c echo.Context, a fleet.Actor) error {
	ctx := c.Request().Context()
	tab, err := tabOf(c, views.NetworkTabs(), "network")
	if err != nil {
		return err
	}
	n, err := s.Control.GetNetwork(ctx, a, fleet.NetworkID(c.Param("id")))
	if err != nil {
		return err
	}
	p := views.NetworkPage{Actor: a, Link: linkOf(c), Tab: tab, Network: n, Now: time.Now(), After: c.QueryParam("after")}
	if tab == "vms" && target(c) != "network-head" {
		vms, err := s.Control.ListVMs(ctx, a, fleet.Query{Filter: "network:" + strconv.Quote(n.Name), After: p.After})
		if err != nil {
			return err
		}
		p.VMs, p.Next = vms.Items, vms.Next
	}
	f := views.Frame{Title: n.Name, Here: []string{"net:" + string(n.ID)}}
	return s.show(c, a, f, views.Network(p))
}

func (s *Server) networkMenu(c echo.Context, a fleet.Actor) error {
	n, err := s.Control.GetNetwork(c.Request().Context(), a, fleet.NetworkID(c.Param("id")))
	if err != nil {
		return err
	}
	return s.part(c, a, n.Name, views.Acts(views.NetworkActs(n)))
}
