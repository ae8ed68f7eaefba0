package pages

import (
	"context"

	"github.com/labstack/echo/v4"

	"quantix/internal/control/query"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views/kit"
	networkview "quantix/views/network"
	"quantix/views/shell"
	"quantix/web/render"
)

func (s *Site) ListNetworks(c echo.Context, a fleet.Actor) (err error) {
	f := kit.Filter{Label: "Filter networks", Placeholder: "kind:bridge host:h1 name:br*"}
	if !policy.May(a, policy.InfraSee, "") {
		f.Placeholder = "name:lan*"
	}
	p := &networkview.ListPage{List: s.NewList(c, "networks", "name", networkview.Columns.For(a), f), Actor: a}
	if p.Networks, err = render.FillList(c, a, &p.List, render.QueryFromURL(c), s.Control.ListNetworks); err != nil {
		return err
	}
	return s.ShowList(c, a, shell.PageLayout{Title: "Networks"}, p.List, networkview.List(p))
}

func (s *Site) ExportNetworksCSV(c echo.Context, a fleet.Actor) error {
	return render.ExportCSV(s.Renderer, c, a, "networks.csv", render.QueryFromURL(c), s.networksWithHostStatuses, networkview.CSV)
}

// networksWithHostStatuses is ListNetworks with all host statuses of each network, if the user may see hosts.
func (s *Site) networksWithHostStatuses(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.NetworkView], error) {
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
