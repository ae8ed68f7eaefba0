package render

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/control/query"
	"quantix/internal/fleet"
	"quantix/views/kit"
)

// RequestedMetrics returns the time of a page's charts.
func RequestedMetrics(c echo.Context) query.MetricRange {
	return query.MetricRange{From: time.Now().Add(-kit.ChartRangeOf(c.QueryParam("range")).Length)}
}

// WriteMetrics answers with metrics as JSON.
func WriteMetrics(c echo.Context, m fleet.MetricSeries, err error) error {
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
	return c.JSON(http.StatusOK, m)
}
