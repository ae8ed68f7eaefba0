package agent

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// Metrics holds an agent's Prometheus metrics.
type Metrics struct {
	registry *prometheus.Registry

	jobs            *prometheus.CounterVec
	jobSeconds      *prometheus.HistogramVec
	reports         *prometheus.CounterVec
	failures        *prometheus.CounterVec
	consoles        prometheus.Gauge
	connected       prometheus.Gauge
	certificateEnds prometheus.Gauge

	vmNames atomic.Pointer[map[fleet.VMID]string] // names of the host's VMs as of the newest state
}

// NewMetrics creates the metrics of an agent with that version.
func NewMetrics(version string) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		jobs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quantix_agent_jobs_total", Help: "Jobs that ended on this host.",
		}, []string{"kind", "outcome"}),
		jobSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "quantix_agent_job_seconds", Help: "Run time of jobs, without the wait for a slot.",
			Buckets: prometheus.ExponentialBuckets(0.005, 4, 9),
		}, []string{"kind"}),
		reports: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quantix_agent_reports_total", Help: "Reports that the portal accepted, by kind: full or heartbeat.",
		}, []string{"type"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quantix_agent_call_failures_total", Help: "Calls to the portal that failed and were tried again.",
		}, []string{"call"}),
		consoles: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "quantix_agent_consoles", Help: "Consoles open now.",
		}),
		connected: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "quantix_agent_hypervisor_connected", Help: "1 while the hypervisor answers.",
		}),
		certificateEnds: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "quantix_agent_certificate_expiry_timestamp_seconds", Help: "When the host's certificate expires.",
		}),
	}
	build := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "quantix_agent_build_info", Help: "The agent's version.", ConstLabels: prometheus.Labels{"version": version},
	}, func() float64 { return 1 })
	m.registry.MustRegister(m.jobs, m.jobSeconds, m.reports, m.failures, m.consoles, m.connected, m.certificateEnds, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// maxScrapes limits concurrent requests of the metrics.
const maxScrapes = 4

// Handler serves the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes, ErrorHandling: promhttp.ContinueOnError})
}

func (m *Metrics) recordJob(kind fleet.JobKind, outcome wire.Outcome, took time.Duration) {
	name := string(kind)
	if !kind.IsKnown() {
		name = "unknown" // unknown kinds from a portal must not create unbounded labels
	}
	m.jobs.WithLabelValues(name, string(outcome)).Inc()
	m.jobSeconds.WithLabelValues(name).Observe(took.Seconds())
}

func (m *Metrics) recordReport(r wire.Report) {
	kind := "heartbeat"
	if r.State != nil {
		kind = "full"
	}
	m.reports.WithLabelValues(kind).Inc()
}

func (m *Metrics) setConnected(yes bool) {
	m.connected.Set(0)
	if yes {
		m.connected.Set(1)
	}
}
