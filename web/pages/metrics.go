package pages

import (
	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	hostview "quantix/views/host"
	"quantix/views/kit"
	"quantix/views/shell"
	"quantix/web/render"
)

// HostMetrics answers with the metrics of a chart range.
func (s *Site) HostMetrics(c echo.Context, a fleet.Actor) error {
	m, err := s.Control.HostMetrics(c.Request().Context(), a, fleet.HostID(c.Param("id")), render.RequestedMetrics(c))
	return render.WriteMetrics(c, m, err)
}

// ClusterMetrics answers with the metrics of a chart range.
func (s *Site) ClusterMetrics(c echo.Context, a fleet.Actor) error {
	m, err := s.Control.ClusterMetrics(c.Request().Context(), a, fleet.ClusterID(c.Param("id")), render.RequestedMetrics(c))
	return render.WriteMetrics(c, m, err)
}

// FleetMetrics answers with the metrics of all hosts in a chart range.
func (s *Site) FleetMetrics(c echo.Context, a fleet.Actor) error {
	m, err := s.Control.FleetMetrics(c.Request().Context(), a, render.RequestedMetrics(c))
	return render.WriteMetrics(c, m, err)
}

// FleetMonitorPage shows the charts of all hosts.
func (s *Site) FleetMonitorPage(c echo.Context, a fleet.Actor) (err error) {
	p := &hostview.ListPage{List: kit.List{Link: kit.Link{Path: "/hosts"}}, Actor: a, Tab: "monitor", ChartRange: c.QueryParam("range")}
	if p.Total, err = s.Control.HostTotals(c.Request().Context(), a); err != nil {
		return err
	}
	return s.ShowPage(c, a, shell.PageLayout{Title: "Monitor hosts", Scripts: []string{kit.ChartScript}}, hostview.FleetMonitor(p))
}

// PoolMetrics answers with the metrics of a chart range.
func (s *Site) PoolMetrics(c echo.Context, a fleet.Actor) error {
	m, err := s.Control.PoolMetrics(c.Request().Context(), a, fleet.PoolID(c.Param("id")), render.RequestedMetrics(c))
	return render.WriteMetrics(c, m, err)
}
