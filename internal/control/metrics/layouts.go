package metrics

import (
	"context"
	"maps"
	"sync"
	"time"

	"quantix/db"
	"quantix/internal/timeseries"
)

// layoutCacheAge is how long the cache keeps a layout that no sample used.
const layoutCacheAge = 10 * time.Minute

// layoutCache remembers the layouts of the newest samples by ID. A stored layout never changes, and a host keeps its
// layout for hours, so that most passes read none. It is safe for concurrent use.
type layoutCache struct {
	mu   sync.Mutex
	byID map[int64]cachedLayout
}

type cachedLayout struct {
	timeseries.Layout
	used time.Time
}

// read returns the layouts with the IDs. A damaged layout is missing.
func (c *layoutCache) read(ctx context.Context, q *db.Queries, ids func(yield func(int64) bool)) (map[int64]timeseries.Layout, error) {
	now := time.Now()
	found, unknown := c.find(ids, now)
	if len(unknown) == 0 {
		return found, nil
	}
	rows, err := q.MetricLayouts(ctx, unknown)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.byID, func(_ int64, l cachedLayout) bool { return now.Sub(l.used) > layoutCacheAge })
	for _, r := range rows {
		if l, err := timeseries.ReadLayout([]byte(r.Layout)); err == nil {
			found[r.ID], c.byID[r.ID] = l, cachedLayout{l, now}
		}
	}
	return found, nil
}

// find returns the known layouts, and the IDs of the others.
func (c *layoutCache) find(ids func(yield func(int64) bool), now time.Time) (found map[int64]timeseries.Layout, unknown []int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byID == nil {
		c.byID = map[int64]cachedLayout{}
	}
	found = make(map[int64]timeseries.Layout, len(c.byID))
	for id := range ids {
		l, known := c.byID[id]
		if !known {
			unknown = append(unknown, id)
			continue
		}
		found[id], c.byID[id] = l.Layout, cachedLayout{l.Layout, now}
	}
	return found, unknown
}
