package web

import (
	"context"
	"math"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"quantix/internal/auth"
	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/relay"
	"quantix/internal/wire"
)

// DatabasePoolStat provides the statistics of a database connection pool, as in pgxpool.Stat.
type DatabasePoolStat interface {
	AcquiredConns() int32
	IdleConns() int32
	MaxConns() int32
	AcquireCount() int64
	EmptyAcquireCount() int64
	CanceledAcquireCount() int64
	AcquireDuration() time.Duration
}

// metrics holds the portal's Prometheus metrics. Only the number of open jobs requires a database query.
type metrics struct {
	registry     *prometheus.Registry
	requests     *prometheus.HistogramVec
	claims       *prometheus.CounterVec
	jobs         *prometheus.HistogramVec
	parkedClaims atomic.Int64
	fleetScrapes chan struct{} // slots of scrapes of the fleet's values
}

func (s *Server) newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(), fleetScrapes: make(chan struct{}, maxFleetScrapes),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "quantix_http_request_seconds", Help: "Duration of requests, by route and status. Streams and consoles count as long as they are open.",
			Buckets: []float64{.001, .0025, .005, .01, .02, .05, .1, .25, .5, 1, 2.5, 5, 30},
		}, []string{"method", "route", "status"}),
		claims: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quantix_claims_total", Help: "Claims of agents, by result: work, nothing, refused.",
		}, []string{"end"}),
		jobs: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "quantix_job_seconds", Help: "Duration of jobs from their first claim until an agent reported the result to this portal, by kind and outcome: done, failed, unknown.",
			Buckets: []float64{.1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800},
		}, []string{"kind", "outcome"}),
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	m.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), m.requests, m.claims, m.jobs,
		openJobsCollector{s.Control}, certificateExpiryCollector(func() []auth.Validity { return s.Certificates() }),
		gauge("quantix_claims_parked", "Agents that wait for jobs.", func() float64 { return float64(m.parkedClaims.Load()) }),
		gauge("quantix_event_streams_open", "Streams of events of API clients.", func() float64 { return float64(s.EventStreams()) }),
		gauge("quantix_consoles_open", "Consoles with both ends connected.", func() float64 { open, _ := s.relayBroker.Counts(relay.Console); return float64(open) }),
		gauge("quantix_consoles_waiting", "Console ends that wait for the other end.", func() float64 { _, waiting := s.relayBroker.Counts(relay.Console); return float64(waiting) }),
	)
	if s.Pool != nil {
		m.registry.MustRegister(databasePoolMetrics(s.Pool)...)
	}
	return m
}

// openJobsCollector is a Prometheus collector that counts the queued and running jobs in the database at each scrape.
type openJobsCollector struct{ control *control.Control }

var openJobsDesc = prometheus.NewDesc("quantix_jobs", "Jobs of all hosts that wait for their agent or run there.", []string{"state"}, nil)

// Describe implements prometheus.Collector.
func (openJobsCollector) Describe(out chan<- *prometheus.Desc) { out <- openJobsDesc }

// Collect implements prometheus.Collector. The values are NaN while the database does not answer.
func (o openJobsCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	open, err := o.control.CountOpenJobs(ctx, fleet.SystemActor)
	for _, state := range []fleet.JobState{fleet.JobQueued, fleet.JobRunning} {
		n := float64(open[state])
		if err != nil {
			n = math.NaN()
		}
		out <- prometheus.MustNewConstMetric(openJobsDesc, prometheus.GaugeValue, n, string(state))
	}
}

// certificateExpiryCollector is a Prometheus collector that reports when the portal's certificates expire.
type certificateExpiryCollector func() []auth.Validity

var certificateEndDesc = prometheus.NewDesc("quantix_certificate_end_timestamp_seconds",
	"When a certificate of this portal expires: for browsers, for agents, and of the CA of the hosts' certificates.", []string{"use"}, nil)

// Describe implements prometheus.Collector.
func (certificateExpiryCollector) Describe(out chan<- *prometheus.Desc) { out <- certificateEndDesc }

// Collect implements prometheus.Collector.
func (c certificateExpiryCollector) Collect(out chan<- prometheus.Metric) {
	for _, v := range c() {
		out <- prometheus.MustNewConstMetric(certificateEndDesc, prometheus.GaugeValue, float64(v.Until.Unix()), v.Use)
	}
}

// countClaim counts an agent's request for jobs (claim) by its result.
func (m *metrics) countClaim(out wire.Claim, err error) {
	end := "work"
	switch {
	case err != nil:
		end = "refused"
	case len(out.Jobs) == 0:
		end = "nothing"
	}
	m.claims.WithLabelValues(end).Inc()
}

// recordJob records a job's result and duration.
func (m *metrics) recordJob(j fleet.Job) {
	if j.StartedAt != nil && j.EndedAt != nil {
		m.jobs.WithLabelValues(string(j.Kind), string(j.State)).Observe(j.EndedAt.Sub(*j.StartedAt).Seconds())
	}
}

func databasePoolMetrics(stat func() DatabasePoolStat) []prometheus.Collector {
	gauge := func(name, help string, value func(DatabasePoolStat) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return value(stat()) })
	}
	counter := func(name, help string, value func(DatabasePoolStat) float64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return value(stat()) })
	}
	return []prometheus.Collector{
		gauge("quantix_db_conns_acquired", "Database connections in use.", func(p DatabasePoolStat) float64 { return float64(p.AcquiredConns()) }),
		gauge("quantix_db_conns_idle", "Database connections open and free.", func(p DatabasePoolStat) float64 { return float64(p.IdleConns()) }),
		gauge("quantix_db_conns_max", "Maximum number of database connections.", func(p DatabasePoolStat) float64 { return float64(p.MaxConns()) }),
		counter("quantix_db_acquires_total", "Database connections taken from the pool.", func(p DatabasePoolStat) float64 { return float64(p.AcquireCount()) }),
		counter("quantix_db_acquires_waited_total", "Database connections taken from the pool after a wait.", func(p DatabasePoolStat) float64 { return float64(p.EmptyAcquireCount()) }),
		counter("quantix_db_acquires_given_up_total", "Waits for a database connection that were cancelled.", func(p DatabasePoolStat) float64 { return float64(p.CanceledAcquireCount()) }),
		counter("quantix_db_acquire_seconds_total", "Time spent waiting for database connections.", func(p DatabasePoolStat) float64 { return p.AcquireDuration().Seconds() }),
	}
}

// measureRequests is the middleware that records a request's duration by its route. Paths would make the number of
// metrics unbounded.
func (m *metrics) measureRequests(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		start := time.Now()
		err := next(c)
		if err != nil {
			c.Error(err) // write the error response now, so that the status is known
		}
		route := c.Path()
		if route == "" {
			route = "none"
		}
		m.requests.WithLabelValues(methodLabel(c), route, strconv.Itoa(c.Response().Status)).Observe(time.Since(start).Seconds())
		return nil
	}
}

func methodLabel(c echo.Context) string {
	switch m := c.Request().Method; m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return m
	}
	return "other"
}

// isLocalClient reports whether the client runs on this machine. It is false for requests through a local proxy,
// which makes all clients look local.
func isLocalClient(c echo.Context) bool {
	h := c.Request().Header
	ip := net.ParseIP(c.RealIP())
	return ip != nil && ip.IsLoopback() && h.Get("X-Forwarded-For") == "" && h.Get("Forwarded") == "" && h.Get("X-Real-Ip") == ""
}
