package web

import (
	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/views/kit"
	poolview "quantix/views/pool"
	"quantix/views/shell"
)

func (s *Server) listPools(c echo.Context, a fleet.Actor) (err error) {
	f := kit.Filter{Label: "Filter pools", Placeholder: "health:bad used>80 kind:nfs host:h1 name:shared*"}
	p := &poolview.ListPage{List: s.newList(c, "pools", "name", poolview.Columns, f), Actor: a}
	if p.Pools, err = fillList(c, a, &p.List, queryFromURL(c), s.Control.ListPools); err != nil {
		return err
	}
	return s.showList(c, a, shell.PageLayout{Title: "Storage pools"}, p.List, poolview.List(p))
}

func (s *Server) exportPools(c echo.Context, _ fleet.Actor) error {
	return exportCSV(s, c, "pools.csv", queryFromURL(c), s.Control.ListPools, poolview.CSV)
}
