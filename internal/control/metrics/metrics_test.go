package metrics

import (
	"bytes"
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/metric"
	"quantix/internal/notify"
	"quantix/internal/testkit"
	"quantix/internal/timeseries"
)

var noon = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// fixture is a database with two hosts and a VM on the first one.
type fixture struct {
	t     *testing.T
	pool  *pgxpool.Pool
	q     *db.Queries
	store *store.Store

	logged bytes.Buffer
	damage *DamageLog
}

const (
	hostA = fleet.HostID("0192a000-0000-7000-8000-00000000000a")
	hostB = fleet.HostID("0192a000-0000-7000-8000-00000000000b")
	web   = "0192a000-0000-7000-8000-000000000001"
)

func newFixture(t *testing.T) *fixture {
	t.Helper()
	t.Parallel()
	pool := testkit.DB(t)
	f := &fixture{t: t, pool: pool, q: db.New(pool), store: store.New(pool, notify.NewHub())}
	f.damage = NewDamageLog(slog.New(slog.NewTextHandler(&f.logged, nil)))
	// The tests' times have no partitions.
	for _, table := range []string{"metric_samples", "metric_chunks_hours", "metric_chunks_days", "metric_chunks_months"} {
		f.exec(`CREATE TABLE ` + table + `_rest PARTITION OF ` + table + ` DEFAULT`)
	}
	f.exec(`INSERT INTO hosts (id, name, status) VALUES ($1, 'a', '{}'), ($2, 'b', '{}')`, hostA, hostB)
	f.exec(`INSERT INTO projects (id, name) VALUES ('red', 'red') ON CONFLICT DO NOTHING`)
	f.exec(`INSERT INTO vms (id, project_id, host_id, name, spec) VALUES ($1, 'red', $2, 'web', '{"cpus": 1, "memoryMiB": 256}')`, web, hostA)
	return f
}

func (f *fixture) exec(sql string, args ...any) {
	f.t.Helper()
	if _, err := f.pool.Exec(f.t.Context(), sql, args...); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) count(sql string) (n int) {
	f.t.Helper()
	if err := f.pool.QueryRow(f.t.Context(), `SELECT count(*) FROM `+sql).Scan(&n); err != nil {
		f.t.Fatal(err)
	}
	return n
}

// addSamples stores the VM's CPU use on a host, a value per minute of the time up to until.
func (f *fixture) addSamples(host fleet.HostID, from, until time.Time, cpu func(time.Time) float64) {
	f.t.Helper()
	var at []time.Time
	var rows [][]byte
	var layout int64
	for end := from.Add(time.Minute); !end.After(until); end = end.Add(time.Minute) {
		l, row := timeseries.NewRow(host, metric.Samples{
			Host: metric.Table{Values: map[string][]fleet.MetricValue{"load.1m": {1}}},
			VMs:  metric.Table{IDs: []string{web}, Values: map[string][]fleet.MetricValue{"cpu.usage": {fleet.MetricValue(cpu(end.Add(-time.Minute)))}}},
		}, func(timeseries.Object) bool { return true })
		if layout == 0 {
			text, hash, err := l.Text()
			if err != nil {
				f.t.Fatal(err)
			}
			if layout, err = f.q.UseMetricLayout(f.t.Context(), db.UseMetricLayoutParams{HostID: host, Hash: hash[:], Layout: string(text)}); err != nil {
				f.t.Fatal(err)
			}
		}
		at, rows = append(at, end), append(rows, row)
	}
	f.exec(`INSERT INTO metric_samples (host_id, at, seconds, layout_id, sample) SELECT $1, unnest($2::timestamptz[]), 60, $3, unnest($4::bytea[])`, host, at, layout, rows)
}

func (f *fixture) rollUp(now time.Time) (steps int) {
	f.t.Helper()
	for ; ; steps++ {
		more, err := RollUp(f.t.Context(), f.q, now, f.damage)
		if err != nil {
			f.t.Fatal(err)
		}
		if !more {
			return steps
		}
	}
}

