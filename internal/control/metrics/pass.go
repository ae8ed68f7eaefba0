package metrics

import (
	"context"
	"errors"
	"time"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
)

// Metrics has the use cases of metrics that are passes.
type Metrics struct {
	store  *store.Store
	kept   Retention
	damage *DamageLog
	newest *Newest
	sums   *summer
}

// New returns Metrics that use the store and keep points for a time.
func New(s *store.Store, kept Retention, damage *DamageLog, newest *Newest) *Metrics {
	return &Metrics{s, kept, damage, newest, &summer{}}
}

// rollUpLimit is how long one pass of RollUpMetrics works, so that it ends before the limit of passes.
const rollUpLimit = 15 * time.Second

// RollUpMetrics writes the points of passed hours, days and months, and then drops those whose age is over. It drops them
// also if the points cannot be written, for example because the disk is full.
func (m *Metrics) RollUpMetrics(ctx context.Context, a fleet.Actor) error {
	return errors.Join(m.rollUp(ctx, a), m.store.RunPass(ctx, a, "keep metrics", func(q *db.Queries) error {
		return q.KeepMetrics(ctx, db.KeepMetricsParams{Samples: m.kept.Samples, Hours: m.kept.Minutes, Days: m.kept.TenMinutes, Months: m.kept.TwoHours})
	}))
}

func (m *Metrics) rollUp(ctx context.Context, a fleet.Actor) error {
	began := time.Now()
	for more := true; more && time.Since(began) < rollUpLimit; {
		more = false
		err := m.store.RunPass(ctx, a, "roll up metrics", func(q *db.Queries) (err error) {
			more, err = RollUp(ctx, q, time.Now(), m.damage)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
