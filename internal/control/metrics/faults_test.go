package metrics

import (
	"bytes"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/metric"
)

// If a portal dies in the middle of a roll-up, another one continues: no chunk is missing, and none exists twice.
func TestRollUpContinuesAfterPortalDied(t *testing.T) {
	f := newFixture(t)
	from := noon.Add(-3 * time.Hour)
	cpu := func(at time.Time) float64 { return 10 + float64(at.Minute()) }
	f.addSamples(hostA, from, noon, cpu)
	f.addSamples(hostB, from, noon, cpu)
	now := noon.Add(2 * time.Minute)
	for range 60 {
		tx, err := f.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		more, err := RollUp(t.Context(), f.q.WithTx(tx), now, f.damage)
		if err != nil {
			t.Fatal(err)
		}
		f.exec(`SELECT pg_terminate_backend($1)`, tx.Conn().PgConn().PID())
		if err := tx.Commit(t.Context()); err == nil {
			t.Fatal("the transaction of the dead portal was committed")
		}
		if !more {
			break
		}
		if more, err = RollUp(t.Context(), f.q, now, f.damage); err != nil || !more {
			t.Fatalf("no step is left of the dead portal's: %v", err)
		}
	}
	f.rollUp(now)
	if n := f.count("metric_chunks"); n != 3*4 { // three hours of two hosts and of the VM on both
		t.Errorf("%d chunks, want 12", n)
	}
	f.exec(`DELETE FROM metric_samples`)
	r, points := f.read(Range{From: from, To: noon, Step: time.Minute}, noon)
	for i, p := range points {
		if want := cpu(r.From.Add(time.Duration(i) * r.Step)); !near(p.Mean, want) {
			t.Fatalf("point %d is %v, want %v", i, p, want)
		}
	}
}

func (f *fixture) writer() (*Writer, *bytes.Buffer) {
	var logged bytes.Buffer
	return NewWriter(f.store, slog.New(slog.NewTextHandler(&logged, nil))), &logged
}

// vmSamples is a sample of the VM.
func vmSamples(cpu fleet.MetricValue) metric.Samples {
	return metric.Samples{Seconds: 10, VMs: metric.Table{IDs: []string{web}, Values: map[string][]fleet.MetricValue{"cpu.usage": {cpu}}}}
}

