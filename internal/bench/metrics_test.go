package bench

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/metrics"
	"quantix/internal/fleet"
	"quantix/internal/load"
	"quantix/internal/testkit/goals"
	"quantix/internal/timeseries"
)

const (
	sampledHosts = 250
	sampledVMs   = 10_000
	chartTimes   = 200
)

// BenchmarkMetrics measures what the metrics of 10,000 VMs on 250 hosts cost: the processor time of the portal's process
// and of PostgreSQL, their size on the disk, and the time of a chart. BENCH_FOR sets the duration of each of the two
// runs with and without metrics; the default is 40 s.
func BenchmarkMetrics(b *testing.B) {
	lasting, err := time.ParseDuration(cmp.Or(os.Getenv("BENCH_FOR"), "40s"))
	if err != nil {
		b.Fatal(err)
	}
	for range b.N {
		stored := measureStoredMetrics(b)
		r := newRigOn(b, newFilledDatabase(b, sampledHosts, sampledVMs, `INSERT INTO users (id, name, role, password_hash) VALUES ('u1', 'admin', 'admin', '')`))
		r.exec(b, `UPDATE vms SET spec = spec || '{"power": "running"}', status = status || '{"power": "running"}'`)
		r.exec(b, `VACUUM ANALYZE vms`)
		r.exec(b, `UPDATE host_sessions SET seen_at = now() - interval '1 day'`)
		p := startPortal(b, r)
		measureYearChart(b, r, p)
		measureMetricsCost(b, r, p, lasting, stored)
	}
}

// measureMetricsCost runs the fleet without and with metrics. The difference of the processor times, with that of the
// roll-up, is the cost of metrics.
func measureMetricsCost(b *testing.B, r *rig, p *portal, lasting time.Duration, stored storedMetrics) {
	certs := newHostCerts(b, r.control)
	joined, trusted := make([]load.Host, sampledHosts), certs.authority.Pool()
	for i := range joined {
		joined[i] = load.Host{ID: fleet.HostID(seedID(i + 1)), Name: fmt.Sprintf("host-%05d", i+1), CA: trusted}
		joined[i].Certificate = certs.certificateOf(b, joined[i].ID)
	}
	run := func(without bool) load.Figures {
		f, err := load.Run(b.Context(), load.Options{
			Portal: p.url, Token: p.token(), Agents: p.agents, Joined: joined, WithoutSamples: without, For: lasting, Report: lasting,
			Portals: load.SingleProcess(p.pid), Postgres: postgresProcesses(), Out: logWriter{b},
		})
		if err != nil || f.Errors > 0 || f.VMs != sampledVMs {
			b.Fatalf("%d VMs, %d errors: %v, %v", f.VMs, f.Errors, f.Faults, err)
		}
		return f
	}
	without := run(true)
	with := run(false)
	var rows int
	if err := r.pool.QueryRow(b.Context(), `SELECT count(*) FROM metric_samples`).Scan(&rows); err != nil || rows < sampledHosts*int(lasting/wireInterval)*9/10 {
		b.Fatalf("%d rows of samples were stored, %v", rows, err)
	}
	before, after := without.Portal.Cores+without.Postgres.Cores, with.Portal.Cores+with.Postgres.Cores
	total := after - before + stored.cores
	goals.MetricsCost.Record(b, total <= 0.3, fmt.Sprintf("%.2f core: samples %.2f (portal %.2f → %.2f, PostgreSQL %.2f → %.2f), roll-up %.3f",
		total, after-before, without.Portal.Cores, with.Portal.Cores, without.Postgres.Cores, with.Postgres.Cores, stored.cores),
		fmt.Sprintf("the same fleet without metrics %.2f core", before), after/before)
}

const wireInterval = fleet.DefaultReportInterval * time.Second

// storedMetrics is what the product's own code wrote for one host in a month.
type storedMetrics struct {
	cores float64 // processor time of the roll-up, for all hosts
}

// simulatedMonth is the month of measureStoredMetrics.
var simulatedMonth = time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)

