package agent

import (
	"time"

	"quantix/internal/fleet"
)

// RetryWaits are the first waits between tries at a portal that is away, as long as the usual agent's.
func RetryWaits(n int) (waits []time.Duration) {
	wait := newBackoff(usual.retry, usual.retryMost)
	for range n {
		waits = append(waits, wait.NextBackOff())
	}
	return waits
}

// NewBrisk makes an agent whose periods and deadlines are short enough to watch.
func NewBrisk(o Options) (*Agent, error) {
	return newAgent(o, timing{
		report: 100 * time.Millisecond, snapshot: 250 * time.Millisecond, spacing: 5 * time.Millisecond, lease: 80 * time.Millisecond,
		inventory: time.Minute, inventoryRead: time.Second, nics: 50 * time.Millisecond,
		passive: 50 * time.Millisecond,
		retry:   10 * time.Millisecond, retryMost: 100 * time.Millisecond,
		grace: 2 * time.Second,
		stall: time.Second, start: 400 * time.Millisecond,
		askAgain: 100 * time.Millisecond, shutdown: 500 * time.Millisecond, poll: 20 * time.Millisecond,
		call: time.Second, thaw: time.Second,
		keep: 20 * time.Millisecond, again: 100 * time.Millisecond, againMost: 400 * time.Millisecond, calm: time.Minute, second: 5 * time.Millisecond,
		balloon: 10 * time.Millisecond,
	})
}

// MemoryShares is what each guest is to have that is to have another share than it has.
var MemoryShares = memoryShares

// Counting adds up what counters say at each look.
func Counting() func(time.Time, []CountedNIC) *fleet.FilterCounts {
	var t counts
	return func(now time.Time, all []CountedNIC) *fleet.FilterCounts {
		t.add(now, all)
		return t.counts(now)
	}
}