// A missing partition costs samples until the next pass, which creates it, and a line in the log.
func TestMissingPartitionIsCreatedByNextPass(t *testing.T) {
	f := newFixture(t)
	w, logged := f.writer()
	f.exec(`DO $$ DECLARE part text; BEGIN
		FOR part IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent IN ('metric_samples'::regclass, 'metric_chunks_hours'::regclass) LOOP EXECUTE 'DROP TABLE ' || part; END LOOP; END $$`)
	for range 3 {
		w.Write(t.Context(), []HostSamples{{hostA, vmSamples(50)}})
	}
	if n := strings.Count(logged.String(), "Metrics were not stored"); n != 1 {
		t.Errorf("%d lines are logged, want 1:\n%s", n, logged)
	}
	if err := New(f.store, DefaultRetention, f.damage, &Newest{}).RollUpMetrics(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	w.Write(t.Context(), []HostSamples{{hostA, vmSamples(50)}})
	if n := f.count("metric_samples"); n != 1 {
		t.Errorf("%d samples, want 1", n)
	}
}

// On a full disk, metrics pause and old ones are dropped, so that the rest of the disk is for everything else.
func TestFullDiskPausesMetrics(t *testing.T) {
	f := newFixture(t)
	w, logged := f.writer()
	f.exec(`CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$`)
	f.exec(`CREATE FUNCTION no_room_for_tables() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
		RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$`)
	f.exec(`CREATE TABLE metric_samples_old (LIKE metric_samples INCLUDING ALL)`)
	f.exec(`DROP TABLE metric_samples_rest`)
	f.exec(`ALTER TABLE metric_samples ATTACH PARTITION metric_samples_old FOR VALUES FROM ('2026-01-01') TO ('2026-01-02')`)
	f.exec(`DROP TABLE ` + f.text(`SELECT max(inhrelid::regclass::text) FROM pg_inherits WHERE inhparent = 'metric_chunks_days'::regclass AND inhrelid::regclass::text NOT LIKE '%rest'`))
	f.exec(`CREATE TRIGGER no_room BEFORE INSERT ON metric_samples FOR EACH ROW EXECUTE FUNCTION no_room()`)
	f.exec(`CREATE EVENT TRIGGER no_room_for_tables ON ddl_command_start WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION no_room_for_tables()`)
	f.exec(`CREATE TRIGGER no_room BEFORE INSERT ON metric_chunks FOR EACH ROW EXECUTE FUNCTION no_room()`)
	w.Write(t.Context(), []HostSamples{{hostA, vmSamples(50)}})
	if !strings.Contains(logged.String(), "No space left") {
		t.Errorf("logged: %s", logged)
	}
	f.exec(`DROP TRIGGER no_room ON metric_samples`)
	w.Write(t.Context(), []HostSamples{{hostA, vmSamples(50)}})
	if n := f.count("metric_samples"); n != 0 {
		t.Errorf("%d samples were stored just after the disk was full", n)
	}
	f.addSamples(hostA, time.Now().Truncate(time.Hour).Add(-time.Hour), time.Now().Truncate(time.Hour), func(time.Time) float64 { return 10 })
	// The roll-up of that hour fails, unless the hour has just ended.
	if err := New(f.store, DefaultRetention, f.damage, &Newest{}).RollUpMetrics(t.Context(), fleet.SystemActor); err != nil && !strings.Contains(err.Error(), "No space left") {
		t.Error(err)
	}
	f.exec(`DELETE FROM metric_samples`)
	if n := f.count("pg_class WHERE relname = 'metric_samples_old'"); n != 0 {
		t.Error("the full disk keeps the samples of January")
	}
	w.full = time.Now().Add(-fullDiskPause)
	w.Write(t.Context(), []HostSamples{{hostA, vmSamples(50)}})
	if n := f.count("metric_samples"); n != 1 {
		t.Errorf("%d samples after the pause, want 1", n)
	}
}

func (f *fixture) text(sql string, args ...any) (s string) {
	f.t.Helper()
	if err := f.pool.QueryRow(f.t.Context(), sql, args...).Scan(&s); err != nil {
		f.t.Fatal(err)
	}
	return s
}

// Refused samples are recorded for the host's charts, and logged once. The other hosts' samples are stored.
func TestRefusedSamplesAreRecorded(t *testing.T) {
	f := newFixture(t)
	w, logged := f.writer()
	for range 3 {
		w.Write(t.Context(), []HostSamples{{hostB, metric.Samples{Refused: "too many"}}, {hostA, vmSamples(50)}})
	}
	if n := strings.Count(logged.String(), "were refused"); n != 1 {
		t.Errorf("%d lines are logged, want 1:\n%s", n, logged)
	}
	for host, want := range map[fleet.HostID]string{hostB: "too many", hostA: ""} {
		if got, err := f.q.MetricRefusal(t.Context(), host); got != want || err != nil {
			t.Errorf("%s: %q, %v", host, got, err)
		}
	}
	if n := f.count("metric_samples"); n != 3 {
		t.Errorf("%d samples of the other host, want 3", n)
	}
	f.exec(`UPDATE metric_refusals SET at = now() - interval '2 hours'`)
	if got, err := f.q.MetricRefusal(t.Context(), hostB); got != "" || err != nil {
		t.Errorf("after two hours: %q, %v", got, err)
	}
}

// A host's clock that jumps by a day changes neither the time nor the weight of its samples much, and values that are no
// numbers are gaps.
func TestWrongClockAndWrongValuesStayBounded(t *testing.T) {
	f := newFixture(t)
	w, _ := f.writer()
	for _, seconds := range []float64{86400, -86400, 0, math.Inf(1), math.NaN(), 10} {
		s := vmSamples(50)
		s.Seconds = seconds
		w.Write(t.Context(), []HostSamples{{hostA, s}})
	}
	if n := f.count("metric_samples WHERE at BETWEEN now() - interval '1 minute' AND now() AND seconds BETWEEN 1 AND 120"); n != 6 {
		t.Errorf("%d samples are of now and have a bounded weight, want 6", n)
	}
	f.exec(`DELETE FROM metric_samples`)
	for _, v := range []fleet.MetricValue{fleet.MetricValue(math.NaN()), fleet.MetricValue(math.Inf(1)), fleet.MetricValue(math.Inf(-1))} {
		w.Write(t.Context(), []HostSamples{{hostA, vmSamples(v)}})
	}
	now := time.Now().Add(time.Second)
	if _, points := f.read(Range{From: now.Add(-time.Minute), To: now}, now); len(points) != 0 {
		t.Errorf("values that are no numbers are shown as %v", points)
	}
}

// Damaged rows and chunks are gaps that the log names, once for each object.
func TestDamagedMetricsAreLoggedOnce(t *testing.T) {
	f := newFixture(t)
	from := noon.Add(-2 * time.Hour)
	f.addSamples(hostA, from, noon, func(time.Time) float64 { return 10 })
	f.exec(`UPDATE metric_samples SET sample = sample || '\x01' WHERE at = $1`, noon.Add(-30*time.Minute))
	f.rollUp(noon.Add(2 * time.Minute))
	if n := strings.Count(f.logged.String(), "cannot be read"); n != 1 || !strings.Contains(f.logged.String(), string(hostA)) {
		t.Errorf("%d lines of a damaged row:\n%s", n, &f.logged)
	}
	f.exec(`DELETE FROM metric_samples`)
	f.exec(`UPDATE metric_chunks SET chunk = set_byte(chunk, length(chunk) / 2, get_byte(chunk, length(chunk) / 2) # 1) WHERE type = 'vm' AND start = $1`, from)
	for range 2 {
		_, points := f.read(Range{From: from, To: noon, Step: time.Minute}, noon)
		if !points[5].IsMissing() || !near(points[65].Mean, 10) {
			t.Errorf("the damaged hour has %v, the other one %v", points[5], points[65])
		}
	}
	if n := strings.Count(f.logged.String(), "type="+string(fleet.TypeVM)+" id="+web); n != 1 {
		t.Errorf("%d lines of a damaged chunk:\n%s", n, &f.logged)
	}
}
