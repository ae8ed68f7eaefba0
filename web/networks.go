package web

import (
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/views"
)

func (s *Server) listNetworks(c echo.Context, a fleet.Actor) (err error) {
	f := views.Filter{Label: "Filter networks", Placeholder: "kind:bridge host:h1 name:br*"}
	p := &views.NetworksPage{List: s.listOf(c, "networks", "name", views.NetworkColumns, f)}
	if p.Networks, err = fill(c, a, &p.List, queryOf(c), s.Control.ListNetworks); err != nil {
		return err
	}
	return s.showList(c, a, views.Frame{Title: "Networks"}, p.List, views.Networks(p))
}

var networkHead = []string{"id", "name", "kind", "hosts", "active", "hostNames", "created"}

func networkRow(n fleet.NetworkView) []string {
	hosts := make([]string, len(n.Hosts))
	for i, h := range n.Hosts {
		hosts[i] = h.HostName
	}
	return []string{
		string(n.ID), n.Name, string(n.Kind), strconv.Itoa(len(n.Hosts)), strconv.Itoa(n.Healthy(time.Now())), strings.Join(hosts, " "),
		n.CreatedAt.UTC().Format(time.RFC3339),
	}
}

func (s *Server) exportNetworks(c echo.Context, a fleet.Actor) error {
	return export(c, a, "networks.csv", queryOf(c), s.Control.ListNetworks, networkHead, networkRow)
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
	p := views.NetworkPage{Actor: a, Link: linkOf(c), Tab: tab, Network: n, Now: time.Now()}
	if tab == "vms" && target(c) != "network-head" {
		q := queryOf(c)
		q.Filter = "network:" + strconv.Quote(n.Name)
		vms, err := s.Control.ListVMs(ctx, a, q)
		if err != nil {
			return err
		}
		p.VMs, p.Prev, p.Next = vms.Items, vms.Prev, vms.Next
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
