package agent

import (
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/secgroup"
)

// RetryWaits returns the default agent's first waits between attempts to reach an offline portal.
func RetryWaits(n int) (waits []time.Duration) {
	wait := newBackoff(defaultTiming.retry, defaultTiming.retryMax)
	for range n {
		waits = append(waits, wait.NextBackOff())
	}
	return waits
}

// NewWithShortTimes creates an agent with periods and deadlines short enough for tests.
func NewWithShortTimes(o Options) (*Agent, error) {
	return newAgent(o, timing{
		reportInterval: 100 * time.Millisecond, hostReadLimit: 250 * time.Millisecond, reportSpacing: 5 * time.Millisecond, leaseInterval: 80 * time.Millisecond,
		inventoryInterval: time.Minute, inventoryReadLimit: time.Second, nicReadLimit: 50 * time.Millisecond,
		passiveRetry: 50 * time.Millisecond,
		retry:        10 * time.Millisecond, retryMax: 100 * time.Millisecond,
		stopGrace:  2 * time.Second,
		stallLimit: time.Second, startLimit: 400 * time.Millisecond,
		shutdownRepeat: 100 * time.Millisecond, shutdownLimit: 500 * time.Millisecond, pollInterval: 20 * time.Millisecond,
		hypervisorCallLimit: time.Second, thawLimit: time.Second,
		policyInterval: 20 * time.Millisecond, restartDelayMin: 100 * time.Millisecond, restartDelayMax: 400 * time.Millisecond, restartResetPeriod: time.Minute, healthCheckSecond: 5 * time.Millisecond,
		balloonInterval: 10 * time.Millisecond, checkRefresh: time.Minute,
	})
}

// ReportInterval returns the agent's current interval of reports.
func (a *Agent) ReportInterval() time.Duration { return a.reports.currentInterval() }

// MemoryShares returns the new sizes of guests whose size must change.
var MemoryShares = newBalloonSizes

// NewFilterCounter returns a function that adds one reading of the counters and returns the sums.
func NewFilterCounter() func(time.Time, []hypervisor.NICPacketCounts) *secgroup.FilterCounts {
	var t filterCounter
	return func(now time.Time, all []hypervisor.NICPacketCounts) *secgroup.FilterCounts {
		t.addReading(now, all)
		return t.totals(now)
	}
}
