package metrics

import (
	"math"
	"testing"
	"time"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/metric"
	"quantix/internal/timeseries"
)

const (
	east = "0192a000-0000-7000-8000-0000000000e1"
	west = "0192a000-0000-7000-8000-0000000000e2"
)

// newSumFixture returns a database with the hosts of newFixture in a cluster each, online with 8 and 24 threads.
func newSumFixture(t *testing.T) (*fixture, *Metrics) {
	t.Helper()
	f := newFixture(t)
	f.exec(`INSERT INTO clusters (id, name) VALUES ($1, 'east'), ($2, 'west')`, east, west)
	for host, c := range map[fleet.HostID]struct {
		cluster string
		threads int
	}{hostA: {east, 8}, hostB: {west, 24}} {
		f.exec(`UPDATE hosts SET cluster_id = $2, status = jsonb_build_object('inventory', jsonb_build_object('cpu', jsonb_build_object('threads', $3::int))) WHERE id = $1`, host, c.cluster, c.threads)
		f.exec(`INSERT INTO host_sessions (host_id, seen_at, last_look) VALUES ($1, now(), now()) ON CONFLICT (host_id) DO UPDATE SET seen_at = now(), last_look = now()`, host)
	}
	return f, New(f.store, DefaultRetention, f.damage, &Newest{})
}

// report stores a newest sample of a host with percent of its CPUs in use and used of 100 bytes of memory.
func (f *fixture) report(host fleet.HostID, percent, used float64) {
	f.t.Helper()
	in := metric.Samples{Host: metric.Table{Values: map[string][]fleet.MetricValue{
		"cpu.user": {fleet.MetricValue(percent / 2)}, "cpu.guest": {fleet.MetricValue(percent / 2)}, "memory.used": {fleet.MetricValue(used)}, "memory.total": {100},
		"disk.read": {1000}, "network.send": {500},
	}}, VMs: metric.Table{IDs: []string{web}, Values: map[string][]fleet.MetricValue{"cpu.usage": {77}}}}
	l, row := timeseries.NewRow(host, in, func(timeseries.Object) bool { return true })
	text, hash, err := l.Text()
	if err != nil {
		f.t.Fatal(err)
	}
	id, err := f.q.UseMetricLayout(f.t.Context(), db.UseMetricLayoutParams{HostID: host, Hash: hash[:], Layout: string(text)})
	if err != nil {
		f.t.Fatal(err)
	}
	f.exec(`INSERT INTO metric_samples (host_id, at, seconds, layout_id, sample) VALUES ($1, clock_timestamp(), 10, $2, $3)`, host, id, row)
}

// sums adds a sample of the sums and returns the newest values of an object, by name.
func (f *fixture) sums(m *Metrics, id string) map[string]float64 {
	f.t.Helper()
	f.exec(`UPDATE metric_samples SET at = at - interval '10 seconds' WHERE host_id = 'all'`)
	if err := m.SumMetrics(f.t.Context(), fleet.SystemActor); err != nil {
		f.t.Fatal(err)
	}
	return f.newestSums(id)
}

func (f *fixture) newestSums(id string) map[string]float64 {
	f.t.Helper()
	out := map[string]float64{}
	now := time.Now().Add(time.Second)
	o := timeseries.Object{Type: fleet.TypeCluster, ID: id}
	_, points, err := Read(f.t.Context(), f.q, o, []string{SumSource}, Range{From: now.Add(-time.Minute), To: now}, now, DefaultRetention, f.damage)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, m := range fleet.ClusterMetrics {
		all := points[""][m.Number]
		for i := range all {
			if !all[i].IsMissing() {
				out[m.Name] = all[i].Mean
			}
		}
	}
	return out
}

func TestSumsOfHosts(t *testing.T) {
	f, m := newSumFixture(t)
	if got := f.sums(m, FleetSums.ID); got["hosts.total"] != 0 && (!near(got["hosts.total"], 2) || got["hosts.reporting"] != 0) || len(got) != 2 {
		t.Errorf("without samples: %v", got)
	}
	f.report(hostA, 50, 60)
	f.report(hostB, 25, 20)
	for id, want := range map[string]map[string]float64{
		FleetSums.ID: {"cpu.used": 10, "cpu.capacity": 32, "cpu.usage": 31.25, "memory.used": 80, "memory.capacity": 200, "memory.usage": 40, "disk.read": 2000, "network.send": 1000, "hosts.reporting": 2, "hosts.total": 2},
		east:         {"cpu.used": 4, "cpu.capacity": 8, "cpu.usage": 50, "memory.used": 60, "memory.capacity": 100, "disk.read": 1000, "hosts.reporting": 1, "hosts.total": 1},
		west:         {"cpu.used": 6, "cpu.capacity": 24, "memory.used": 20},
	} {
		got := f.sums(m, id)
		for name, v := range want {
			if !near(got[name], v) {
				t.Errorf("%s: %s is %v, want %v", id, name, got[name], v)
			}
		}
	}
	f.exec(`DELETE FROM metric_samples WHERE host_id = 'all'`)
	f.exec(`UPDATE host_sessions SET seen_at = now() - interval '1 hour', last_look = now() - interval '1 hour' WHERE host_id = $1`, hostB)
	if got := f.sums(m, FleetSums.ID); !near(got["cpu.capacity"], 8) || !near(got["hosts.reporting"], 1) || !near(got["hosts.total"], 2) {
		t.Errorf("with an offline host: %v", got)
	}
	if got := f.newestSums(west); len(got) != 2 || got["hosts.reporting"] != 0 || !near(got["hosts.total"], 1) {
		t.Errorf("a cluster without reporting hosts has the values %v", got)
	}
}

