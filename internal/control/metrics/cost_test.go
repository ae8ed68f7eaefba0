//go:build ordeal

package metrics

import (
	"fmt"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/metric"
	"quantix/internal/timeseries"
)

// With 1,000 hosts of 10 VMs, the pass of the sums and the reads of pages stay cheap.
func TestCostOfSumsAndRecentUse(t *testing.T) {
	f := newFixture(t)
	f.exec(`INSERT INTO hosts (id, name, status) SELECT 'host-' || n, 'host-' || n, '{"inventory": {"cpu": {"threads": 64}}}' FROM generate_series(1, 1000) n`)
	f.exec(`INSERT INTO host_sessions (host_id, seen_at, last_look) SELECT id, now(), now() FROM hosts ON CONFLICT DO NOTHING`)
	in := metric.Samples{Host: metric.Table{Values: map[string][]fleet.MetricValue{}}, VMs: metric.Table{Values: map[string][]fleet.MetricValue{}}}
	for i, m := range fleet.HostMetrics[:21] {
		in.Host.Values[m.Name] = []fleet.MetricValue{fleet.MetricValue(10 + i)}
	}
	for v := range 10 {
		in.VMs.IDs = append(in.VMs.IDs, fmt.Sprintf("0192a000-0000-7000-8000-0000000001%02d", v))
	}
	for _, m := range fleet.VMMetrics {
		in.VMs.Values[m.Name] = make([]fleet.MetricValue, 10)
		for v := range 10 {
			in.VMs.Values[m.Name][v] = 30
		}
	}
	layout, row := timeseries.NewRow("host-1", in, func(timeseries.Object) bool { return true })
	text, _, err := layout.Text()
	if err != nil {
		t.Fatal(err)
	}
	f.exec(`INSERT INTO metric_layouts (host_id, hash, layout) SELECT id, convert_to(id, 'UTF8'), $1 FROM hosts`, string(text))
	f.exec(`INSERT INTO metric_samples (host_id, at, seconds, layout_id, sample)
		SELECT l.host_id, now() - n * interval '10 seconds', 10, l.id, $1 FROM metric_layouts l, generate_series(0, 359) n`, row)
	f.exec(`VACUUM ANALYZE metric_samples, hosts, metric_layouts`)
	m := New(f.store, DefaultRetention, f.damage, &Newest{})
	best := func(name string, limit time.Duration, do func() error) {
		t.Helper()
		least := time.Hour
		for range 5 {
			began := time.Now()
			if err := do(); err != nil {
				t.Fatal(err)
			}
			least = min(least, time.Since(began))
		}
		t.Logf("%s: %v", name, least)
		if least > limit {
			t.Errorf("%s takes %v, more than %v", name, least, limit)
		}
	}
	best("sums of 1,000 hosts", 300*time.Millisecond, func() error {
		f.exec(`DELETE FROM metric_samples WHERE host_id = 'all'`)
		return m.SumMetrics(t.Context(), fleet.SystemActor)
	})
	if n := f.count(`metric_samples WHERE host_id = 'all'`); n != 1 {
		t.Fatalf("%d samples of sums", n)
	}
	f.exec(`INSERT INTO metric_samples (host_id, at, seconds, layout_id, sample)
		SELECT host_id, at - n * interval '10 seconds', 10, layout_id, sample FROM metric_samples, generate_series(1, 700) n WHERE host_id = 'all'`)
	now := time.Now()
	best("chart of the fleet over an hour, from samples", 100*time.Millisecond, func() error {
		_, _, err := Read(t.Context(), f.q, FleetSums, []string{SumSource}, Range{From: now.Add(-time.Hour), To: now}, now, DefaultRetention, f.damage)
		return err
	})
	var hosts []string
	for i := range 200 {
		hosts = append(hosts, fmt.Sprintf("host-%d", i+1))
	}
	for _, n := range []int{50, 200} {
		for _, only := range []bool{true, false} {
			best(fmt.Sprintf("last hour of %d hosts, only their own values: %v", n, only), 500*time.Millisecond, func() error {
				values := 0
				err := ReadRecent(t.Context(), f.q, hosts[:n], only, time.Now(), func(o timeseries.Object) bool { return o.Type == fleet.TypeHost }, func(int, timeseries.Object, []int, []float64) { values++ })
				if values < 29*n {
					t.Errorf("%d values", values)
				}
				return err
			})
		}
	}
}
