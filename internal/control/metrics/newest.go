package metrics

import (
	"context"
	"time"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/timeseries"
)

// newestAge is the age up to which a sample is the newest value of its objects: two reports of the slowest hosts.
const newestAge = maxSampleSeconds * time.Second

// Newest reads the newest samples of hosts. It is safe for concurrent use.
type Newest struct{ layouts layoutCache }

// Read calls visit for each object in the newest sample of each online host. The slices are valid until visit returns.
func (n *Newest) Read(ctx context.Context, q *db.Queries, now time.Time, visit func(host fleet.HostID, o timeseries.Object, metrics []int, values []float64)) error {
	rows, err := q.NewestMetricSamples(ctx, now.Add(-newestAge))
	if err != nil {
		return err
	}
	layouts, err := n.layouts.read(ctx, q, func(yield func(int64) bool) {
		for _, r := range rows {
			if !yield(r.LayoutID) {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	for _, r := range rows { // a damaged layout is a gap, like a damaged row
		_ = layouts[r.LayoutID].Read(r.Sample, func(timeseries.Object) bool { return true }, func(o timeseries.Object, metrics []int, values []float64) {
			visit(r.HostID, o, metrics, values)
		})
	}
	return nil
}

// NewestValue is a newest value of a metric, as one host measured it.
type NewestValue struct {
	ID    string // of the VM, host or pool
	Host  fleet.HostID
	Value float64
}

// MetricKey names a metric of a resource type.
type MetricKey struct {
	Type   fleet.ResourceType
	Number int // fleet.MetricInfo.Number
}

// Values returns the newest values of the metrics on online hosts. Values of offline hosts are unknown and left out.
func (n *Newest) Values(ctx context.Context, q *db.Queries, wanted []MetricKey) (map[MetricKey][]NewestValue, error) {
	out := make(map[MetricKey][]NewestValue, len(wanted))
	if len(wanted) == 0 {
		return out, nil
	}
	for _, k := range wanted {
		out[k] = nil
	}
	return out, n.Read(ctx, q, time.Now(), func(host fleet.HostID, o timeseries.Object, metrics []int, values []float64) {
		for i, m := range metrics {
			k := MetricKey{o.Type, m}
			if all, ok := out[k]; ok && !fleet.MetricValue(values[i]).IsMissing() {
				out[k] = append(all, NewestValue{o.ID, host, values[i]})
			}
		}
	})
}
