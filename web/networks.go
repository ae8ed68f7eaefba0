package web

import (
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/views/kit"
	networkview "quantix/views/network"
	"quantix/views/shell"
)

func (s *Server) listNetworks(c echo.Context, a fleet.Actor) (err error) {
	f := kit.Filter{Label: "Filter networks", Placeholder: "kind:bridge host:h1 name:br*"}
	p := &networkview.ListPage{List: s.listOf(c, "networks", "name", networkview.Columns, f)}
	if p.Networks, err = fill(c, a, &p.List, queryOf(c), s.Control.ListNetworks); err != nil {
		return err
	}
	return s.showList(c, a, shell.Frame{Title: "Networks"}, p.List, networkview.List(p))
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
