package home

import (
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/testkit/rendered"
)

// TestDashboardOfEmptyFleetShowsNoUsage checks that a fleet without hosts and VMs has neither usage bars nor a good
// state.
func TestDashboardOfEmptyFleetShowsNoUsage(t *testing.T) {
	t.Parallel()
	p := DashboardPage{Actor: fleet.Actor{UserID: "mara", Role: fleet.RoleAdmin}}
	if got := rendered.HTML(t, dashboardBody(p)); strings.Contains(got, `class="bar`) || strings.Contains(got, "none needs attention") || strings.Count(got, "No hosts yet") != 2 {
		t.Error(got)
	}
	p.Overview.Hosts, p.Overview.VMs = map[fleet.HostPhase]int{fleet.HostOnline: 1}, map[fleet.Phase]int{fleet.PhaseRunning: 1}
	if got := rendered.HTML(t, dashboardBody(p)); !strings.Contains(got, `class="bar`) || !strings.Contains(got, "none needs attention") {
		t.Error(got)
	}
}
