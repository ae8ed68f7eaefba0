package metrics

import (
	"context"
	"slices"
	"time"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/timeseries"
	"quantix/internal/usage"
)

const (
	predictFrom        = 30 * 24 * time.Hour // age of the oldest values that a prediction uses
	predictStep        = 2 * time.Hour
	predictionsPerPass = 100
)

// Metrics of pools that PredictPools reads.
var (
	poolUsed     = poolMetric("space.used")
	poolCapacity = poolMetric("space.capacity")
)

func poolMetric(name string) int {
	return fleet.PoolMetrics[slices.IndexFunc(fleet.PoolMetrics, func(m fleet.MetricInfo) bool { return m.Name == name })].Number
}

// PredictPools predicts when pools will be full. Each pool is predicted about once an hour. The values of the last up to
// two hours are not read, because no chunk holds them.
func (m *Metrics) PredictPools(ctx context.Context, a fleet.Actor) error {
	return m.store.RunPass(ctx, a, "predict pools", func(q *db.Queries) error {
		pools, err := q.PoolsToPredict(ctx, predictionsPerPass)
		if err != nil || len(pools) == 0 {
			return err
		}
		var p db.SetPoolPredictionsParams
		now := time.Now()
		end := now.Truncate(predictStep)
		for _, x := range pools {
			of := timeseries.Object{Type: fleet.TypePool, ID: x.PoolID}
			hosts := []string{string(x.HostID)}
			_, points, err := Read(ctx, q, of, hosts, Range{From: end.Add(-predictFrom), To: end, Step: predictStep, Hosts: hosts}, now, m.kept, m.damage)
			if err != nil {
				return err
			}
			var full time.Time
			after, growth, days := timeseries.PredictFull(points[""][poolUsed], predictStep, newestMean(points[""][poolCapacity]))
			if growth == usage.GrowsFull {
				full = end.Add(after)
			}
			p.PoolIds, p.HostIds, p.FullAt = append(p.PoolIds, x.PoolID), append(p.HostIds, string(x.HostID)), append(p.FullAt, full)
			p.Growths, p.Days = append(p.Growths, string(growth)), append(p.Days, int32(days)) //nolint:gosec // at most 30
		}
		return q.SetPoolPredictions(ctx, p)
	})
}

// newestMean returns the mean of the newest point with a value; 0: there is none.
func newestMean(points []timeseries.Point) float64 {
	for _, p := range slices.Backward(points) {
		if !p.IsMissing() {
			return p.Mean
		}
	}
	return 0
}
