package pages

import (
	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/web/render"
)

// HostMetrics answers with the metrics of a chart range.
func (s *Site) HostMetrics(c echo.Context, a fleet.Actor) error {
	m, err := s.Control.HostMetrics(c.Request().Context(), a, fleet.HostID(c.Param("id")), render.RequestedMetrics(c))
	return render.WriteMetrics(c, m, err)
}

// PoolMetrics answers with the metrics of a chart range.
func (s *Site) PoolMetrics(c echo.Context, a fleet.Actor) error {
	m, err := s.Control.PoolMetrics(c.Request().Context(), a, fleet.PoolID(c.Param("id")), render.RequestedMetrics(c))
	return render.WriteMetrics(c, m, err)
}
