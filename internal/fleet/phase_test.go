package fleet_test

import (
	"testing"
	"time"

	"quantix/internal/fleet"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func reportAgo(d time.Duration) *fleet.ReportTime {
	return &fleet.ReportTime{Time: now.Add(-d)}
}

func timeAgo(d time.Duration) *time.Time {
	at := now.Add(-d)
	return &at
}

func TestVMPhaseDerivesFromStatusAndReportAge(t *testing.T) {
	t.Parallel()
	reported := func(p fleet.Power) *fleet.VMStatus { return &fleet.VMStatus{Power: p} }
	fresh, stale := reportAgo(fleet.Freshness), reportAgo(fleet.Freshness+time.Millisecond)
	const nothing = fleet.Power("")
	for name, c := range map[string]struct {
		ordered  fleet.Power
		observed int64 // generation is 2
		status   *fleet.VMStatus
		seen     *fleet.ReportTime
		deleted  bool
		want     fleet.Phase
	}{
		"runs":                              {nothing, 2, reported(fleet.Running), fresh, false, fleet.PhaseRunning},
		"is off":                            {nothing, 2, reported(fleet.Stopped), fresh, false, fleet.PhaseStopped},
		"paused":                            {nothing, 2, reported(fleet.Paused), fresh, false, fleet.PhasePaused},
		"crashed":                           {nothing, 2, reported(fleet.Crashed), fresh, false, fleet.PhaseCrashed},
		"lost guest":                        {nothing, 2, &fleet.VMStatus{Power: fleet.Stopped, Faults: []fleet.Fault{{Code: fleet.FaultHealth}, {Code: fleet.FaultLost}}}, fresh, false, fleet.PhaseLost},
		"change waits for next start":       {nothing, 2, &fleet.VMStatus{Power: fleet.Running, NextBoot: []string{"cpus"}}, fresh, false, fleet.PhaseNeedsRestart},
		"start requested":                   {fleet.Running, 1, reported(fleet.Stopped), fresh, false, fleet.PhaseStarting},
		"start requested, defined":          {fleet.Running, 2, reported(fleet.Stopped), fresh, false, fleet.PhaseStarting},
		"start requested, paused by QEMU":   {fleet.Running, 2, reported(fleet.Paused), fresh, false, fleet.PhaseStarting},
		"start requested, not acted on yet": {fleet.Running, 1, reported(fleet.Running), fresh, false, fleet.PhaseStarting},
		"stop requested":                    {fleet.Stopped, 1, reported(fleet.Running), fresh, false, fleet.PhaseStopping},
		"pause requested":                   {fleet.Paused, 1, reported(fleet.Running), fresh, false, fleet.PhasePausing},
		"change pending":                    {nothing, 1, reported(fleet.Running), fresh, false, fleet.PhaseUpdating},
		"never reported":                    {nothing, 0, nil, fresh, false, fleet.PhaseCreating},
		"never reported, start requested":   {fleet.Running, 0, nil, fresh, false, fleet.PhaseCreating},
		"never reported, host offline":      {nothing, 0, nil, stale, false, fleet.PhaseCreating},
		"is being created":                  {nothing, 1, reported(fleet.Absent), fresh, false, fleet.PhaseCreating},
		"is being created again for start":  {fleet.Running, 2, reported(fleet.Absent), fresh, false, fleet.PhaseCreating},
		"creation failed":                   {nothing, 2, &fleet.VMStatus{Power: fleet.Absent, Error: "no space"}, fresh, false, fleet.PhaseFailed},
		"gone from its host":                {nothing, 2, reported(fleet.Absent), fresh, false, fleet.PhaseMissing},
		"host offline":                      {nothing, 2, reported(fleet.Running), stale, false, fleet.PhaseUnknown},
		"host never seen":                   {nothing, 2, reported(fleet.Running), nil, false, fleet.PhaseUnknown},
		"stop requested, host offline":      {fleet.Stopped, 1, reported(fleet.Running), stale, false, fleet.PhaseUnknown},
		"deletion requested":                {nothing, 2, reported(fleet.Running), fresh, true, fleet.PhaseDeleting},
		"deletion requested, host offline":  {nothing, 2, reported(fleet.Running), stale, true, fleet.PhaseDeleting},
		"deletion requested, never created": {nothing, 0, nil, nil, true, fleet.PhaseDeleting},
	} {
		vm := fleet.VM{Meta: fleet.Meta{Generation: 2, ObservedGeneration: c.observed, RequestedPower: c.ordered}, Status: c.status}
		if c.deleted {
			vm.DeletedAt = timeAgo(time.Minute)
		}
		if got := vm.Phase(c.seen, now); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestVMNeedsAttentionForFaultsAndFailures(t *testing.T) {
	t.Parallel()
	fresh, stale := reportAgo(0), reportAgo(time.Hour)
	failed := func(p fleet.Power, order fleet.JobKind) *fleet.VMStatus {
		return &fleet.VMStatus{Power: p, Error: "no space", ErrorOf: order}
	}
	for name, c := range map[string]struct {
		wanted   fleet.Power
		observed int64 // generation is 2
		status   *fleet.VMStatus
		seen     *fleet.ReportTime
		want     bool
	}{
		"as intended":                   {fleet.Running, 2, &fleet.VMStatus{Power: fleet.Running}, fresh, false},
		"powered off by the guest":      {fleet.Running, 2, &fleet.VMStatus{Power: fleet.Stopped}, fresh, false},
		"start failed":                  {fleet.Running, 2, failed(fleet.Stopped, fleet.VMStart), fresh, true},
		"start failed, retried":         {fleet.Running, 1, failed(fleet.Stopped, fleet.VMStart), fresh, false},
		"start failed, started on host": {fleet.Running, 2, failed(fleet.Running, fleet.VMStart), fresh, false},
		"shutdown failed":               {fleet.Stopped, 2, failed(fleet.Running, fleet.VMShutdown), fresh, true},
		"shut down late":                {fleet.Stopped, 2, failed(fleet.Stopped, fleet.VMShutdown), fresh, false},
		"change failed":                 {fleet.Running, 2, failed(fleet.Running, fleet.VMApply), fresh, true},
		"reboot failed":                 {fleet.Running, 2, failed(fleet.Running, fleet.VMReboot), fresh, true},
		"deletion failed":               {fleet.Stopped, 2, failed(fleet.Stopped, fleet.VMDelete), fresh, true},
		"unknown job failed":            {fleet.Running, 2, failed(fleet.Running, ""), fresh, true},
		"crashed":                       {fleet.Running, 2, &fleet.VMStatus{Power: fleet.Crashed}, fresh, true},
		"crashed, start pending":        {fleet.Running, 1, &fleet.VMStatus{Power: fleet.Crashed}, fresh, false},
		"creation failed":               {fleet.Running, 2, failed(fleet.Absent, fleet.VMApply), fresh, true},
		"gone from its host":            {fleet.Running, 2, &fleet.VMStatus{Power: fleet.Absent}, fresh, true},
		"host offline":                  {fleet.Running, 2, &fleet.VMStatus{Power: fleet.Running}, stale, true},
		"host offline, change pending":  {fleet.Running, 1, &fleet.VMStatus{Power: fleet.Running}, stale, true},
		"never reported":                {fleet.Running, 0, nil, stale, false},
		"missing disk":                  {fleet.Stopped, 2, &fleet.VMStatus{Power: fleet.Stopped, Faults: []fleet.Fault{{Code: fleet.FaultDisk}}}, fresh, true},
		"missing disk, change pending":  {fleet.Stopped, 1, &fleet.VMStatus{Power: fleet.Stopped, Faults: []fleet.Fault{{Code: fleet.FaultDisk}}}, fresh, true},
	} {
		vm := fleet.VM{Meta: fleet.Meta{Generation: 2, ObservedGeneration: c.observed}, Spec: fleet.VMSpec{Power: c.wanted}, Status: c.status}
		if got := vm.NeedsAttention(c.seen, now); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
		if vm.RequestedPower = fleet.Running; c.status != nil && len(c.status.Faults) == 0 && fleet.IsReportFresh(c.seen, now) && vm.NeedsAttention(c.seen, now) {
			t.Errorf("%s, with a requested power state: it needs attention", name)
		}
		vm.DeletedAt = timeAgo(time.Minute)
		if vm.NeedsAttention(c.seen, now) {
			t.Errorf("%s, being deleted: it needs attention", name)
		}
	}
}

func TestDiscoveredVMPhaseUnknownWhenHostOffline(t *testing.T) {
	t.Parallel()
	discovered := fleet.DiscoveredVM{Status: fleet.VMStatus{Power: fleet.Running}}
	if got := discovered.PhaseAt(reportAgo(time.Second), now); got != fleet.PhaseRunning {
		t.Errorf("on an online host: %q", got)
	}
	if got := discovered.PhaseAt(reportAgo(time.Hour), now); got != fleet.PhaseUnknown {
		t.Errorf("on an offline host: %q", got)
	}
}

func TestHostPhaseDerivesFromReports(t *testing.T) {
	t.Parallel()
	connected, disconnected := &fleet.HostStatus{Connected: true}, &fleet.HostStatus{}
	for want, hosts := range map[fleet.HostPhase][]fleet.Host{
		fleet.HostOnline:   {{Status: connected, SeenAt: reportAgo(0), InventoryAt: reportAgo(fleet.Freshness)}},
		fleet.HostDegraded: {{Status: disconnected, SeenAt: reportAgo(0), InventoryAt: reportAgo(0)}, {Status: connected, SeenAt: reportAgo(0), InventoryAt: reportAgo(fleet.Freshness + 1)}},
		fleet.HostConflict: {{Status: connected, SeenAt: reportAgo(0), Conflict: "two"}, {Status: connected, SeenAt: reportAgo(time.Hour), Conflict: "two"}},
		fleet.HostPending:  {{}, {SeenAt: reportAgo(0)}, {Status: connected}},
		fleet.HostUnknown:  {{Status: connected, SeenAt: reportAgo(time.Hour)}, {Status: disconnected, SeenAt: reportAgo(time.Hour)}},
	} {
		for _, h := range hosts {
			if got := h.Phase(now); got != want {
				t.Errorf("%+v is %q, want %q", h, got, want)
			}
		}
	}
}

func TestPoolStateUnknownWhenReportStale(t *testing.T) {
	t.Parallel()
	failed := &fleet.PoolStatus{State: fleet.PoolFailed}
	for want, poolOn := range map[fleet.PoolState]fleet.PoolHost{
		fleet.PoolPending: {SeenAt: reportAgo(0)},
		fleet.PoolFailed:  {SeenAt: reportAgo(0), Status: failed},
		fleet.PoolUnknown: {SeenAt: reportAgo(time.Hour), Status: failed},
	} {
		if got := poolOn.StateAt(now); got != want {
			t.Errorf("%+v is %q, want %q", poolOn, got, want)
		}
	}
	if got := (fleet.PoolHost{}).StateAt(now); got != fleet.PoolUnknown {
		t.Errorf("on a host that was never seen: %q", got)
	}
}

func TestEveryPhaseHasDisplayNameAndSeverity(t *testing.T) {
	t.Parallel()
	for _, p := range fleet.VMPhases {
		if p.DisplayName() == "" || p.Severity() == "" {
			t.Errorf("phase %q lacks a word or severity", p)
		}
	}
	for _, p := range fleet.HostPhases {
		if p.DisplayName() == "" || p.Severity() == "" {
			t.Errorf("host phase %q lacks a word or severity", p)
		}
	}
}
