package fleet_test

import (
	"testing"
	"time"

	"quantix/internal/fleet"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) *time.Time {
	at := now.Add(-d)
	return &at
}

func TestPhaseOfAVM(t *testing.T) {
	t.Parallel()
	said := func(p fleet.Power) *fleet.VMStatus { return &fleet.VMStatus{Power: p} }
	fresh, stale := ago(fleet.Freshness), ago(fleet.Freshness+time.Millisecond)
	const nothing = fleet.Power("")
	for name, c := range map[string]struct {
		ordered  fleet.Power
		observed int64 // of generation 2
		status   *fleet.VMStatus
		seen     *time.Time
		deleted  bool
		want     fleet.Phase
	}{
		"runs":                              {nothing, 2, said(fleet.Running), fresh, false, fleet.PhaseRunning},
		"is off":                            {nothing, 2, said(fleet.Stopped), fresh, false, fleet.PhaseStopped},
		"paused":                            {nothing, 2, said(fleet.Paused), fresh, false, fleet.PhasePaused},
		"crashed":                           {nothing, 2, said(fleet.Crashed), fresh, false, fleet.PhaseCrashed},
		"runs, and its host says off":       {nothing, 2, &fleet.VMStatus{Power: fleet.Stopped, Faults: []fleet.Fault{{Code: fleet.FaultHealth}, {Code: fleet.FaultLost}}}, fresh, false, fleet.PhaseLost},
		"waits for its next start":          {nothing, 2, &fleet.VMStatus{Power: fleet.Running, NextBoot: []string{"cpus"}}, fresh, false, fleet.PhaseNeedsRestart},
		"is to run":                         {fleet.Running, 1, said(fleet.Stopped), fresh, false, fleet.PhaseStarting},
		"is to run, made just now":          {fleet.Running, 2, said(fleet.Stopped), fresh, false, fleet.PhaseStarting},
		"is to run, made ready by QEMU":     {fleet.Running, 2, said(fleet.Paused), fresh, false, fleet.PhaseStarting},
		"is to run, runs, not told yet":     {fleet.Running, 1, said(fleet.Running), fresh, false, fleet.PhaseStarting},
		"is to stop":                        {fleet.Stopped, 1, said(fleet.Running), fresh, false, fleet.PhaseStopping},
		"is to pause":                       {fleet.Paused, 1, said(fleet.Running), fresh, false, fleet.PhasePausing},
		"is to change":                      {nothing, 1, said(fleet.Running), fresh, false, fleet.PhaseUpdating},
		"never reported":                    {nothing, 0, nil, fresh, false, fleet.PhaseCreating},
		"never reported, is to run":         {fleet.Running, 0, nil, fresh, false, fleet.PhaseCreating},
		"never reported, host silent":       {nothing, 0, nil, stale, false, fleet.PhaseCreating},
		"is being made":                     {nothing, 1, said(fleet.Absent), fresh, false, fleet.PhaseCreating},
		"is being made again to run":        {fleet.Running, 2, said(fleet.Absent), fresh, false, fleet.PhaseCreating},
		"could not be made":                 {nothing, 2, &fleet.VMStatus{Power: fleet.Absent, Error: "no space"}, fresh, false, fleet.PhaseFailed},
		"gone from its host":                {nothing, 2, said(fleet.Absent), fresh, false, fleet.PhaseMissing},
		"host silent":                       {nothing, 2, said(fleet.Running), stale, false, fleet.PhaseUnknown},
		"host never heard":                  {nothing, 2, said(fleet.Running), nil, false, fleet.PhaseUnknown},
		"is to stop, host silent":           {fleet.Stopped, 1, said(fleet.Running), stale, false, fleet.PhaseUnknown},
		"is to be deleted":                  {nothing, 2, said(fleet.Running), fresh, true, fleet.PhaseDeleting},
		"is to be deleted, host silent":     {nothing, 2, said(fleet.Running), stale, true, fleet.PhaseDeleting},
		"is to be deleted, never was there": {nothing, 0, nil, nil, true, fleet.PhaseDeleting},
	} {
		vm := fleet.VM{Meta: fleet.Meta{Generation: 2, ObservedGeneration: c.observed, Ordered: c.ordered}, Status: c.status}
		if c.deleted {
			vm.DeletedAt = ago(time.Minute)
		}
		if got := vm.Phase(c.seen, now); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestAVMNeedsAttention(t *testing.T) {
	t.Parallel()
	fresh, stale := ago(0), ago(time.Hour)
	failed := func(p fleet.Power, order fleet.JobKind) *fleet.VMStatus {
		return &fleet.VMStatus{Power: p, Error: "no space", ErrorOf: order}
	}
	for name, c := range map[string]struct {
		wanted   fleet.Power
		observed int64 // of generation 2
		status   *fleet.VMStatus
		seen     *time.Time
		want     bool
	}{
		"as wanted":                   {fleet.Running, 2, &fleet.VMStatus{Power: fleet.Running}, fresh, false},
		"powered off by its guest":    {fleet.Running, 2, &fleet.VMStatus{Power: fleet.Stopped}, fresh, false},
		"did not start":               {fleet.Running, 2, failed(fleet.Stopped, fleet.VMStart), fresh, true},
		"did not start, asked again":  {fleet.Running, 1, failed(fleet.Stopped, fleet.VMStart), fresh, false},
		"started by other hands":      {fleet.Running, 2, failed(fleet.Running, fleet.VMStart), fresh, false},
		"did not shut down":           {fleet.Stopped, 2, failed(fleet.Running, fleet.VMShutdown), fresh, true},
		"shut down late":              {fleet.Stopped, 2, failed(fleet.Stopped, fleet.VMShutdown), fresh, false},
		"not changed":                 {fleet.Running, 2, failed(fleet.Running, fleet.VMApply), fresh, true},
		"not rebooted":                {fleet.Running, 2, failed(fleet.Running, fleet.VMReboot), fresh, true},
		"not deleted":                 {fleet.Stopped, 2, failed(fleet.Stopped, fleet.VMDelete), fresh, true},
		"failed in an unknown way":    {fleet.Running, 2, failed(fleet.Running, ""), fresh, true},
		"crashed":                     {fleet.Running, 2, &fleet.VMStatus{Power: fleet.Crashed}, fresh, true},
		"crashed, asked to start":     {fleet.Running, 1, &fleet.VMStatus{Power: fleet.Crashed}, fresh, false},
		"could not be made":           {fleet.Running, 2, failed(fleet.Absent, fleet.VMApply), fresh, true},
		"gone from its host":          {fleet.Running, 2, &fleet.VMStatus{Power: fleet.Absent}, fresh, true},
		"host silent":                 {fleet.Running, 2, &fleet.VMStatus{Power: fleet.Running}, stale, true},
		"host silent, change pending": {fleet.Running, 1, &fleet.VMStatus{Power: fleet.Running}, stale, true},
		"never reported":              {fleet.Running, 0, nil, stale, false},
		"lacks a disk":                {fleet.Stopped, 2, &fleet.VMStatus{Power: fleet.Stopped, Faults: []fleet.Fault{{Code: fleet.FaultDisk}}}, fresh, true},
		"lacks a disk, to be changed": {fleet.Stopped, 1, &fleet.VMStatus{Power: fleet.Stopped, Faults: []fleet.Fault{{Code: fleet.FaultDisk}}}, fresh, true},
	} {
		vm := fleet.VM{Meta: fleet.Meta{Generation: 2, ObservedGeneration: c.observed}, Spec: fleet.VMSpec{Power: c.wanted}, Status: c.status}
		if got := vm.NeedsAttention(c.seen, now); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
		if vm.Ordered = fleet.Running; c.status != nil && len(c.status.Faults) == 0 && fleet.Fresh(c.seen, now) && vm.NeedsAttention(c.seen, now) {
			t.Errorf("%s, an order is on its way: it needs attention", name)
		}
		vm.DeletedAt = ago(time.Minute)
		if vm.NeedsAttention(c.seen, now) {
			t.Errorf("%s, being deleted: it needs attention", name)
		}
	}
}

func TestPhaseOfAFoundVM(t *testing.T) {
	t.Parallel()
	found := fleet.DiscoveredVM{Status: fleet.VMStatus{Power: fleet.Running}}
	if got := found.PhaseAt(ago(time.Second), now); got != fleet.PhaseRunning {
		t.Errorf("of a host that is heard: %q", got)
	}
	if got := found.PhaseAt(ago(time.Hour), now); got != fleet.PhaseUnknown {
		t.Errorf("of a silent host: %q", got)
	}
}

func TestPhaseOfAHost(t *testing.T) {
	t.Parallel()
	well, blind := &fleet.HostStatus{Connected: true}, &fleet.HostStatus{}
	for want, hosts := range map[fleet.HostPhase][]fleet.Host{
		fleet.HostOnline:   {{Status: well, SeenAt: ago(0), LookedAt: ago(fleet.Freshness)}},
		fleet.HostDegraded: {{Status: blind, SeenAt: ago(0), LookedAt: ago(0)}, {Status: well, SeenAt: ago(0), LookedAt: ago(fleet.Freshness + 1)}},
		fleet.HostConflict: {{Status: well, SeenAt: ago(0), Conflict: "two"}, {Status: well, SeenAt: ago(time.Hour), Conflict: "two"}},
		fleet.HostPending:  {{}, {SeenAt: ago(0)}, {Status: well}},
		fleet.HostUnknown:  {{Status: well, SeenAt: ago(time.Hour)}, {Status: blind, SeenAt: ago(time.Hour)}},
	} {
		for _, h := range hosts {
			if got := h.Phase(now); got != want {
				t.Errorf("%+v is %q, want %q", h, got, want)
			}
		}
	}
}

func TestStateOfAPoolOnAHost(t *testing.T) {
	t.Parallel()
	failed := &fleet.PoolStatus{State: fleet.PoolFailed}
	for want, cell := range map[fleet.PoolState]fleet.PoolHost{
		fleet.PoolPending: {SeenAt: ago(0)},
		fleet.PoolFailed:  {SeenAt: ago(0), Status: failed},
		fleet.PoolUnknown: {SeenAt: ago(time.Hour), Status: failed},
	} {
		if got := cell.StateAt(now); got != want {
			t.Errorf("%+v is %q, want %q", cell, got, want)
		}
	}
	if got := (fleet.PoolHost{}).StateAt(now); got != fleet.PoolUnknown {
		t.Errorf("on a host that was never heard: %q", got)
	}
}

func TestEveryPhaseHasAWordAndATone(t *testing.T) {
	t.Parallel()
	for _, p := range fleet.VMPhases {
		if p.Word() == "" || p.Severity() == "" {
			t.Errorf("phase %q has none", p)
		}
	}
	for _, p := range fleet.HostPhases {
		if p.Word() == "" || p.Severity() == "" {
			t.Errorf("host phase %q has none", p)
		}
	}
}
