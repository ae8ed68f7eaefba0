package fleet_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
)

// TestHostLifecycleChangesAreThoseOfTable applies every trigger to a host in every state. The changes that result are
// exactly those of the table.
func TestHostLifecycleChangesAreThoseOfTable(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	fresh, old := &fleet.ReportTime{Time: now}, &fleet.ReportTime{Time: now.Add(-time.Hour)}
	type state struct {
		seen      *fleet.ReportTime
		connected bool
		m         string // maintenance: "", "draining", "entered"
	}
	host := func(s state) fleet.Host {
		h := fleet.Host{SeenAt: s.seen, InventoryAt: s.seen}
		if s.seen != nil {
			h.Status = &fleet.HostStatus{Connected: s.connected}
		}
		if s.m != "" {
			h.Maintenance = &fleet.HostMaintenance{Since: now}
		}
		if s.m == "entered" {
			h.Maintenance.EnteredAt = &now
		}
		return h
	}
	lifecycle := func(s state) fleet.HostLifecycle { return host(s).Lifecycle(now) }
	triggers := map[fleet.LifecycleTrigger]func(state) []state{
		fleet.TriggerReport: func(s state) []state { return []state{{fresh, true, s.m}, {fresh, false, s.m}} },
		fleet.TriggerSilence: func(s state) []state {
			if s.seen == nil {
				return nil
			}
			return []state{{old, s.connected, s.m}}
		},
		fleet.TriggerTask: func(s state) []state {
			if s.m != "draining" || s.seen != fresh || !s.connected { // the state of its VMs is unknown
				return nil
			}
			return []state{{s.seen, s.connected, "entered"}}
		},
		fleet.TriggerUser: func(s state) (out []state) {
			v := fleet.HostView{Host: host(s), Lifecycle: lifecycle(s)}
			if ok, _ := v.Allows(fleet.ActEnterMaintenance); ok && s.m == "" {
				out = append(out, state{s.seen, s.connected, "draining"}, state{s.seen, s.connected, "entered"})
			}
			if ok, _ := v.Allows(fleet.ActLeaveMaintenance); ok {
				out = append(out, state{s.seen, s.connected, ""})
			}
			return out
		},
	}
	var got []fleet.LifecycleChange
	for _, seen := range []*fleet.ReportTime{nil, fresh, old} {
		for _, connected := range []bool{true, false} {
			for _, m := range []string{"", "draining", "entered"} {
				if seen == nil && m != "" {
					continue // a host that never reported cannot enter maintenance
				}
				from := state{seen, connected, m}
				for by, apply := range triggers {
					for _, to := range apply(from) {
						c := fleet.LifecycleChange{From: lifecycle(from), To: lifecycle(to), By: by}
						if c.From != c.To && !slices.Contains(got, c) {
							got = append(got, c)
						}
					}
				}
			}
		}
	}
	for _, c := range got {
		if !slices.Contains(fleet.LifecycleChanges, c) {
			t.Errorf("%s changes %s to %s, which the table does not have", c.By, c.From, c.To)
		}
	}
	for _, c := range fleet.LifecycleChanges {
		if !slices.Contains(got, c) {
			t.Errorf("the table has %s, %s to %s, which does not happen", c.By, c.From, c.To)
		}
	}
}

// TestHostLifecycleAllowsOperations lists the operations that each lifecycle allows.
func TestHostLifecycleAllowsOperations(t *testing.T) {
	t.Parallel()
	for l, want := range map[fleet.HostLifecycle][]fleet.HostOperation{
		fleet.LifecyclePending:     {fleet.HostStartVM, fleet.HostRemove},
		fleet.LifecycleReady:       {fleet.HostPlaceVM, fleet.HostStartVM, fleet.HostEnterMaintenance, fleet.HostRemove},
		fleet.LifecycleNotReady:    {fleet.HostStartVM, fleet.HostRemove},
		fleet.LifecycleDraining:    {fleet.HostEnterMaintenance, fleet.HostLeaveMaintenance},
		fleet.LifecycleMaintenance: {fleet.HostLeaveMaintenance, fleet.HostPowerCommand, fleet.HostRemove},
		fleet.LifecycleOffline:     {fleet.HostRemove},
	} {
		for _, op := range fleet.HostOperations {
			why := l.Refusal(op, "host-1")
			if (why == "") != slices.Contains(want, op) {
				t.Errorf("%s: %s is refused by %q", l, op, why)
			}
			if why != "" && (!strings.HasPrefix(why, "host-1 ") || !strings.HasSuffix(why, ".")) {
				t.Errorf("%s: the refusal %q is no sentence about the host", l, why)
			}
		}
		if l.DisplayName() == "" || l.Severity() == "" {
			t.Errorf("%s has no display name or severity", l)
		}
	}
	if len(fleet.HostLifecycles) != 6 {
		t.Errorf("the lifecycles are %v", fleet.HostLifecycles)
	}
}

func TestHostPowerNeedsMaintenanceAndSettingOfAgent(t *testing.T) {
	t.Parallel()
	h := fleet.HostView{Host: fleet.Host{Name: "host-1", Status: &fleet.HostStatus{}}, Lifecycle: fleet.LifecycleReady}
	want := func(text string) {
		t.Helper()
		for _, act := range []fleet.Action{fleet.ActRebootHost, fleet.ActShutDownHost} {
			if _, why := h.Allows(act); why != text {
				t.Errorf("%s is refused by %q, want %q", act, why, text)
			}
			if !act.HostPowerJobKind().IsKnown() {
				t.Errorf("%s has no job kind", act)
			}
		}
	}
	want("host-1 is not in maintenance. Enter maintenance first.")
	h.Lifecycle = fleet.LifecycleMaintenance
	want("agent.yaml of host-1 does not allow it: set hostPower: true.")
	h.Status.Settings = &fleet.AgentSettings{HostPower: true}
	want("")
}