// Two portals run the pass, and only one of them adds a sample of an interval.
// A host reports what it likes.
func TestImplausibleValuesOfAHostAreNotSummed(t *testing.T) {
	t.Parallel()
	s := &sum{}
	values := func(memoryUsed, memoryTotal, rate float64) map[int]float64 {
		return map[int]float64{
			hostNumbers["cpu.user"]: 50, hostNumbers["memory.used"]: memoryUsed, hostNumbers["memory.total"]: memoryTotal, hostNumbers["disk.read"]: rate, hostNumbers["network.send"]: rate,
		}
	}
	s.addHost(8, values(60, 100, 5))
	s.addHost(1<<40, values(1e18, 1e18, 1e18))
	s.addHost(8, values(1e18, 100, 5))
	got := s.values()
	for name, want := range map[string]float64{"cpu.capacity": 16, "memory.used": 160, "memory.capacity": 200, "disk.read": 10, "network.send": 10, "hosts.reporting": 3} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}

func TestSumsAreStoredOncePerInterval(t *testing.T) {
	f, m := newSumFixture(t)
	f.report(hostA, 50, 60)
	for _, portal := range []*Metrics{m, New(f.store, DefaultRetention, f.damage, &Newest{}), m} {
		if err := portal.SumMetrics(t.Context(), fleet.SystemActor); err != nil {
			t.Fatal(err)
		}
	}
	if n := f.count(`metric_samples WHERE host_id = 'all'`); n != 1 {
		t.Errorf("%d samples, want 1", n)
	}
	// The first sample counts for at most two intervals.
	if n := f.count(`metric_samples WHERE host_id = 'all' AND seconds <= 20`); n != 1 {
		t.Error("the sample counts for more than two intervals")
	}
}

func TestSumsAreRolledUp(t *testing.T) {
	f, m := newSumFixture(t)
	f.report(hostA, 50, 60)
	if err := m.SumMetrics(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	hour := noon.Add(-time.Hour)
	f.exec(`UPDATE metric_samples SET seconds = 20 WHERE host_id = 'all'`)
	f.exec(`INSERT INTO metric_samples (host_id, at, seconds, layout_id, sample)
		SELECT host_id, $1::timestamptz + n * interval '20 seconds', 20, layout_id, sample FROM metric_samples, generate_series(1, 180) n WHERE host_id = 'all'`, hour)
	f.rollUp(noon.Add(10 * time.Minute))
	f.exec(`DELETE FROM metric_samples`)
	for _, id := range []string{FleetSums.ID, east} {
		o := timeseries.Object{Type: fleet.TypeCluster, ID: id}
		_, points, err := Read(t.Context(), f.q, o, []string{SumSource}, Range{From: hour, To: noon, Step: time.Minute}, noon.Add(10*time.Minute), DefaultRetention, f.damage)
		if err != nil {
			t.Fatal(err)
		}
		used := points[""][3]
		if len(used) != 60 || !near(used[0].Mean, 4) || !near(used[59].Mean, 4) {
			t.Errorf("%s: %v", id, used)
		}
	}
	f.rollUp(noon.AddDate(0, 0, 2))
	f.exec(`DELETE FROM metric_chunks WHERE tier = 1`)
	for _, id := range []string{FleetSums.ID, east} {
		o, later := timeseries.Object{Type: fleet.TypeCluster, ID: id}, noon.AddDate(0, 0, 2)
		_, points, err := Read(t.Context(), f.q, o, []string{SumSource}, Range{From: hour, To: noon, Step: 10 * time.Minute}, later, DefaultRetention, f.damage)
		if used := points[""][3]; err != nil || len(used) != 6 || !near(used[5].Mean, 4) {
			t.Errorf("%s after a day: %v (%v)", id, used, err)
		}
	}
	if got := f.logged.String(); got != "" {
		t.Error(got)
	}
}

// The values of a deleted host are still summarized, because its layouts are kept.
func TestDeletedHostKeepsItsLastHour(t *testing.T) {
	f := newFixture(t)
	f.addSamples(hostA, noon, noon.Add(time.Hour), func(time.Time) float64 { return 30 })
	f.exec(`DELETE FROM vms`)
	f.exec(`DELETE FROM hosts WHERE id = $1`, hostA)
	now := noon.Add(2 * time.Hour)
	f.rollUp(now)
	if _, points := f.read(Range{From: noon, To: noon.Add(time.Hour), Step: time.Minute}, now); len(points) != 60 || math.IsNaN(points[30].Mean) {
		t.Errorf("%d points", len(points))
	}
}
