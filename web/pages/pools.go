package pages

import (
	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views/kit"
	poolview "quantix/views/pool"
	"quantix/views/shell"
	"quantix/web/render"
)

func (s *Site) ListPools(c echo.Context, a fleet.Actor) (err error) {
	f := kit.Filter{Label: "Filter pools", Placeholder: "health:bad used>80 kind:nfs host:h1 name:shared*"}
	if !policy.May(a, policy.InfraSee, "") {
		f.Placeholder = "used>80 kind:nfs name:shared*"
	}
	p := &poolview.ListPage{List: s.NewList(c, "pools", "name", poolview.Columns.For(a), f), Actor: a}
	if p.Pools, err = render.FillList(c, a, &p.List, render.QueryFromURL(c), s.Control.ListPools); err != nil {
		return err
	}
	return s.ShowList(c, a, shell.PageLayout{Title: "Storage pools"}, p.List, poolview.List(p))
}

func (s *Site) ExportPoolsCSV(c echo.Context, a fleet.Actor) error {
	return render.ExportCSV(s.Renderer, c, a, "pools.csv", render.QueryFromURL(c), s.Control.ListPools, poolview.CSV)
}
