package pages

import (
	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	hostview "quantix/views/host"
	"quantix/views/kit"
	"quantix/views/shell"
	"quantix/web/render"
)

// hostListTabFilters maps the tabs of the host list to their filters.
var hostListTabFilters = map[string]string{"all": "", "attention": "-state:online"}

func (s *Site) ListHosts(c echo.Context, a fleet.Actor) error {
	q := render.QueryFromURL(c)
	tab, err := render.ApplyTabFilter(c, hostListTabFilters, "hosts", &q)
	if err != nil {
		return err
	}
	f := kit.Filter{Label: "Filter hosts", Placeholder: "state:online vms>20 label:rack=4 name:h*"}
	p := &hostview.ListPage{List: s.NewList(c, "hosts", "name", hostview.Columns, f), Actor: a, Tab: tab}
	if p.Hosts, err = render.FillList(c, a, &p.List, q, s.Control.ListHosts); err != nil {
		return err
	}
	if render.HTMXTarget(c) == "" {
		if p.Total, err = s.Control.HostTotals(c.Request().Context(), a); err != nil {
			return err
		}
	}
	return s.ShowList(c, a, shell.PageLayout{Title: "Hosts"}, p.List, hostview.List(p))
}

func (s *Site) ExportHosts(c echo.Context, a fleet.Actor) error {
	q := render.QueryFromURL(c)
	if _, err := render.ApplyTabFilter(c, hostListTabFilters, "hosts", &q); err != nil {
		return err
	}
	return render.ExportCSV(s.Renderer, c, a, "hosts.csv", q, s.Control.ListHosts, hostview.CSV)
}
