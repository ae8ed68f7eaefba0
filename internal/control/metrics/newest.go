package metrics

import (
	"context"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/timeseries"
)

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

// Newest returns the newest values of the metrics on online hosts. Values of offline hosts are unknown and left out.
func Newest(ctx context.Context, q *db.Queries, wanted []MetricKey) (map[MetricKey][]NewestValue, error) {
	out := make(map[MetricKey][]NewestValue, len(wanted))
	if len(wanted) == 0 {
		return out, nil
	}
	types := map[fleet.ResourceType]bool{}
	for _, k := range wanted {
		out[k], types[k.Type] = nil, true
	}
	rows, err := q.NewestMetricSamples(ctx)
	if err != nil {
		return nil, err
	}
	return out, decodeSamples(ctx, q, rows, func(o timeseries.Object) bool { return types[o.Type] }, nil, func(s sample) {
		for i, m := range s.metrics {
			if k := (MetricKey{s.Type, m}); i < len(s.values) && isWanted(out, k) && !fleet.MetricValue(s.values[i]).IsMissing() {
				out[k] = append(out[k], NewestValue{s.ID, s.host, s.values[i]})
			}
		}
	})
}

func isWanted(out map[MetricKey][]NewestValue, k MetricKey) bool {
	_, ok := out[k]
	return ok
}
