package agent

import (
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// RetryWaits returns the default agent's first waits between attempts to reach an offline portal.
func RetryWaits(n int) (waits []time.Duration) {
	wait := newBackoff(defaultTiming.retry, defaultTiming.retryMax)
	for range n {
		waits = append(waits, wait.NextBackOff())
	}
	return waits
}

// NewBrisk creates an agent with periods and deadlines short enough for tests.
func NewBrisk(o Options) (*Agent, error) {
	return newAgent(o, timing{
		report: 100 * time.Millisecond, snapshot: 250 * time.Millisecond, spacing: 5 * time.Millisecond, lease: 80 * time.Millisecond,
		inventory: time.Minute, inventoryRead: time.Second, nics: 50 * time.Millisecond,
		passive: 50 * time.Millisecond,
		retry:   10 * time.Millisecond, retryMax: 100 * time.Millisecond,
		grace: 2 * time.Second,
		stall: time.Second, start: 400 * time.Millisecond,
		askAgain: 100 * time.Millisecond, shutdown: 500 * time.Millisecond, poll: 20 * time.Millisecond,
		call: time.Second, thaw: time.Second,
		keep: 20 * time.Millisecond, again: 100 * time.Millisecond, againMax: 400 * time.Millisecond, calm: time.Minute, second: 5 * time.Millisecond,
		balloon: 10 * time.Millisecond,
	})
}

// MemoryShares returns the new sizes of guests whose size must change.
var MemoryShares = memoryShares

// Counting returns a function that adds one reading of the counters and returns the sums.
func Counting() func(time.Time, []hypervisor.CountedNIC) *fleet.FilterCounts {
	var t filterCounter
	return func(now time.Time, all []hypervisor.CountedNIC) *fleet.FilterCounts {
		t.add(now, all)
		return t.totals(now)
	}
}
