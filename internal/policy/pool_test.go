package policy_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"quantix/internal/fleet"
	"quantix/internal/policy"
)

func TestPoolHealth(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	cell := func(state fleet.PoolState, age time.Duration) fleet.PoolHost {
		seen := now.Add(-age)
		return fleet.PoolHost{SeenAt: &seen, Status: &fleet.PoolStatus{State: state, CapacityBytes: 100, UsedBytes: 30, AvailableBytes: 70}}
	}
	active, failed, stalled := cell(fleet.PoolActive, time.Second), cell(fleet.PoolFailed, 0), cell(fleet.PoolStalled, 0)
	silent, pending := cell(fleet.PoolActive, fleet.Freshness+time.Second), cell(fleet.PoolPending, 0)
	pending.Status = nil
	local, shared := fleet.PoolSpec{}, fleet.PoolSpec{Shared: true}
	for name, c := range map[string]struct {
		spec  fleet.PoolSpec
		cells []fleet.PoolHost
		want  fleet.PoolHealth
	}{
		"no host": {local, nil, fleet.PoolHealth{Tone: fleet.ToneIdle, Summary: "On no host"}},
		"local capacity adds up": {local, []fleet.PoolHost{active, active}, fleet.PoolHealth{
			Hosts: 2, Healthy: 2, Tone: fleet.ToneOK, Summary: "2 of 2 hosts healthy", CapacityBytes: 200, UsedBytes: 60, AvailableBytes: 140,
		}},
		"shared capacity counts once": {shared, []fleet.PoolHost{failed, active, active}, fleet.PoolHealth{
			Hosts: 3, Healthy: 2, Failed: 1, Tone: fleet.ToneWarn, Summary: "2 of 3 hosts healthy", CapacityBytes: 100, UsedBytes: 30, AvailableBytes: 70,
		}},
		"a silent host is unknown": {local, []fleet.PoolHost{active, silent}, fleet.PoolHealth{
			Hosts: 2, Healthy: 1, Unknown: 1, Tone: fleet.ToneWarn, Summary: "1 of 2 hosts healthy", CapacityBytes: 100, UsedBytes: 30, AvailableBytes: 70,
		}},
		"all hosts silent": {local, []fleet.PoolHost{silent, silent}, fleet.PoolHealth{
			Hosts: 2, Unknown: 2, Tone: fleet.ToneUnknown, Summary: "0 of 2 hosts healthy",
		}},
		"nothing works": {local, []fleet.PoolHost{failed, stalled, cell(fleet.PoolInactive, 0), silent}, fleet.PoolHealth{
			Hosts: 4, Failed: 3, Unknown: 1, Tone: fleet.ToneBad, Summary: "0 of 4 hosts healthy",
		}},
		"nothing said yet": {local, []fleet.PoolHost{pending}, fleet.PoolHealth{
			Hosts: 1, Tone: fleet.ToneWarn, Summary: "0 of 1 hosts healthy",
		}},
	} {
		if diff := cmp.Diff(c.want, policy.PoolHealth(c.spec, c.cells, now)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
