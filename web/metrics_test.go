package web_test

import (
	"net/http"
	"testing"

	"quantix/internal/fleet"
)

func TestMetricsAreForThisMachineOrASeer(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	b := p.browser()
	b.get("/healthz")
	b.get("/metrics").is(t, http.StatusOK).has(t, `quantix_http_request_seconds_count{method="GET",route="/healthz",status="200"} 1`,
		"quantix_claims_parked 0", "quantix_consoles_open 0", `quantix_jobs{state="queued"} 0`, "quantix_db_conns_max 10", "go_goroutines")
	through := []string{"X-Forwarded-For", "203.0.113.9"}
	if a := b.get("/metrics", through...); a.status == http.StatusOK {
		t.Error("a proxy on this machine opens the metrics to everybody")
	}
	viewer := p.program("vic", fleet.RoleViewer, nil)
	viewer.call("GET", "/metrics", "", through...).is(t, http.StatusOK)
	member := p.program("mia", "", nil)
	if a := member.call("GET", "/metrics", "", through...); a.status != http.StatusForbidden {
		t.Errorf("status %d", a.status)
	}
}

func TestOpenJobsAreNoNumberWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	p.pool.Close()
	p.browser().get("/metrics").is(t, http.StatusOK).has(t, `quantix_jobs{state="queued"} NaN`, `quantix_jobs{state="running"} NaN`)
}
