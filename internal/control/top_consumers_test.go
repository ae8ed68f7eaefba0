package control_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"quantix/internal/control/query"
	"quantix/internal/fleet"
	"quantix/internal/metric"
	"quantix/internal/timeseries"
	"quantix/internal/usage"
)

// addSample stores the newest sample of a host: the CPU use of its VMs.
func (r *hostFixture) addSample(host fleet.HostID, cpu map[fleet.VMID]float64) {
	r.t.Helper()
	in := metric.Samples{Host: metric.Table{IDs: []string{""}, Values: map[string][]fleet.MetricValue{"cpu.user": {10}, "cpu.guest": {20}}}}
	in.VMs.Values = map[string][]fleet.MetricValue{}
	for id, v := range cpu {
		in.VMs.IDs = append(in.VMs.IDs, string(id))
		in.VMs.Values["cpu.usage"] = append(in.VMs.Values["cpu.usage"], fleet.MetricValue(v))
	}
	layout, row := timeseries.NewRow(host, in, func(timeseries.Object) bool { return true })
	text, hash, err := layout.Text()
	if err != nil {
		r.t.Fatal(err)
	}
	id := queryValue[int64](r, `INSERT INTO metric_layouts (host_id, hash, layout) VALUES ($1, $2, $3)
		ON CONFLICT (host_id, hash) DO UPDATE SET used_at = now() RETURNING id`, host, hash[:], string(text))
	r.execSQL(`INSERT INTO metric_samples (host_id, at, seconds, layout_id, sample) VALUES ($1, clock_timestamp(), 10, $2, $3)`, host, id, row)
}

// topCPU returns the actor's top consumers of CPU time, as "name value".
func (r *hostFixture) topCPU(a fleet.Actor) string {
	r.t.Helper()
	all, err := r.TopConsumers(r.t.Context(), a)
	if err != nil {
		r.t.Fatal(err)
	}
	var out []string
	for _, c := range append(all[0].VMs, all[0].Hosts...) {
		out = append(out, fmt.Sprintf("%s %.0f", c.Name, c.Value))
	}
	return strings.Join(out, ", ")
}

