package policy_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"quantix/internal/fleet"
	"quantix/internal/policy"
)

func TestPoolHealthSummarizesHosts(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	status := func(state fleet.PoolState, age time.Duration) fleet.PoolHost {
		seen := now.Add(-age)
		return fleet.PoolHost{SeenAt: &fleet.ReportTime{Time: seen}, Status: &fleet.PoolStatus{State: state, CapacityBytes: 100, UsedBytes: 30, AvailableBytes: 70}}
	}
	active, failed, stalled := status(fleet.PoolActive, time.Second), status(fleet.PoolFailed, 0), status(fleet.PoolStalled, 0)
	offline, pending := status(fleet.PoolActive, fleet.Freshness+time.Second), status(fleet.PoolPending, 0)
	pending.Status = nil
	filled := func(usedBytes int64) fleet.PoolHost {
		c := status(fleet.PoolActive, 0)
		c.Status = &fleet.PoolStatus{State: fleet.PoolActive, CapacityBytes: 100, UsedBytes: usedBytes, AvailableBytes: 100 - usedBytes, ProvisionedBytes: 5}
		return c
	}
	broken := status(fleet.PoolActive, 0)
	broken.Status.Error = "it is mounted read-only"
	starved := active
	starved.PausedVMs = 2
	local, shared := fleet.PoolSpec{}, fleet.PoolSpec{Shared: true}
	for name, c := range map[string]struct {
		spec     fleet.PoolSpec
		statuses []fleet.PoolHost
		want     fleet.PoolHealth
	}{
		"no host": {local, nil, fleet.PoolHealth{Severity: fleet.SeverityIdle, Summary: "On no host"}},
		"local capacity adds up": {local, []fleet.PoolHost{active, active}, fleet.PoolHealth{
			Hosts: 2, Healthy: 2, Severity: fleet.SeverityOK, Summary: "2 of 2 hosts healthy", CapacityBytes: 200, UsedBytes: 60, AvailableBytes: 140,
		}},
		"shared capacity counts once": {shared, []fleet.PoolHost{failed, active, active}, fleet.PoolHealth{
			Hosts: 3, Healthy: 2, Failed: 1, Severity: fleet.SeverityWarn, Summary: "2 of 3 hosts healthy", CapacityBytes: 100, UsedBytes: 30, AvailableBytes: 70,
		}},
		"offline host is unknown": {local, []fleet.PoolHost{active, offline}, fleet.PoolHealth{
			Hosts: 2, Healthy: 1, Unknown: 1, Severity: fleet.SeverityWarn, Summary: "1 of 2 hosts healthy", CapacityBytes: 100, UsedBytes: 30, AvailableBytes: 70,
		}},
		"all hosts offline": {local, []fleet.PoolHost{offline, offline}, fleet.PoolHealth{
			Hosts: 2, Unknown: 2, Severity: fleet.SeverityUnknown, Summary: "0 of 2 hosts healthy",
		}},
		"failed everywhere": {local, []fleet.PoolHost{failed, stalled, status(fleet.PoolInactive, 0), offline}, fleet.PoolHealth{
			Hosts: 4, Failed: 3, Unknown: 1, Severity: fleet.SeverityBad, Summary: "0 of 4 hosts healthy",
		}},
		"nearly full": {local, []fleet.PoolHost{filled(89), filled(90)}, fleet.PoolHealth{
			Hosts: 2, Healthy: 2, NearlyFull: 1, Severity: fleet.SeverityWarn, Summary: "2 of 2 hosts healthy, nearly full on 1", CapacityBytes: 200, UsedBytes: 179, AvailableBytes: 21, ProvisionedBytes: 10,
		}},
		"full on one host": {local, []fleet.PoolHost{active, filled(97)}, fleet.PoolHealth{
			Hosts: 2, Healthy: 2, Full: 1, Severity: fleet.SeverityWarn, Summary: "2 of 2 hosts healthy, full on 1", CapacityBytes: 200, UsedBytes: 127, AvailableBytes: 73, ProvisionedBytes: 5,
		}},
		"degraded": {shared, []fleet.PoolHost{active, broken, broken}, fleet.PoolHealth{
			Hosts: 3, Healthy: 1, Degraded: 2, Severity: fleet.SeverityWarn, Summary: "1 of 3 hosts healthy, degraded on 2", CapacityBytes: 100, UsedBytes: 30, AvailableBytes: 70,
		}},
		"degraded everywhere": {local, []fleet.PoolHost{broken}, fleet.PoolHealth{
			Hosts: 1, Degraded: 1, Severity: fleet.SeverityWarn, Summary: "0 of 1 hosts healthy, degraded", CapacityBytes: 100, UsedBytes: 30, AvailableBytes: 70,
		}},
		"shared and full": {shared, []fleet.PoolHost{filled(100), filled(100), failed}, fleet.PoolHealth{
			Hosts: 3, Healthy: 2, Failed: 1, Full: 2, Severity: fleet.SeverityBad, Summary: "2 of 3 hosts healthy, full", CapacityBytes: 100, UsedBytes: 100, ProvisionedBytes: 5,
		}},
		"VMs wait for space": {local, []fleet.PoolHost{starved}, fleet.PoolHealth{
			Hosts: 1, Healthy: 1, Full: 1, Severity: fleet.SeverityBad, Summary: "1 of 1 hosts healthy, full", CapacityBytes: 100, UsedBytes: 30, AvailableBytes: 70,
		}},
		"not reported yet": {local, []fleet.PoolHost{pending}, fleet.PoolHealth{
			Hosts: 1, Severity: fleet.SeverityWarn, Summary: "0 of 1 hosts healthy",
		}},
	} {
		var groups []policy.PoolHealthGroup // one group for each host status
		for _, status := range c.statuses {
			g := policy.PoolHealthGroup{PoolHealthKey: policy.NewPoolHealthKey(status, now), Hosts: 1}
			if status.Status != nil {
				g.Space = status.Status.Space()
			}
			groups = append(groups, g)
		}
		var first fleet.PoolSpace
		if i := slices.IndexFunc(c.statuses, func(status fleet.PoolHost) bool { return status.StateAt(now) == fleet.PoolActive }); i >= 0 {
			first = c.statuses[i].Status.Space()
		}
		got := policy.PoolHealth(c.spec, groups, first)
		if all := got.SeverityCounts.All(); all != len(c.statuses) {
			t.Errorf("%s: %d of %d host statuses counted: %+v", name, all, len(c.statuses), got.SeverityCounts)
		}
		got.SeverityCounts = fleet.SeverityCounts{}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestPoolStatusDeterminesSeverityAndNotice(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		status   fleet.PoolStatus
		age      time.Duration
		starved  int
		severity fleet.Severity
		notice   string
	}{
		"half full":               {fleet.PoolStatus{State: fleet.PoolActive, CapacityBytes: 1000, UsedBytes: 500}, 0, 0, fleet.SeverityOK, ""},
		"no size reported":        {fleet.PoolStatus{State: fleet.PoolActive}, 0, 0, fleet.SeverityOK, ""},
		"just below":              {fleet.PoolStatus{State: fleet.PoolActive, CapacityBytes: 1000, UsedBytes: 899}, 0, 0, fleet.SeverityOK, ""},
		"nearly full":             {fleet.PoolStatus{State: fleet.PoolActive, CapacityBytes: 1000, UsedBytes: 900}, 0, 0, fleet.SeverityWarn, "Nearly full: 90 % used"},
		"nearly full still":       {fleet.PoolStatus{State: fleet.PoolActive, CapacityBytes: 1000, UsedBytes: 969}, 0, 0, fleet.SeverityWarn, "Nearly full: 96 % used"},
		"full":                    {fleet.PoolStatus{State: fleet.PoolActive, CapacityBytes: 1000, UsedBytes: 970}, 0, 0, fleet.SeverityBad, "Full: 97 % used"},
		"exabytes":                {fleet.PoolStatus{State: fleet.PoolActive, CapacityBytes: 1 << 62, UsedBytes: 1 << 62}, 0, 0, fleet.SeverityBad, "Full: 100 % used"},
		"a VM waits for space":    {fleet.PoolStatus{State: fleet.PoolActive, CapacityBytes: 1000, UsedBytes: 500}, 0, 1, fleet.SeverityBad, "A VM is paused there, because its storage is full or fails; 50 % used"},
		"VMs wait for space":      {fleet.PoolStatus{State: fleet.PoolActive, CapacityBytes: 1000, UsedBytes: 1000}, 0, 3, fleet.SeverityBad, "3 VMs are paused there, because their storage is full or fails; 100 % used"},
		"stopped outside Quantix": {fleet.PoolStatus{State: fleet.PoolInactive, StoppedOutside: true}, 0, 0, fleet.SeverityWarn, "Stopped on the host outside Quantix"},
		"not started":             {fleet.PoolStatus{State: fleet.PoolInactive}, 0, 0, fleet.SeverityWarn, ""},
		"failed":                  {fleet.PoolStatus{State: fleet.PoolFailed, CapacityBytes: 1000, UsedBytes: 1000}, 0, 0, fleet.SeverityBad, ""},
		"full, host offline":      {fleet.PoolStatus{State: fleet.PoolActive, CapacityBytes: 1000, UsedBytes: 1000}, fleet.Freshness + time.Second, 1, fleet.SeverityUnknown, ""},
		"stopped, host offline":   {fleet.PoolStatus{State: fleet.PoolInactive, StoppedOutside: true}, fleet.Freshness + time.Second, 0, fleet.SeverityUnknown, ""},
	} {
		seen := now.Add(-c.age)
		severity, notice := policy.PoolHostStatus(fleet.PoolHost{SeenAt: &fleet.ReportTime{Time: seen}, Status: &c.status, PausedVMs: c.starved}, now)
		if severity != c.severity || notice != c.notice {
			t.Errorf("%s: %s, %q, want %s, %q", name, severity, notice, c.severity, c.notice)
		}
	}
}