func (f *fixture) read(r Range, now time.Time) (Range, []timeseries.Point) {
	f.t.Helper()
	got, points, err := Read(f.t.Context(), f.q, timeseries.Object{Type: fleet.TypeVM, ID: web}, []string{string(hostA), string(hostB)}, r, now, DefaultRetention, f.damage)
	if err != nil {
		f.t.Fatal(err)
	}
	return got, points[""][1]
}

func near(got, want float64) bool {
	return math.IsNaN(got) && math.IsNaN(want) || math.Abs(got-want) <= 0.02*math.Abs(want)
}

// The points of a chart are the same before and after the hour's chunks exist, and after the samples are gone.
func TestPointsStayWhenHoursAreRolledUp(t *testing.T) {
	f := newFixture(t)
	from := noon.Add(-2 * time.Hour)
	f.addSamples(hostA, from, noon.Add(-90*time.Minute), func(time.Time) float64 { return 10 })
	f.addSamples(hostB, noon.Add(-80*time.Minute), noon, func(time.Time) float64 { return 40 }) // the VM has moved
	want := func(at time.Time) float64 {
		switch {
		case at.Before(noon.Add(-90 * time.Minute)):
			return 10
		case at.Before(noon.Add(-80 * time.Minute)):
			return math.NaN()
		}
		return 40
	}
	check := func(when string) {
		t.Helper()
		r, points := f.read(Range{From: from, To: noon, Step: 5 * time.Minute}, noon)
		if len(points) != 24 || r.Step != 5*time.Minute {
			t.Fatalf("%s: %d points, %v", when, len(points), r)
		}
		for i, p := range points {
			if w := want(r.From.Add(time.Duration(i) * r.Step)); !near(p.Mean, w) || !near(p.Min, w) || !near(p.Max, w) {
				t.Errorf("%s: point %d is %v, want %v", when, i, p, w)
			}
		}
	}
	check("samples only")
	f.rollUp(noon.Add(2 * time.Minute))
	check("with chunks")
	f.exec(`DELETE FROM metric_samples`)
	check("chunks only")
	before := f.count("metric_chunks")
	f.exec(`UPDATE metric_periods SET complete = false, after = ''`)
	f.rollUp(noon.Add(2 * time.Minute))
	if n := f.count("metric_chunks"); n != before {
		t.Errorf("repeated, %d chunks became %d", before, n)
	}
}

func TestDayAndMonthAreRolledUpFromFinerPoints(t *testing.T) {
	f := newFixture(t)
	start := time.Date(2026, 10, 31, 0, 0, 0, 0, time.UTC)
	now := time.Date(2026, 11, 1, 1, 30, 0, 0, time.UTC)
	f.addSamples(hostA, start, now, func(at time.Time) float64 { return 10 + float64(at.Hour()) })
	f.rollUp(now)
	for tier, want := range map[string]int{"1": 2 * 25, "2": 2, "3": 2} { // the VM's and the host's
		if n := f.count("metric_chunks WHERE tier = " + tier); n != want {
			t.Errorf("tier %s has %d chunks, want %d", tier, n, want)
		}
	}
	r, points := f.read(Range{From: now.AddDate(-1, 0, 0), To: now}, now)
	if r.Step < 2*time.Hour || len(points) != r.points() {
		t.Fatalf("%d points every %v", len(points), r.Step)
	}
	measured, highest := 0, 0.0
	for i, p := range points {
		if at := r.From.Add(time.Duration(i) * r.Step); !p.IsMissing() {
			measured++
			highest = max(highest, p.Max)
			if at.Before(start.Add(-r.Step)) {
				t.Errorf("there is a value of %v", at)
			}
		}
	}
	if measured == 0 || !near(highest, 33) {
		t.Errorf("%d points have values, the highest %v", measured, highest)
	}
}

