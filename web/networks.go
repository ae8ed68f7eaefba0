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
	return export(s, c, a, "networks.csv", queryOf(c), s.Control.ListNetworks, networkHead, networkRow)
}
