// Package transfer brings a file from one place of a host to a new file in another. What was begun and not finished leaves the source as it
// was, and nothing counts as there before its bytes were read back from where they lie.
package transfer

import (
	"context"
	"sync"
	"time"
)

// Rate holds several goroutines together to some bytes a second. The zero value holds nobody.
type Rate struct {
	Bytes int64 // a second; 0: as fast as it goes

	mu   sync.Mutex
	next time.Time // when all that was taken so far is paid for
}

// burst is how far ahead of its rate a transfer may be: a pause for each block would cost more than the block.
const burst = 100 * time.Millisecond

// Take waits until n more bytes may go.
func (r *Rate) Take(ctx context.Context, n int) error {
	if r == nil || r.Bytes <= 0 {
		return context.Cause(ctx)
	}
	r.mu.Lock()
	now := time.Now()
	if r.next.Before(now) {
		r.next = now
	}
	r.next = r.next.Add(time.Duration(float64(n) / float64(r.Bytes) * float64(time.Second)))
	wait := r.next.Sub(now) - burst
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

// Meter tells how far a transfer is, at most twice a second.
type Meter struct {
	Total  int64
	Report func(done, total, rate int64) // nil: nobody wants to know

	mu    sync.Mutex
	done  int64
	began time.Time
	told  time.Time
	was   int64 // done when it was told last
	rate  int64
}

const tellPeriod = 500 * time.Millisecond

// Add counts n more bytes.
func (m *Meter) Add(n int64) {
	if m == nil || m.Report == nil {
		return
	}
	now := time.Now()
	m.mu.Lock()
	if m.began.IsZero() {
		m.began, m.told = now, now
	}
	m.done += n
	since := now.Sub(m.told)
	if since < tellPeriod {
		m.mu.Unlock()
		return
	}
	m.rate = int64(float64(m.done-m.was) / since.Seconds())
	m.told, m.was = now, m.done
	done, rate := m.done, m.rate
	m.mu.Unlock()
	m.Report(done, m.Total, rate)
}
