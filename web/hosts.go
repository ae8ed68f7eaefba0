package web

import (
	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	hostview "quantix/views/host"
	"quantix/views/kit"
	"quantix/views/shell"
)

// hostListTabFilters maps the tabs of the host list to their filters.
var hostListTabFilters = map[string]string{"all": "", "attention": "-state:online"}

func (s *Server) listHosts(c echo.Context, a fleet.Actor) error {
	q := queryFromURL(c)
	tab, err := applyTabFilter(c, hostListTabFilters, "hosts", &q)
	if err != nil {
		return err
	}
	f := kit.Filter{Label: "Filter hosts", Placeholder: "state:online vms>20 label:rack=4 name:h*"}
	p := &hostview.ListPage{List: s.newList(c, "hosts", "name", hostview.Columns, f), Actor: a, Tab: tab}
	if p.Hosts, err = fillList(c, a, &p.List, q, s.Control.ListHosts); err != nil {
		return err
	}
	if htmxTarget(c) == "" {
		if p.Total, err = s.Control.HostTotals(c.Request().Context(), a); err != nil {
			return err
		}
	}
	return s.showList(c, a, shell.PageLayout{Title: "Hosts"}, p.List, hostview.List(p))
}

func (s *Server) exportHosts(c echo.Context, _ fleet.Actor) error {
	q := queryFromURL(c)
	if _, err := applyTabFilter(c, hostListTabFilters, "hosts", &q); err != nil {
		return err
	}
	return exportCSV(s, c, "hosts.csv", q, s.Control.ListHosts, hostview.CSV)
}
