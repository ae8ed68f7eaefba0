package web

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/control/query"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views/kit"
	networkview "quantix/views/network"
	"quantix/views/shell"
)

func (s *Server) listNetworks(c echo.Context, a fleet.Actor) (err error) {
	f := kit.Filter{Label: "Filter networks", Placeholder: "kind:bridge host:h1 name:br*"}
	p := &networkview.ListPage{List: s.newList(c, "networks", "name", networkview.Columns, f), Actor: a}
	if p.Networks, err = fillList(c, a, &p.List, queryFromURL(c), s.Control.ListNetworks); err != nil {
		return err
	}
	return s.showList(c, a, shell.PageLayout{Title: "Networks"}, p.List, networkview.List(p))
}

var networkCSVHeader = []string{"id", "name", "kind", "hosts", "active", "hostNames", "created", "mode", "subnets"}

func networkCSVRow(n fleet.NetworkView) []string {
	hosts := make([]string, len(n.Hosts))
	for i, h := range n.Hosts {
		hosts[i] = h.HostName
	}
	slices.Sort(hosts)
	return []string{
		string(n.ID), n.Name, string(n.Kind), strconv.Itoa(n.Health.Hosts), strconv.Itoa(n.Health.Active), strings.Join(hosts, " "),
		n.CreatedAt.UTC().Format(time.RFC3339), networkview.ModeText(n), networkview.SubnetsText(n),
	}
}

func (s *Server) exportNetworks(c echo.Context, a fleet.Actor) error {
	return exportCSV(s, c, a, "networks.csv", queryFromURL(c), s.networksWithHostStatuses, networkCSVHeader, networkCSVRow)
}

// networksWithHostStatuses is ListNetworks, but returns all host statuses of each network to users who may see hosts.
func (s *Server) networksWithHostStatuses(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.NetworkView], error) {
	page, err := s.Control.ListNetworks(ctx, a, q)
	if err != nil || !policy.May(a, policy.InfraSee, "") {
		return page, err
	}
	for i := range page.Items {
		n := &page.Items[i]
		if len(n.Hosts) == n.Health.Hosts {
			continue
		}
		n.Hosts, err = query.ReadAllPages(ctx, a, fleet.Query{}, func(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.NetworkHost], error) {
			return s.Control.NetworkHosts(ctx, a, n.ID, q)
		})
		if err != nil {
			return page, err
		}
	}
	return page, nil
}
