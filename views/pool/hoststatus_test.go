package pool

import (
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/testkit/rendered"
)

// TestOfflineHostShowsNoCurrentValues checks that the page shows the last report of an offline host without a state
// chip, usage bar or number for current values.
func TestOfflineHostShowsNoCurrentValues(t *testing.T) {
	t.Parallel()
	status := fleet.PoolHost{
		Assigned: true, State: fleet.PoolUnknown, HostName: "h1",
		Status: &fleet.PoolStatus{State: fleet.PoolActive, CapacityBytes: 4 << 30, UsedBytes: 1 << 30, AvailableBytes: 3 << 30},
	}
	if chip := rendered.HTML(t, statusChip(status)); !strings.Contains(chip, `class="chip unknown"`) || strings.Contains(chip, "Active") {
		t.Errorf("the pool's chip is %s", chip)
	}
	if usage := rendered.HTML(t, usageOnHost(status)); !strings.Contains(usage, `title="Last known"`) || strings.Contains(usage, "svg") || strings.Contains(usage, "bar") {
		t.Errorf("the pool's usage is %s", usage)
	}
	if text := rendered.Text(t, reportText(status)); text != "Last known: active, 1 GiB of 4 GiB used." {
		t.Errorf("the pool's words are %q", text)
	}
}
