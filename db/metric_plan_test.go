//go:build ordeal

package db_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/testkit"
)

// With the metrics of 10,000 VMs in all partitions, each query of metrics reads only the partitions of its time, by index,
// also with a plan that is made for any arguments.
func TestMetricQueriesReadOnlyTheirPartitions(t *testing.T) {
	t.Parallel()
	pool := testkit.DB(t)
	mustRun(t, pool, `DO $$ DECLARE b timestamp; BEGIN
		FOR i IN 2..24 LOOP
			b := date_trunc('month', now() AT TIME ZONE 'UTC') - i * interval '1 month';
			EXECUTE format('CREATE TABLE %I PARTITION OF metric_chunks_months FOR VALUES FROM (%L) TO (%L)', 'metric_chunks_months_' || to_char(b, 'YYYYMMDD'), b AT TIME ZONE 'UTC', (b + interval '1 month') AT TIME ZONE 'UTC');
		END LOOP;
		FOR i IN 2..5 LOOP
			b := date_trunc('week', now() AT TIME ZONE 'UTC') - i * interval '1 week';
			EXECUTE format('CREATE TABLE %I PARTITION OF metric_chunks_days FOR VALUES FROM (%L) TO (%L)', 'metric_chunks_days_' || to_char(b, 'YYYYMMDD'), b AT TIME ZONE 'UTC', (b + interval '1 week') AT TIME ZONE 'UTC');
		END LOOP; END $$`)
	const chunks = `INSERT INTO metric_chunks (tier, type, object_id, start, host_id, chunk) SELECT %d, 'vm', 'vm-' || lpad(v::text, 5, '0'), start, 'host-' || v %% 250, '\x0203040506070809'
		FROM generate_series(%s, '1 %s') start, generate_series(1, 10000) v`
	mustRun(t, pool, fmt.Sprintf(chunks, 1, `date_trunc('hour', now(), 'UTC') - interval '20 hours', date_trunc('hour', now(), 'UTC')`, "hour"))
	mustRun(t, pool, fmt.Sprintf(chunks, 2, `date_trunc('day', now(), 'UTC') - interval '20 days', date_trunc('day', now(), 'UTC')`, "day"))
	mustRun(t, pool, fmt.Sprintf(chunks, 3, `date_trunc('month', now(), 'UTC') - interval '23 months', date_trunc('month', now(), 'UTC')`, "month"))
	mustRun(t, pool, `INSERT INTO metric_samples (host_id, at, seconds, layout_id, sample) SELECT 'host-' || h, now() - n * interval '10 seconds', 10, h, decode(repeat('01', 600), 'hex') FROM generate_series(0, 249) h, generate_series(1, 359) n`)
	mustRun(t, pool, `INSERT INTO metric_periods (tier, start, complete) SELECT 1, date_trunc('hour', now(), 'UTC') - n * interval '1 hour', true FROM generate_series(1, 110) n`)
	mustRun(t, pool, `VACUUM ANALYZE metric_samples, metric_chunks, metric_periods`)

	now := time.Now()
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		run        func(*db.Queries)
		partitions int // read at most
		blocks     int
	}{
		"a year of a VM": {func(q *db.Queries) {
			_, _ = q.MetricChunksOf(t.Context(), db.MetricChunksOfParams{Tier: 3, Type: "vm", ObjectID: "vm-00042", FromTime: now.Add(-365 * day), ToTime: now})
		}, 13, 13 * 6},
		"a week of a VM": {func(q *db.Queries) {
			_, _ = q.MetricChunksOf(t.Context(), db.MetricChunksOfParams{Tier: 2, Type: "vm", ObjectID: "vm-00042", FromTime: now.Add(-7 * day), ToTime: now})
		}, 2, 40},
		"a day of a VM": {func(q *db.Queries) {
			_, _ = q.MetricChunksOf(t.Context(), db.MetricChunksOfParams{Tier: 1, Type: "vm", ObjectID: "vm-00042", FromTime: now.Add(-day), ToTime: now})
		}, 2, 80},
		"an hour of a host": {func(q *db.Queries) {
			_, _ = q.MetricSamples(t.Context(), db.MetricSamplesParams{HostIds: []string{"host-7"}, FromTime: now.Add(-time.Hour), ToTime: now})
		}, 2, 450},
		"the next host of a roll-up": {func(q *db.Queries) {
			_, _ = q.NextMetricHost(t.Context(), db.NextMetricHostParams{After: "host-100", FromTime: now.Add(-time.Hour), ToTime: now})
		}, 2, 60},
		"the periods": {func(q *db.Queries) {
			_, _ = q.MetricPeriods(t.Context(), db.MetricPeriodsParams{Tier: 1, FromTime: now.Add(-2 * day)})
		}, 1, 10},
	} {
		var recorder statementRecorder
		c.run(db.New(&recorder))
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		known, err := conn.Conn().Prepare(t.Context(), name, recorder.sql)
		if err != nil {
			t.Fatal(err)
		}
		call := callSQL(name, literalsOf(t, name, known.ParamOIDs, recorder.args))
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			if _, err := conn.Exec(t.Context(), `SET plan_cache_mode = `+mode); err != nil {
				t.Fatal(err)
			}
			var text string
			if err := conn.QueryRow(t.Context(), `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE `+call, pgx.QueryExecModeSimpleProtocol).Scan(&text); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			var roots []struct{ Plan planNode }
			if err := json.Unmarshal([]byte(text), &roots); err != nil {
				t.Fatal(err)
			}
			read := map[string]bool{}
			scans := roots[0].Plan.scans(read)
			if blocks := roots[0].Plan.Hit + roots[0].Plan.Read; len(read) > c.partitions || blocks > c.blocks || len(scans) > 0 {
				t.Errorf("%s, %s: %d blocks (at most %d) of %d tables (at most %d), scanned as a whole: %v\n%s", name, mode, blocks, c.blocks, len(read), c.partitions, scans, text)
			}
		}
		conn.Release()
	}
}

// planNode is a node of an executed plan.
type planNode struct {
	Type     string     `json:"Node Type"`
	Relation string     `json:"Relation Name"`
	Loops    int        `json:"Actual Loops"`
	Hit      int        `json:"Shared Hit Blocks"`
	Read     int        `json:"Shared Read Blocks"`
	Plans    []planNode `json:"Plans"`
}

// scans adds the tables that were read, and returns those that were scanned as a whole. Empty tables are not counted.
func (n planNode) scans(read map[string]bool) (whole []string) {
	if n.Relation != "" && n.Loops > 0 && n.Hit+n.Read > 0 {
		read[n.Relation] = true
		if strings.Contains(n.Type, "Seq Scan") && n.Hit+n.Read > 1 {
			whole = append(whole, n.Relation)
		}
	}
	for _, p := range n.Plans {
		whole = append(whole, p.scans(read)...)
	}
	return whole
}
