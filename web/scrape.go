package web

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/labstack/echo/v4"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"quantix/internal/exposition"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/static"
)

const (
	maxFleetScrapes = 2 // concurrent scrapes of the fleet's values, which each hold the values of all VMs in memory

	// maxScrapeTime limits how long a client may take to read a response. Prometheus gives up after 10 s by default.
	maxScrapeTime = 30 * time.Second
)

// Parts of /metrics, values of the parameter collect[].
const (
	collectPortal = "portal" // metrics of this process
	collectFleet  = "fleet"  // newest values of VMs, hosts and pools
)

// showMetrics serves Prometheus metrics: those of this process, and the newest values of VMs, hosts and pools. It needs
// the API token of a user who may see hosts. Without a token, clients on this machine get the metrics of the process.
func (s *Server) showMetrics(c echo.Context, nobody fleet.Actor) error {
	wanted := c.QueryParams()["collect[]"]
	for _, part := range wanted {
		if part != collectPortal && part != collectFleet {
			return fleet.Errorf(fleet.Malformed, "The value of collect[] is unknown. Write portal or fleet.")
		}
	}
	local := isLocalClient(c) && c.Request().Header.Get(echo.HeaderAuthorization) == "" && !slices.Contains(wanted, collectFleet)
	if local {
		return s.writeMetrics(c, true, nil)
	}
	nobody.Address = c.RealIP()
	a, err := s.actorOfBearerToken(c, nobody)
	if err == nil {
		err = policy.Check(a, policy.InfraSee, "")
	}
	if err != nil {
		return err
	}
	process := len(wanted) == 0 || slices.Contains(wanted, collectPortal)
	if len(wanted) > 0 && !slices.Contains(wanted, collectFleet) {
		return s.writeMetrics(c, process, nil)
	}
	select {
	case s.metrics.fleetScrapes <- struct{}{}:
		defer func() { <-s.metrics.fleetScrapes }()
	case <-c.Request().Context().Done():
		return fleet.Errorf(fleet.TooMany, "%d other scrapes of the fleet's metrics are still running. Scrape less often.", maxFleetScrapes)
	}
	values, err := s.Control.ExposeFleet(c.Request().Context(), a)
	success := exposition.Group{Name: "quantix_fleet_scrape_success", Help: "1 if the values of VMs, hosts and pools were read from the database."}
	success.AddBool(err == nil, "")
	if err != nil {
		s.Log.Warn("The fleet's metrics could not be read for Prometheus.", "error", err)
		values = exposition.Fleet{}
	}
	values.Groups = append(values.Groups, success)
	return s.writeMetrics(c, process, &values)
}

// writeMetrics writes the metrics of this process, and the fleet's unless values is nil.
func (s *Server) writeMetrics(c echo.Context, process bool, values *exposition.Fleet) error {
	var families []*dto.MetricFamily
	if process {
		var err error
		if families, err = s.metrics.registry.Gather(); err != nil {
			return err
		}
	}
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, exposition.ContentType)
	h.Add(echo.HeaderVary, echo.HeaderAcceptEncoding)
	var out io.Writer = &timedWriter{c.Response(), time.Now().Add(maxScrapeTime)}
	if static.AcceptsEncoding(c.Request().Header.Get(echo.HeaderAcceptEncoding), "gzip") {
		h.Set(echo.HeaderContentEncoding, "gzip")
		packed, err := gzip.NewWriterLevel(out, gzip.BestSpeed)
		if err != nil {
			return err
		}
		defer func() { _ = packed.Close() }() // an error means that the client has gone
		out = packed
	}
	c.Response().WriteHeader(http.StatusOK)
	encoder := expfmt.NewEncoder(out, expfmt.NewFormat(expfmt.TypeTextPlain))
	for _, f := range families {
		if encoder.Encode(f) != nil {
			return nil // the client has gone
		}
	}
	if values != nil {
		_ = values.Write(out) // an error means that the client has gone
	}
	return nil
}

// timedWriter fails after a time, so that slow clients do not occupy slots.
type timedWriter struct {
	io.Writer
	until time.Time
}

func (w *timedWriter) Write(b []byte) (int, error) {
	if time.Now().After(w.until) {
		return 0, errors.New("the client reads too slowly")
	}
	return w.Writer.Write(b)
}
