package agent_test

import (
	"slices"
	"testing"
	"time"

	"quantix/agent"
)

// After a failover all agents reconnect within seconds, but not all at once.
func TestReconnectDelaysAreShortAndRandomized(t *testing.T) {
	t.Parallel()
	var last []time.Duration
	for range 200 {
		waits := agent.RetryWaits(10)
		if most := slices.Max(waits); most > 5*time.Second {
			t.Fatalf("a wait of %s", most)
		}
		last = append(last, waits[9])
	}
	if spread := slices.Max(last) - slices.Min(last); spread < time.Second {
		t.Errorf("200 agents come back within %s", spread)
	}
}
