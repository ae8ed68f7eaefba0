// Package transfer copies a file to a new file, on the same host or from another host. An unfinished copy leaves the
// source unchanged. A copy counts as complete only after its bytes were verified at the target.
package transfer

import (
	"context"
	"sync"
	"time"
)

// RateLimit limits the bytes per second of all goroutines that share it. The zero value does not limit.
type RateLimit struct {
	Bytes int64 // per second; 0: unlimited

	mu   sync.Mutex
	next time.Time // when the rate allows the next bytes
}

// maxBurst is how far a transfer may be ahead of its rate, because a sleep after each block would take longer than the
// block itself.
const maxBurst = 100 * time.Millisecond

// Wait waits until n more bytes are allowed, or returns ctx's cause.
func (r *RateLimit) Wait(ctx context.Context, n int) error {
	if r == nil || r.Bytes <= 0 {
		return context.Cause(ctx)
	}
	r.mu.Lock()
	now := time.Now()
	if r.next.Before(now) {
		r.next = now
	}
	r.next = r.next.Add(time.Duration(float64(n) / float64(r.Bytes) * float64(time.Second)))
	wait := r.next.Sub(now) - maxBurst
	r.mu.Unlock()
	if wait <= 0 {
		return context.Cause(ctx)
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Meter reports the progress of a transfer, at most twice a second. Report receives the bytes done and the rate in
// bytes per second.
type Meter struct {
	Total  int64
	Report func(done, total, rate int64) // nil: no reports

	mu         sync.Mutex
	done       int64
	began      time.Time
	reportedAt time.Time
	lastDone   int64 // done at the last report
	rate       int64
}

const progressPeriod = 500 * time.Millisecond

// Add adds n to the number of bytes done.
func (m *Meter) Add(n int64) {
	if m == nil || m.Report == nil {
		return
	}
	now := time.Now()
	m.mu.Lock()
	if m.began.IsZero() {
		m.began, m.reportedAt = now, now
	}
	m.done += n
	since := now.Sub(m.reportedAt)
	if since < progressPeriod {
		m.mu.Unlock()
		return
	}
	m.rate = int64(float64(m.done-m.lastDone) / since.Seconds())
	m.reportedAt, m.lastDone = now, m.done
	done, rate := m.done, m.rate
	m.mu.Unlock()
	m.Report(done, m.Total, rate)
}
