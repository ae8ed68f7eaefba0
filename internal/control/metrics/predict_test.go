package metrics

import (
	"math"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/timeseries"
)

func TestGrowingPoolIsPredictedFullOnceAnHour(t *testing.T) {
	f := newFixture(t)
	const pool, full = "0192a000-0000-7000-8000-0000000000aa", 1e12
	f.exec(`UPDATE host_sessions SET seen_at = now(), last_look = now()`)
	f.exec(`INSERT INTO host_sessions (host_id, seen_at, last_look) SELECT id, now(), now() FROM hosts ON CONFLICT DO NOTHING`)
	f.exec(`INSERT INTO pools (id, name, spec) VALUES ($1, 'data', '{"kind": "dir"}')`, pool)
	f.exec(`INSERT INTO assignments (noun, object_id, host_id, asked) VALUES ('pool', $1, $2, 'assign'), ('pool', $1, $3, 'assign')`, pool, hostA, hostB)
	end := time.Now().Truncate(predictStep)
	begin := tiers[1].begin(end.AddDate(0, 0, -10))
	// The first host's pool grows by 5 % a day and is 60 % used at the end; that of the second host does not grow.
	for start := begin; start.Before(end); start = tiers[1].end(start) {
		for _, host := range []fleet.HostID{hostA, hostB} {
			b := timeseries.NewBuckets(start, tiers[1].step, tiers[1].points(start))
			for at := start; at.Before(tiers[1].end(start)); at = at.Add(tiers[1].step) {
				used := 0.6
				if host == hostA {
					used -= 0.05 * end.Sub(at).Hours() / 24
				}
				b.AddValue(poolUsed, at.Add(tiers[1].step), tiers[1].step, used*full)
				b.AddValue(poolCapacity, at.Add(tiers[1].step), tiers[1].step, full)
			}
			chunk := timeseries.EncodeChunk(fleet.TypePool, tiers[1].points(start), b.Points())
			f.exec(`INSERT INTO metric_chunks (tier, type, object_id, start, host_id, chunk) VALUES (2, 'pool', $1, $2, $3, $4)`, pool, start, host, chunk)
		}
		f.exec(`INSERT INTO metric_periods (tier, start, complete) VALUES (2, $1, true)`, start)
	}
	predict := func() {
		t.Helper()
		if err := New(f.store, DefaultRetention, nil, &Newest{}).PredictPools(t.Context(), fleet.SystemActor); err != nil {
			t.Fatal(err)
		}
	}
	predict()
	var days float64
	if err := f.pool.QueryRow(t.Context(), `SELECT EXTRACT(EPOCH FROM full_at - $1) / 86400 FROM pool_predictions WHERE host_id = $2`, end, hostA).Scan(&days); err != nil || math.Abs(days-8) > 0.5 {
		t.Errorf("the pool is predicted to be full in %.2f days, want 8 (%v)", days, err)
	}
	if n := f.count(`pool_predictions WHERE host_id = '` + string(hostB) + `' AND full_at IS NULL`); n != 1 {
		t.Error("a pool that does not grow has a prediction, or was not looked at")
	}
	f.exec(`UPDATE pool_predictions SET full_at = NULL`)
	predict()
	if n := f.count(`pool_predictions WHERE full_at IS NOT NULL`); n != 0 {
		t.Error("a prediction is repeated within an hour")
	}
	f.exec(`UPDATE pool_predictions SET predicted_at = now() - interval '61 minutes'`)
	predict()
	if n := f.count(`pool_predictions WHERE full_at IS NOT NULL`); n != 1 {
		t.Error("a prediction is not repeated after an hour")
	}
}