// measureStoredMetrics stores four weeks of a host with 40 VMs and three pools, a sample every 10 s, and rolls them up. It
// extrapolates the bytes of each table, with its indexes and TOAST, by the hosts and by the time that rows are kept.
func measureStoredMetrics(b *testing.B) (out storedMetrics) {
	r := newRigOn(b, newFilledDatabase(b, 1, sampledVMs/sampledHosts))
	for _, table := range []string{"metric_samples", "metric_chunks_hours", "metric_chunks_days", "metric_chunks_months"} {
		r.exec(b, `CREATE TABLE `+table+`_old PARTITION OF `+table+` DEFAULT`)
	}
	vms, pools := make([]load.SampledVM, sampledVMs/sampledHosts), []string{seedID(2001), seedID(2002), seedID(2003)}
	for i := range vms {
		vms[i] = load.SampledVM{ID: seedID(1_000_001 + i), MemoryBytes: 4 << 30}
	}
	q, sampler := db.New(r.pool), load.NewSampler("host")
	size := func(table string) (n float64) {
		b.Helper()
		r.exec(b, `VACUUM ANALYZE `+table)
		if err := r.pool.QueryRow(b.Context(), `SELECT pg_total_relation_size($1::regclass)::float`, table).Scan(&n); err != nil {
			b.Fatal(err)
		}
		return n
	}
	processes := [2]load.Processes{load.SingleProcess(os.Getpid()), postgresProcesses()}
	end := simulatedMonth.AddDate(0, 1, 0)
	days := end.Sub(simulatedMonth).Hours() / 24
	var samples float64
	var used time.Duration
	for day := simulatedMonth; day.Before(end); day = day.AddDate(0, 0, 1) {
		addSamples(b, r, q, sampler, day, vms, pools)
		if day.Equal(simulatedMonth) {
			samples = size("metric_samples_old")
		}
		began := processes[0].CPU() + processes[1].CPU()
		for now, more := day.AddDate(0, 0, 1).Add(10*time.Minute), true; more; {
			var err error
			if more, err = metrics.RollUp(b.Context(), q, now, nil); err != nil {
				b.Fatal(err)
			}
		}
		if !day.Equal(simulatedMonth) && !day.AddDate(0, 0, 1).Equal(end) { // of the first and the last day, other months and copies are rolled up
			used += processes[0].CPU() + processes[1].CPU() - began
		}
		r.exec(b, `DELETE FROM metric_samples`)
		if day.AddDate(0, 0, 2).Equal(end) { // nine more hosts, so that the month's table has enough pages to count
			r.exec(b, `INSERT INTO metric_chunks SELECT tier, type, object_id || '-' || i, start, host_id || '-' || i, chunk FROM metric_chunks, generate_series(1, 9) i WHERE tier = 2`)
		}
	}
	const year = 365.0
	tiers := []struct {
		name        string
		perDay      float64 // bytes of one host
		hosts, kept float64
	}{
		{"10 s", samples, 1, 2. / 24},
		{"1 min", size("metric_chunks_hours_old") / days, 1, 2},
		{"10 min", size("metric_chunks_days_old") / days, 1 + 9*(days-1)/days, 35},
		{"2 h", size("metric_chunks_months_old") / days, 10, year},
	}
	total, text := 0.0, new(strings.Builder)
	for _, t := range tiers {
		daily := t.perDay / t.hosts * sampledHosts
		total += daily * t.kept
		fmt.Fprintf(text, "; %s: %.0f MB a day, %.2f GB kept", t.name, daily/1e6, daily*t.kept/1e9)
	}
	out.cores = used.Seconds() / ((days - 2) * 86400) * sampledHosts
	raw := float64(sampledVMs) * 8640 * year * float64(len(fleet.VMMetrics)) * 8
	goals.MetricsSize.Record(b, total <= 2e9, fmt.Sprintf("%.2f GB", total/1e9)+text.String(), fmt.Sprintf("8 bytes a value %.0f GB", raw/1e9), total/raw)
	return out
}

// addSamples stores the samples of a day through the product's encoder.
func addSamples(b *testing.B, r *rig, q *db.Queries, s *load.Sampler, day time.Time, vms []load.SampledVM, pools []string) {
	b.Helper()
	host, layout := fleet.HostID(seedID(1)), int64(0)
	var rows [][]any
	for at := day.Add(wireInterval); !at.After(day.AddDate(0, 0, 1)); at = at.Add(wireInterval) {
		l, row := timeseries.NewRow(host, s.Samples(at, wireInterval.Seconds(), vms, pools), func(timeseries.Object) bool { return true })
		if layout == 0 {
			text, hash, err := l.Text()
			if err == nil {
				layout, err = q.UseMetricLayout(b.Context(), db.UseMetricLayoutParams{HostID: host, Hash: hash[:], Layout: string(text)})
			}
			if err != nil {
				b.Fatal(err)
			}
		}
		rows = append(rows, []any{host, at, float32(wireInterval.Seconds()), layout, row})
	}
	if _, err := r.pool.CopyFrom(b.Context(), pgx.Identifier{"metric_samples"}, []string{"host_id", "at", "seconds", "layout_id", "sample"}, pgx.CopyFromRows(rows)); err != nil {
		b.Fatal(err)
	}
}

