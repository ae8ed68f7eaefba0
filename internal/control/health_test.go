package control_test

import (
	"slices"
	"testing"

	"quantix/internal/control/health"
	"quantix/internal/fleet"
	"quantix/internal/healthevent"
)

// TestHealthReportRaisesAndClearsConditions follows a finding and an occurrence of a host from report to end.
func TestHealthReportRaisesAndClearsConditions(t *testing.T) {
	f := newHostFixture(t)
	failing := healthevent.Finding{Object: "disk/sda", Code: "smart-failing", Severity: fleet.AlarmCritical, Text: "The disk fails.", Values: map[string]float64{"temperature": 40}}
	xid := healthevent.Occurrence{Check: "gpu", Repeats: 2, Finding: healthevent.Finding{Object: "gpu/0", Code: "xid-79", Severity: fleet.AlarmCritical, Text: "XID 79.", Values: map[string]float64{"xid": 79}}}
	report := func(r healthevent.Report) {
		t.Helper()
		r.Instance = "run-1"
		if err := f.ReportHealth(t.Context(), f.agent, r); err != nil {
			t.Fatal(err)
		}
	}
	smart := func(findings ...healthevent.Finding) []healthevent.CheckReport {
		return []healthevent.CheckReport{{Check: "smart", State: healthevent.CheckOK, Findings: findings}}
	}
	first := healthevent.Report{Number: 1, Checks: smart(failing), Occurrences: []healthevent.Occurrence{xid}}
	report(first)
	report(first) // the answer to the first call was lost
	if got := f.eventKinds(); !slices.Equal(got, []healthevent.Kind{healthevent.Occurred, healthevent.Raised}) {
		t.Fatalf("the events are %v", got)
	}
	report(healthevent.Report{Number: 1, Checks: []healthevent.CheckReport{{Check: "smart", State: healthevent.CheckFailed, Reason: "no smartctl"}}})
	report(healthevent.Report{Number: 1, Checks: smart()})
	if got := f.eventKinds(); !slices.Equal(got, []healthevent.Kind{healthevent.Cleared, healthevent.Occurred, healthevent.Raised}) {
		t.Fatalf("the events are %v", got)
	}
	now, err := f.HealthOfHost(t.Context(), chief, f.agent.HostID)
	if err != nil || len(now.Conditions) != 1 || now.Conditions[0].Count != 2 || !now.Conditions[0].Occurrence || now.ReportedAt == nil {
		t.Fatalf("the health is %+v, %v", now, err)
	}
	if err := f.ResolveCondition(t.Context(), chief, f.agent.HostID, now.Conditions[0].Key()); err != nil {
		t.Fatal(err)
	}
	if err := f.ResolveCondition(t.Context(), chief, f.agent.HostID, now.Conditions[0].Key()); fleet.CodeOf(err) != fleet.NotFound {
		t.Errorf("a second resolution gives %v", err)
	}
	if got := f.eventKinds(); got[0] != healthevent.Resolved {
		t.Errorf("the events are %v", got)
	}
}

func (r *hostFixture) eventKinds() []healthevent.Kind {
	r.t.Helper()
	events, err := r.HostEvents(r.t.Context(), chief, r.agent.HostID, health.EventQuery{Limit: 100})
	if err != nil {
		r.t.Fatal(err)
	}
	out := make([]healthevent.Kind, len(events.Items))
	for i, e := range events.Items {
		out[i] = e.Kind
	}
	return out
}
