package network

import (
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/testkit/rendered"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// TestOfflineHostShowsNoCurrentValues checks that the page shows the last report of an offline host without a state
// chip, usage bar or number for current values.
func TestOfflineHostShowsNoCurrentValues(t *testing.T) {
	t.Parallel()
	stale := fleet.ReportTime{Time: noon.Add(-31 * time.Second)}
	net := fleet.NetworkHost{SeenAt: &stale, Status: &fleet.NetworkStatus{Active: true}}
	if word := rendered.Text(t, hostStateChip(net, noon)); word != "Unknown" || lastReportedStateText(net, noon) != "The host is offline. Last known: active." {
		t.Errorf("the network reads %q, %q", word, lastReportedStateText(net, noon))
	}
	recent := fleet.ReportTime{Time: noon.Add(-29 * time.Second)}
	if net.SeenAt = &recent; rendered.Text(t, hostStateChip(net, noon)) != "Active" || lastReportedStateText(net, noon) != "" {
		t.Errorf("the network of an online host reads %q, %q", rendered.Text(t, hostStateChip(net, noon)), lastReportedStateText(net, noon))
	}
}