// measureYearChart measures the data of a VM's chart of a year: 13 months, 35 days, two days of hours and the samples of an
// hour are read, decoded and sent. A hundred other VMs have stored as much.
func measureYearChart(b *testing.B, r *rig, p *portal) {
	now := time.Now().UTC()
	r.exec(b, `DO $$ DECLARE m timestamp; BEGIN
		FOR i IN 2..13 LOOP
			m := date_trunc('month', now() AT TIME ZONE 'UTC') - i * interval '1 month';
			EXECUTE format('CREATE TABLE IF NOT EXISTS %I PARTITION OF metric_chunks_months FOR VALUES FROM (%L) TO (%L)', 'metric_chunks_months_' || to_char(m, 'YYYYMMDD_HH24'), m AT TIME ZONE 'UTC', (m + interval '1 month') AT TIME ZONE 'UTC');
		END LOOP;
		FOR i IN 2..6 LOOP
			m := date_trunc('week', now() AT TIME ZONE 'UTC') - i * interval '1 week';
			EXECUTE format('CREATE TABLE IF NOT EXISTS %I PARTITION OF metric_chunks_days FOR VALUES FROM (%L) TO (%L)', 'metric_chunks_days_' || to_char(m, 'YYYYMMDD_HH24'), m AT TIME ZONE 'UTC', (m + interval '1 week') AT TIME ZONE 'UTC');
		END LOOP; END $$`)
	month := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	day, hour := now.Truncate(24*time.Hour), now.Truncate(time.Hour)
	vm, sampler := load.SampledVM{ID: seedID(1_000_042), MemoryBytes: 4 << 30}, load.NewSampler("host")
	store := func(tier int, start, end time.Time, step time.Duration) {
		points := map[int][]timeseries.Point{}
		for at := start; at.Before(end); at = at.Add(step) {
			values := sampler.Samples(at, step.Seconds(), []load.SampledVM{vm}, nil).VMs.Values
			for _, m := range fleet.VMMetrics {
				v := float64(values[m.Name][0])
				points[m.Number] = append(points[m.Number], timeseries.Point{Mean: v, Min: v * 0.8, Max: v * 1.3})
			}
		}
		chunk := timeseries.EncodeChunk(fleet.TypeVM, int(end.Sub(start)/step), points)
		r.exec(b, `INSERT INTO metric_chunks SELECT $1, 'vm', id, $2, host_id, $3 FROM vms WHERE id = ANY ($4)`, tier, start, chunk, chartVMs())
		r.exec(b, `INSERT INTO metric_periods (tier, start, complete) VALUES ($1, $2, true) ON CONFLICT (tier, start) DO UPDATE SET complete = true`, tier, start)
	}
	for i := range 13 {
		store(3, month.AddDate(0, -1-i, 0), month.AddDate(0, -i, 0), 2*time.Hour)
	}
	for start := day.AddDate(0, 0, -1); !start.Before(day.AddDate(0, 0, -35)); start = start.AddDate(0, 0, -1) {
		store(2, start, start.AddDate(0, 0, 1), 10*time.Minute)
	}
	for start := hour.Add(-time.Hour); !start.Before(day.Add(-time.Hour)); start = start.Add(-time.Hour) {
		store(1, start, start.Add(time.Hour), time.Minute)
	}
	r.exec(b, "VACUUM ANALYZE metric_chunks")
	v := visitor{p.signedIn(), p.url}
	var took durations
	points := 0
	for range chartTimes {
		t, body, _ := v.requestPage(b, "/vms/"+seedID(1_000_042)+"/metrics?range=1y", "")
		took = append(took, t)
		if points == 0 {
			points = chartPoints(b, decompressed(b, body))
		}
	}
	if points < 300*len(fleet.VMMetrics) {
		b.Fatalf("the chart has %d points", points)
	}
	v.compare(b, goals.YearChart, took.percentile(0.99) <= 80*time.Millisecond, fmt.Sprintf("%s, %d points", took, points), took)
}

// chartVMs returns the IDs of the VMs with a year of points.
func chartVMs() (ids []string) {
	for i := range 100 {
		ids = append(ids, seedID(1_000_001+i))
	}
	return ids
}

// chartPoints returns the number of points with a value.
func chartPoints(b *testing.B, text string) (n int) {
	b.Helper()
	var chart struct {
		Series []struct{ Points [][]*float64 }
	}
	if err := json.NewDecoder(bytes.NewReader([]byte(text))).Decode(&chart); err != nil {
		b.Fatalf("%v: %.200s", err, text)
	}
	for _, s := range chart.Series {
		for _, p := range s.Points {
			if len(p) > 1 && p[1] != nil {
				n++
			}
		}
	}
	return n
}
