package pages

import (
	"slices"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	hostview "quantix/views/host"
	"quantix/views/kit"
	"quantix/views/shell"
	"quantix/web/render"
)

// hostListTabFilters maps the tabs of the host list to their filters.
var hostListTabFilters = map[string]string{"all": "", "attention": "-state:online -lifecycle:offline"}

func (s *Site) ListHosts(c echo.Context, a fleet.Actor) error {
	q := render.QueryFromURL(c)
	tab, err := render.ApplyTabFilter(c, hostListTabFilters, "hosts", &q)
	if err != nil {
		return err
	}
	f := kit.Filter{Label: "Filter hosts", Placeholder: "state:online vms>20 label:rack=4 name:h*"}
	columns, err := s.hostColumns(c, a)
	if err != nil {
		return err
	}
	p := &hostview.ListPage{List: s.NewList(c, "hosts", "name", columns, f), Actor: a, Tab: tab}
	if p.Hosts, err = render.FillList(c, a, &p.List, q, s.Control.ListHosts); err != nil {
		return err
	}
	ids := make([]fleet.HostID, len(p.Hosts))
	for i, h := range p.Hosts {
		ids[i] = h.ID
	}
	if p.Health, err = s.Control.HealthOfHosts(c.Request().Context(), a, ids); err != nil {
		return err
	}
	if p.ShowsLastHour() && len(p.Hosts) > 0 {
		if p.Recent, err = s.Control.RecentHostUse(c.Request().Context(), a, ids); err != nil {
			return err
		}
	}
	if render.HTMXTarget(c) == "" {
		if p.Total, err = s.Control.HostTotals(c.Request().Context(), a); err != nil {
			return err
		}
	}
	return s.ShowList(c, a, shell.PageLayout{Title: "Hosts"}, p.List, hostview.List(p))
}

// hostColumns returns the columns of the host list. The column of the cluster is shown by default if there are several.
func (s *Site) hostColumns(c echo.Context, a fleet.Actor) (kit.Columns, error) {
	clusters, err := s.Control.AllClusters(c.Request().Context(), a)
	columns := slices.Clone(hostview.Columns)
	for i := range columns {
		if columns[i].Key == "cluster" {
			columns[i].OnRequest = len(clusters) < 2
		}
	}
	return columns, err
}

func (s *Site) ExportHostsCSV(c echo.Context, a fleet.Actor) error {
	q := render.QueryFromURL(c)
	if _, err := render.ApplyTabFilter(c, hostListTabFilters, "hosts", &q); err != nil {
		return err
	}
	return render.ExportCSV(s.Renderer, c, a, "hosts.csv", q, s.Control.ListHosts, hostview.CSV)
}
