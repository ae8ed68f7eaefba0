package web_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"quantix/internal/auth"
	"quantix/internal/fleet"
)

func TestMetricsRequireLocalClientOrToken(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	b := p.newBrowser()
	b.get("/healthz")
	b.get("/metrics").requireStatus(t, http.StatusOK).contains(t, `quantix_http_request_seconds_count{method="GET",route="/healthz",status="200"} 1`,
		"quantix_claims_parked 0", "quantix_consoles_open 0", `quantix_jobs{state="queued"} 0`, "quantix_db_conns_max 10", "go_goroutines")
	through := []string{"X-Forwarded-For", "203.0.113.9"}
	if a := b.get("/metrics", through...); a.status == http.StatusOK {
		t.Error("a request through a proxy on this machine gets the metrics without a token")
	}
	viewer := p.newAPIClient("vic", fleet.RoleViewer, nil)
	viewer.call("GET", "/metrics", "", through...).requireStatus(t, http.StatusOK)
	member := p.newAPIClient("mia", "", nil)
	if a := member.call("GET", "/metrics", "", through...); a.status != http.StatusForbidden {
		t.Errorf("status %d", a.status)
	}
}

func TestOpenJobsMetricIsNaNWithoutDatabase(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	p.pool.Close()
	p.newBrowser().get("/metrics").requireStatus(t, http.StatusOK).contains(t, `quantix_jobs{state="queued"} NaN`, `quantix_jobs{state="running"} NaN`)
}

func TestExpiringCertificateOnDashboardAndInMetrics(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	now := time.Now()
	ends := now.Add(3 * 24 * time.Hour)
	p.server.Certificates = func() []auth.Validity {
		return []auth.Validity{
			{Use: "browsers", File: "/etc/quantix/tls.crt", From: now.Add(-87 * 24 * time.Hour), Until: ends},
			{Use: "agents", From: now, Until: now.Add(30 * 24 * time.Hour)},
		}
	}
	p.newBrowser().get("/metrics").contains(t, fmt.Sprintf(`quantix_certificate_end_timestamp_seconds{use="browsers"} %v`, float64(ends.Unix())))
	words := []string{"certificate for browsers ends on", "Renew /etc/quantix/tls.crt"}
	p.newSignedInBrowser("ada", fleet.RoleAdmin).get("/").requireStatus(t, http.StatusOK).contains(t, words...)
	p.newSignedInBrowser("vic", fleet.RoleViewer).get("/").requireStatus(t, http.StatusOK).excludes(t, words...)
}

func TestMetricsWithoutTokenReturn401(t *testing.T) {
	t.Parallel()
	a := newPortal(t).newBrowser().get("/metrics", "X-Forwarded-For", "203.0.113.9").requireStatus(t, http.StatusUnauthorized)
	if a.header.Get("WWW-Authenticate") != "Bearer" || a.header.Get("Location") != "" {
		t.Errorf("the response header is %v", a.header)
	}
	a.contains(t, "Send an API token")
}

func TestChartsOfAllHostsAndOfClusters(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	cluster := "/clusters/" + string(fleet.DefaultClusterID)
	b := p.newSignedInBrowser("vic", fleet.RoleViewer)
	list := b.get("/hosts").requireStatus(t, http.StatusOK)
	list.contains(t, `href="/hosts/monitor"`)
	list.excludes(t, "charts.js", "spark")
	b.get("/hosts?columns=state,cpu1h").requireStatus(t, http.StatusOK).contains(t, "CPU, last hour", "spark")
	b.get("/hosts/monitor?range=1w").requireStatus(t, http.StatusOK).contains(t, `data-metrics="/hosts/metrics"`, `data-range="1w"`, "charts.js")
	b.get(cluster+"?tab=monitor").requireStatus(t, http.StatusOK).contains(t, `data-metrics="`+cluster+`/metrics"`, "charts.js")
	for _, path := range []string{"/hosts/metrics?range=1y", cluster + "/metrics"} {
		b.get(path).requireStatus(t, http.StatusOK).contains(t, `"series":[]`)
	}
	api := p.newAPIClient("val", fleet.RoleViewer, nil)
	for _, path := range []string{"/api/v1/metrics?step=60", "/api/v1" + cluster + "/metrics"} {
		api.call("GET", path, "").requireStatus(t, http.StatusOK).contains(t, `"series":[]`)
	}
	api.call("GET", "/api/v1/clusters/0192a000-0000-7000-8000-00000000dead/metrics", "").requireStatus(t, http.StatusNotFound)
	member := p.newAPIClient("mia", "", nil)
	for _, path := range []string{"/api/v1/metrics", "/api/v1" + cluster + "/metrics"} {
		if a := member.call("GET", path, ""); a.status != http.StatusForbidden {
			t.Errorf("%s: status %d", path, a.status)
		}
	}
}
