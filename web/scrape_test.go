package web_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"quantix/internal/fleet"
	"quantix/internal/metric"
	"quantix/internal/testkit"
	"quantix/internal/timeseries"
)

// families parses a response of /metrics, which follows the conventions of Prometheus.
func (a answer) families(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	problems, err := promlint.New(strings.NewReader(a.body)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v, %v", problems, err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	all, err := parser.TextToMetricFamilies(strings.NewReader(a.body))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// addFullSample stores a sample of the host with a value of each metric of the host, its VMs and its pools.
func (p *portal) addFullSample(host string) {
	p.t.Helper()
	ids := func(sql string) (out []string) {
		if err := p.pool.QueryRow(p.t.Context(), "SELECT COALESCE(array_agg(id), '{}')::text[] FROM ("+sql+") q", host).Scan(&out); err != nil {
			p.t.Fatal(err)
		}
		return out
	}
	table := func(of fleet.ResourceType, ids []string) metric.Table {
		out := metric.Table{IDs: ids, Values: map[string][]fleet.MetricValue{}}
		for i, m := range fleet.MetricsOf(of) {
			for range ids {
				out.Values[m.Name] = append(out.Values[m.Name], fleet.MetricValue(i+1))
			}
		}
		return out
	}
	in := metric.Samples{
		Host: table(fleet.TypeHost, []string{""}), VMs: table(fleet.TypeVM, ids("SELECT id FROM vms WHERE host_id = $1")),
		Pools: table(fleet.TypePool, ids("SELECT object_id AS id FROM assignments WHERE noun = 'pool' AND host_id = $1")),
	}
	layout, row := timeseries.NewRow(fleet.HostID(host), in, func(timeseries.Object) bool { return true })
	text, hash, err := layout.Text()
	if err != nil {
		p.t.Fatal(err)
	}
	p.execSQL(`WITH l AS (INSERT INTO metric_layouts (host_id, hash, layout) VALUES ($1, $2, $3) RETURNING id)
		INSERT INTO metric_samples (host_id, at, seconds, layout_id, sample) SELECT $1, clock_timestamp(), 10, l.id, $4 FROM l`, host, hash[:], string(text), row)
}

const through = "203.0.113.9" // a client on another machine

// newMeasuredPortal returns a portal with two hosts, six VMs and samples.
func newMeasuredPortal(t *testing.T) *portal {
	t.Helper()
	p := newPortal(t)
	testkit.Seed(t, p.pool, 2, 6)
	for i := range 2 {
		p.addFullSample(fmt.Sprintf("00000000-0000-7000-8000-%012d", i+1))
	}
	return p
}

func TestScrapeOfFleet(t *testing.T) {
	t.Parallel()
	p := newMeasuredPortal(t)
	p.execSQL(`UPDATE vms SET name = E'odd "name"\\\n{' WHERE id = (SELECT min(id) FROM vms)`)
	viewer := p.newAPIClient("vic", fleet.RoleViewer, nil)
	all := viewer.call("GET", "/metrics", "", "X-Forwarded-For", through).requireStatus(t, http.StatusOK).families(t)
	for name, want := range map[string]int{
		"quantix_host_online": 2, "quantix_host_info": 2, "quantix_vm_info": 6, "quantix_vm_cpu_usage_ratio": 6, "quantix_host_cpu_usage_ratio": 10, "quantix_alarms": 3, "quantix_tasks": 2,
		"quantix_fleet_scrape_success": 1, "quantix_claims_parked": 1, "go_goroutines": 1,
	} {
		if got := len(all[name].GetMetric()); got != want {
			t.Errorf("%s has %d series, want %d", name, got, want)
		}
	}
	if v := all["quantix_fleet_scrape_success"].GetMetric()[0].GetGauge().GetValue(); v != 1 {
		t.Errorf("quantix_fleet_scrape_success is %v", v)
	}
	odd := false
	for _, m := range all["quantix_vm_info"].GetMetric() {
		for _, l := range m.GetLabel() {
			odd = odd || l.GetName() == "name" && l.GetValue() == "odd \"name\"\\\n{"
		}
	}
	if !odd {
		t.Error("the odd name is not in quantix_vm_info")
	}

	// Another portal of the same database exposes the same values of the fleet.
	other := newPortalOn(t, p.pool)
	second := other.newAPIClient("vera", fleet.RoleViewer, nil).call("GET", "/metrics?collect[]=fleet", "", "X-Forwarded-For", through).requireStatus(t, http.StatusOK)
	first := viewer.call("GET", "/metrics?collect[]=fleet", "", "X-Forwarded-For", through)
	if first.body != second.body || strings.Contains(first.body, "go_goroutines") {
		t.Error("the two portals differ, or expose their processes")
	}
	first.families(t)
	viewer.call("GET", "/metrics?collect[]=portal", "").requireStatus(t, http.StatusOK).excludes(t, "quantix_vm_info")
	viewer.call("GET", "/metrics?collect[]=all", "").requireStatus(t, http.StatusBadRequest)

	// A host that is offline has no values, and its VMs stay listed.
	p.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '1 hour', last_look = NULL, blind_since = NULL WHERE host_id LIKE '%1'`)
	all = viewer.call("GET", "/metrics", "").requireStatus(t, http.StatusOK).families(t)
	for name, want := range map[string]int{"quantix_host_online": 2, "quantix_host_load1": 1, "quantix_vm_info": 6, "quantix_vm_cpu_usage_ratio": 3, "quantix_vm_running": 3} {
		if got := len(all[name].GetMetric()); got != want {
			t.Errorf("with one host offline, %s has %d series, want %d", name, got, want)
		}
	}
	// A sample of an online host that is too old has no values either.
	p.execSQL(`UPDATE host_sessions SET seen_at = now()`)
	p.execSQL(`UPDATE metric_samples SET at = at - interval '3 minutes'`)
	if all = viewer.call("GET", "/metrics", "").families(t); all["quantix_vm_cpu_usage_ratio"] != nil || len(all["quantix_vm_running"].GetMetric()) != 6 {
		t.Error("old values are exposed")
	}
}

func TestScrapeOfFleetRequiresToken(t *testing.T) {
	t.Parallel()
	p := newMeasuredPortal(t)
	b := p.newBrowser()
	b.get("/metrics").requireStatus(t, http.StatusOK).excludes(t, "quantix_vm_", "quantix_host_")
	b.get("/metrics?collect[]=fleet").requireStatus(t, http.StatusUnauthorized)
	b.get("/metrics", "Authorization", "Bearer qx_wrong").requireStatus(t, http.StatusUnauthorized)
	tenant := p.newAPIClient("tess", fleet.RoleNone, map[fleet.ProjectID]fleet.Role{"00000000-0000-7000-8000-000000001001": fleet.RoleMember})
	for _, path := range []string{"/metrics", "/metrics?collect[]=fleet", "/metrics?collect[]=portal"} {
		tenant.call("GET", path, "").requireStatus(t, http.StatusForbidden).excludes(t, "quantix_vm_")
	}
}

func TestScrapeWithoutDatabaseHasMetricsOfPortal(t *testing.T) {
	t.Parallel()
	p := newMeasuredPortal(t)
	viewer := p.newAPIClient("vic", fleet.RoleViewer, nil)
	p.execSQL(`ALTER TABLE metric_layouts RENAME TO lost`)
	a := viewer.call("GET", "/metrics", "").requireStatus(t, http.StatusOK)
	a.contains(t, "quantix_fleet_scrape_success 0", "quantix_claims_parked 0")
	a.excludes(t, "quantix_vm_")
}

var (
	metricName = regexp.MustCompile(`\bquantix_[a-z0-9_]+`)
	manualPath = "../static/docs/monitoring.md"
)

func TestDashboardAndManualMatchExposedNames(t *testing.T) {
	t.Parallel()
	p := newMeasuredPortal(t)
	all := p.newAPIClient("vic", fleet.RoleViewer, nil).call("GET", "/metrics", "").requireStatus(t, http.StatusOK).families(t)
	file := p.newBrowser().get("/help/grafana-dashboard.json").requireStatus(t, http.StatusOK)
	if !strings.HasPrefix(file.header.Get("Content-Disposition"), "attachment") || !json.Valid([]byte(file.body)) {
		t.Errorf("the dashboard is no JSON file: %v", file.header)
	}
	var dashboard struct {
		Panels []struct {
			Targets []struct{ Expr string }
		}
		Templating struct{ List []struct{ Definition string } }
	}
	if err := json.Unmarshal([]byte(file.body), &dashboard); err != nil {
		t.Fatal(err)
	}
	var used []string
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			used = append(used, metricName.FindAllString(target.Expr, -1)...)
		}
	}
	for _, v := range dashboard.Templating.List {
		used = append(used, metricName.FindAllString(v.Definition, -1)...)
	}
	if len(used) < 30 {
		t.Fatalf("the dashboard uses %d names", len(used))
	}
	for _, name := range used {
		if all[name] == nil {
			t.Errorf("the dashboard uses %s, which the portal does not expose", name)
		}
	}
	manual, err := os.ReadFile(manualPath)
	if err != nil {
		t.Fatal(err)
	}
	for name := range all {
		if strings.HasPrefix(name, "quantix_") && !bytes.Contains(manual, []byte("`"+name+"`")) {
			t.Errorf("monitoring.md does not list %s", name)
		}
	}
}

// A scrape of the fleet waits for a slot until the time of a request is over. Metrics of the process need no slot.
func TestScrapeBeyondLimitIsRefused(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	viewer := p.newAPIClient("vic", fleet.RoleViewer, nil)
	p.server.OccupyFleetScrapes()
	viewer.call("GET", "/metrics?collect[]=portal", "").requireStatus(t, http.StatusOK)
	viewer.call("GET", "/metrics", "").requireStatus(t, http.StatusTooManyRequests)
}