func TestTopConsumers(t *testing.T) {
	r := newHostFixture(t)
	r.execSQL(`UPDATE host_sessions SET seen_at = now(), last_look = NULL, blind_since = NULL, fresh_for = '1 minute'`)
	other := r.addHost("h2")
	host, cpu := r.agent.HostID, map[fleet.VMID]float64{}
	ids := map[string]fleet.VMID{}
	for i := range 7 {
		name := fmt.Sprintf("web-%d", i)
		ids[name] = r.addVM(name)
		cpu[ids[name]] = float64(10 * i)
	}
	if got := r.topCPU(chief); got != "" {
		t.Errorf("without samples: %s", got)
	}
	r.addSample(host, map[fleet.VMID]float64{ids["web-0"]: 99})
	r.addSample(host, cpu)
	if got, want := r.topCPU(chief), "web-6 60, web-5 50, web-4 40, web-3 30, web-2 20, h1 30"; got != want {
		t.Errorf("top consumers %q, want %q", got, want)
	}
	r.execSQL(`INSERT INTO projects (id, name) VALUES ('other', 'other')`)
	r.execSQL(`UPDATE vms SET project_id = 'other' WHERE id = ANY ($1)`, []fleet.VMID{ids["web-1"], ids["web-6"]})
	tenant := fleet.Actor{UserID: "tenant", Name: "tenant", Projects: map[fleet.ProjectID]fleet.Role{"other": fleet.RoleMember}}
	if got, want := r.topCPU(tenant), "web-6 60, web-1 10"; got != want {
		t.Errorf("a tenant's top consumers %q, want %q", got, want)
	}
	r.execSQL(`UPDATE vms SET host_id = $2 WHERE id = $1`, ids["web-6"], other.HostID)
	if got, want := r.topCPU(tenant), "web-1 10"; got != want {
		t.Errorf("after the VM left its host %q, want %q", got, want)
	}
	r.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '1 hour'`)
	if got := r.topCPU(chief); got != "" {
		t.Errorf("an offline host counts: %s", got)
	}
}

// The use of the last hour has a value per slot with a sample, and only of VMs that the actor sees.
func TestRecentUseOfVMsAndHosts(t *testing.T) {
	r := newHostFixture(t)
	host, id, hidden := r.agent.HostID, r.addVM("web"), r.addVM("db")
	r.addSample(host, map[fleet.VMID]float64{id: 40, hidden: 50})
	r.execSQL(`UPDATE metric_samples SET at = now() - interval '10 minutes'`)
	values := func(all [usage.RecentSlots]float64) (out []float64) {
		for _, v := range all {
			if !math.IsNaN(v) {
				out = append(out, math.Round(v))
			}
		}
		return out
	}
	vms, err := r.RecentVMUse(t.Context(), chief, []fleet.VMID{id})
	if err != nil || len(vms) != 1 || !slices.Equal(values(vms[id].CPU), []float64{40}) || len(values(vms[id].Memory)) != 0 {
		t.Errorf("%+v (%v)", vms[id], err)
	}
	hosts, err := r.RecentHostUse(t.Context(), chief, []fleet.HostID{host})
	if err != nil || len(hosts) != 1 || !math.IsNaN(hosts[host].Memory[5]) {
		t.Errorf("%+v (%v)", hosts, err)
	}
	r.execSQL(`INSERT INTO projects (id, name) VALUES ('other', 'other')`)
	tenant := fleet.Actor{UserID: "tenant", Name: "tenant", Projects: map[fleet.ProjectID]fleet.Role{"other": fleet.RoleMember}}
	if vms, err := r.RecentVMUse(t.Context(), tenant, []fleet.VMID{id, hidden}); err != nil || len(vms) != 0 {
		t.Errorf("a tenant sees the use of VMs of another project: %v (%v)", vms, err)
	}
}

// The metrics of a deleted VM stay readable for people who see all projects.
func TestMetricsOfDeletedVM(t *testing.T) {
	r := newHostFixture(t)
	id := r.addVM("web")
	project := queryValue[fleet.ProjectID](r, `SELECT project_id FROM vms WHERE id = $1`, id)
	hour := time.Now().UTC().Truncate(time.Hour).Add(-2 * time.Hour)
	b := timeseries.NewBuckets(hour, time.Minute, 60)
	b.AddValue(1, hour.Add(time.Hour), time.Hour, 40)
	r.execSQL(`INSERT INTO metric_chunks (tier, type, object_id, start, host_id, chunk) VALUES (1, 'vm', $1, $2, $3, $4)`, id, hour, r.agent.HostID, timeseries.EncodeChunk(fleet.TypeVM, 60, b.Points()))
	r.execSQL(`INSERT INTO metric_periods (tier, start, complete) VALUES (1, $1, true) ON CONFLICT (tier, start) DO UPDATE SET complete = true`, hour)
	r.execSQL(`DELETE FROM vms WHERE id = $1`, id)
	in := query.MetricRange{From: hour, To: hour.Add(time.Hour), Step: time.Minute}
	if m, err := r.VMMetrics(t.Context(), chief, id, in); err != nil || len(m.Series) != 1 {
		t.Errorf("%d series (%v)", len(m.Series), err)
	}
	member := fleet.Actor{UserID: "u-member", Name: "member", Projects: map[fleet.ProjectID]fleet.Role{project: fleet.RoleMember}}
	if _, err := r.VMMetrics(t.Context(), member, id, in); fleet.CodeOf(err) != fleet.NotFound {
		t.Errorf("a member of the project gets %v", err)
	}
	if _, err := r.VMMetrics(t.Context(), chief, "0192a000-0000-7000-8000-00000000dead", in); fleet.CodeOf(err) != fleet.NotFound {
		t.Errorf("a VM that never existed: %v", err)
	}
}

func TestPoolGrowthNamesTheHostThatIsFullFirst(t *testing.T) {
	r := newHostFixture(t)
	other := r.addHost("h2")
	const pool = fleet.PoolID("0192a000-0000-7000-8000-0000000000aa")
	r.execSQL(`UPDATE host_sessions SET seen_at = now(), last_look = NULL, blind_since = NULL, fresh_for = '1 minute'`)
	r.execSQL(`INSERT INTO pools (id, name, spec) VALUES ($1, 'data', '{"kind": "dir"}')`, pool)
	r.execSQL(`INSERT INTO assignments (noun, object_id, host_id, asked) VALUES ('pool', $1, $2, 'assign'), ('pool', $1, $3, 'assign')`, pool, r.agent.HostID, other.HostID)
	read := func() *usage.PoolGrowth {
		t.Helper()
		g, err := r.PoolGrowth(t.Context(), chief, pool)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	if g := read(); g != nil {
		t.Errorf("without a prediction: %+v", g)
	}
	r.execSQL(`INSERT INTO pool_predictions (pool_id, host_id, growth, days, full_at) VALUES ($1, $2, 'not', 30, NULL), ($1, $3, 'full', 30, now() + interval '9 days')`, pool, r.agent.HostID, other.HostID)
	if g := read(); g.Growth != usage.GrowsFull || g.HostName != "h2" || g.Hosts != 2 || !g.Fresh || time.Until(g.FullAt) < 8*24*time.Hour {
		t.Errorf("%+v", g)
	}
	r.execSQL(`UPDATE pool_predictions SET predicted_at = now() - interval '4 hours'`)
	if g := read(); g.Fresh {
		t.Errorf("an old prediction is fresh: %+v", g)
	}
	r.execSQL(`UPDATE pools SET spec = '{"kind": "nfs", "shared": true}'`)
	r.execSQL(`UPDATE pool_predictions SET predicted_at = now() WHERE host_id = $1`, r.agent.HostID)
	if g := read(); g.Growth != usage.GrowsNot || g.HostName != "" || g.Hosts != 1 {
		t.Errorf("of a shared pool: %+v", g)
	}
}
