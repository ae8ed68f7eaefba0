package web

import (
	"strconv"
	"time"

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

var poolCSVHeader = []string{
	"id", "name", "kind", "source", "shared", "health", "summary", "capacityBytes", "usedBytes", "availableBytes", "description", "created",
}

func poolCSVRow(v fleet.PoolView) []string {
	return []string{
		string(v.ID), v.Name, string(v.Spec.Kind), poolview.SourceText(v.Spec), strconv.FormatBool(v.Spec.Shared), string(v.Health.Severity), v.Health.Summary,
		strconv.FormatInt(v.Health.CapacityBytes, 10), strconv.FormatInt(v.Health.UsedBytes, 10), strconv.FormatInt(v.Health.AvailableBytes, 10),
		v.Spec.Description, v.CreatedAt.UTC().Format(time.RFC3339),
	}
}

func (s *Server) exportPools(c echo.Context, a fleet.Actor) error {
	return exportCSV(s, c, a, "pools.csv", queryFromURL(c), s.Control.ListPools, poolCSVHeader, poolCSVRow)
}
