package metrics

import (
	"log/slog"
	"sync"
	"time"

	"quantix/internal/timeseries"
)

// DamageLog logs stored metrics that cannot be read, once an hour for each object. A nil DamageLog logs nothing. It is
// safe for concurrent use.
type DamageLog struct {
	log    *slog.Logger
	mu     sync.Mutex
	logged map[timeseries.Object]time.Time
}

// damagePeriod is the time between two log lines about one object.
const damagePeriod = time.Hour

// maxDamaged limits the objects whose log lines are remembered.
const maxDamaged = 10_000

// NewDamageLog returns a DamageLog.
func NewDamageLog(log *slog.Logger) *DamageLog {
	return &DamageLog{log: log, logged: map[timeseries.Object]time.Time{}}
}

// add logs that metrics of an object from a time are damaged.
func (d *DamageLog) add(o timeseries.Object, at time.Time, err error) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if last, known := d.logged[o]; known && now.Sub(last) < damagePeriod {
		return
	}
	if len(d.logged) >= maxDamaged {
		clear(d.logged)
	}
	d.logged[o] = now
	d.log.Error("Stored metrics cannot be read; charts have a gap.", "type", o.Type, "id", o.ID, "at", at.UTC(), "error", err)
}