// Old times have coarse points only.
func TestStepFollowsAgeAndLength(t *testing.T) {
	for name, c := range map[string]struct {
		in   Range
		want time.Duration
	}{
		"an hour":                  {Range{From: noon.Add(-time.Hour), To: noon}, 10 * time.Second},
		"a day":                    {Range{From: noon.Add(-24 * time.Hour), To: noon}, 5 * time.Minute},
		"a week":                   {Range{From: noon.AddDate(0, 0, -7), To: noon}, 30 * time.Minute},
		"a year":                   {Range{From: noon.AddDate(-1, 0, 0), To: noon}, 24 * time.Hour},
		"an hour, three hours ago": {Range{From: noon.Add(-4 * time.Hour), To: noon.Add(-3 * time.Hour)}, time.Minute},
		"an hour of last week":     {Range{From: noon.AddDate(0, 0, -7), To: noon.AddDate(0, 0, -7).Add(time.Hour)}, 10 * time.Minute},
		"too fine a step":          {Range{From: noon.AddDate(-1, 0, 0), To: noon, Step: time.Second}, 6 * time.Hour},
		"a step of one second":     {Range{From: noon.Add(-time.Minute), To: noon, Step: time.Second}, 10 * time.Second},
	} {
		if got := c.in.fit(noon, DefaultRetention); got.Step != c.want || got.points() > maxPoints+1 {
			t.Errorf("%s: every %v (%d points), want %v", name, got.Step, got.points(), c.want)
		}
	}
}

// A host's values of other hosts' VMs are not stored, and an error loses samples only.
func TestWriterStoresOnlyObjectsOfTheHost(t *testing.T) {
	f := newFixture(t)
	w := NewWriter(f.store, slog.New(slog.DiscardHandler))
	sample := metric.Samples{Seconds: 10, VMs: metric.Table{IDs: []string{web}, Values: map[string][]fleet.MetricValue{"cpu.usage": {50}}}}
	w.Write(t.Context(), []HostSamples{{hostB, sample}})
	if n := f.count("metric_samples"); n != 0 {
		t.Fatalf("%d samples of another host's VM", n)
	}
	w.Write(t.Context(), []HostSamples{{hostA, sample}, {hostB, metric.Samples{Host: metric.Table{Values: map[string][]fleet.MetricValue{"load.1m": {2}}}}}})
	if n := f.count("metric_samples"); n != 2 {
		t.Fatalf("%d samples, want 2", n)
	}
	f.exec(`DELETE FROM metric_layouts`)
	f.exec(`ALTER TABLE metric_samples RENAME TO away`)
	w.Write(t.Context(), []HostSamples{{hostA, sample}})
	f.exec(`ALTER TABLE away RENAME TO metric_samples`)
	w.Write(t.Context(), []HostSamples{{hostA, sample}})
	if n := f.count("metric_samples s JOIN metric_layouts l ON l.id = s.layout_id WHERE s.host_id = '" + string(hostA) + "'"); n != 1 {
		t.Errorf("after an error, %d samples have a layout, want 1", n)
	}
	if _, points := f.read(Range{From: time.Now().Add(-time.Minute), To: time.Now()}, time.Now()); len(points) == 0 {
		t.Error("the sample is not read")
	}
}

func TestPartitionsAreCreatedAndDropped(t *testing.T) {
	f := newFixture(t)
	f.exec(`DROP TABLE metric_samples_rest`)
	count := func() int {
		return f.count("pg_inherits WHERE inhparent = 'metric_samples'::regclass")
	}
	n := count()
	keep := db.KeepMetricsParams{Samples: 2 * time.Hour, Hours: 48 * time.Hour, Days: 35 * 24 * time.Hour, Months: 730 * 24 * time.Hour}
	if err := f.q.KeepMetrics(t.Context(), keep); err != nil || count() != n || n < 4 {
		t.Fatalf("%d partitions became %d, %v", n, count(), err)
	}
	keep.Samples = -2 * time.Hour // as if two hours had passed
	if err := f.q.KeepMetrics(t.Context(), keep); err != nil || count() >= n {
		t.Errorf("%d partitions became %d, %v", n, count(), err)
	}
}
