package metrics

import (
	"context"
	"time"

	"quantix/db"
	"quantix/internal/timeseries"
	"quantix/internal/usage"
)

// ReadRecent calls visit for the wanted objects on some hosts with the newest sample of each slot of the last hour, from 0
// to usage.RecentSlots-1. onlyHosts reads only the values of the hosts themselves. The slices are valid until visit returns.
func ReadRecent(ctx context.Context, q *db.Queries, hosts []string, onlyHosts bool, now time.Time, want func(timeseries.Object) bool, visit func(slot int, o timeseries.Object, metrics []int, values []float64)) error {
	first := now.Add(time.Second).Truncate(time.Second).Add(-usage.RecentSlots * usage.RecentSlot)
	p := db.RecentSamplesParams{HostIds: hosts, Length: usage.RecentSlot, MostBytes: 1 << 30}
	if onlyHosts {
		p.MostBytes = timeseries.MaxHostBytes
	}
	for i := range usage.RecentSlots {
		p.Starts = append(p.Starts, first.Add(time.Duration(i)*usage.RecentSlot))
	}
	rows, err := q.RecentSamples(ctx, p)
	if err != nil || len(rows) == 0 {
		return err
	}
	layouts, ids := map[int64]timeseries.Layout{}, []int64{}
	for _, r := range rows {
		if _, listed := layouts[r.LayoutID]; !listed {
			layouts[r.LayoutID], ids = timeseries.Layout{}, append(ids, r.LayoutID)
		}
	}
	texts, err := q.MetricLayouts(ctx, ids)
	for _, t := range texts {
		l, err := timeseries.ReadLayout([]byte(t.Layout))
		switch {
		case err != nil: // a gap
		case onlyHosts:
			layouts[t.ID] = l.OfHost()
		default:
			layouts[t.ID] = l
		}
	}
	for _, r := range rows {
		slot := int((r.Begins.Sub(first) + usage.RecentSlot/2) / usage.RecentSlot)
		_ = layouts[r.LayoutID].Read(r.Sample, want, func(o timeseries.Object, metrics []int, values []float64) { visit(slot, o, metrics, values) })
	}
	return err
}
