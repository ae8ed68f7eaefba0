package fleet_test

import (
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
)

// Each action of the guest agent that a VM refuses has a reason.
func TestRefusedGuestActionHasReason(t *testing.T) {
	t.Parallel()
	answers := &fleet.GuestStatus{Agent: fleet.AgentAnswers}
	frozen := &fleet.GuestStatus{Agent: fleet.AgentAnswers, Frozen: true}
	view := func(p fleet.Phase, g *fleet.GuestStatus) fleet.VMView {
		return fleet.VMView{Phase: p, VM: fleet.VM{Status: &fleet.VMStatus{Power: fleet.Running, Guest: g}}}
	}
	allows := func(p fleet.Phase, g *fleet.GuestStatus, wanted, there bool) fleet.VMView {
		v := view(p, g)
		v.Spec.Policy.GuestExec, v.Status.Policy.GuestExec = wanted, there
		return v
	}
	for _, c := range []struct {
		v      fleet.VMView
		action fleet.Action
		says   string // empty: allowed
	}{
		{view(fleet.PhaseRunning, answers), fleet.ActFreeze, ""},
		{view(fleet.PhaseNeedsRestart, answers), fleet.ActTrim, ""},
		{view(fleet.PhaseUpdating, answers), fleet.ActClock, ""},
		{view(fleet.PhaseRunning, frozen), fleet.ActThaw, ""},
		{view(fleet.PhaseRunning, answers), fleet.ActThaw, "not frozen"},
		{view(fleet.PhaseRunning, frozen), fleet.ActFreeze, "already"},
		{view(fleet.PhaseRunning, frozen), fleet.ActTrim, "Thaw the file systems first."},
		{view(fleet.PhaseRunning, frozen), fleet.ActGuestPassword, "Thaw the file systems first."},
		{view(fleet.PhaseRunning, nil), fleet.ActFreeze, "too old"},
		{view(fleet.PhaseRunning, &fleet.GuestStatus{Agent: fleet.AgentNone}), fleet.ActFreeze, "no channel"},
		{view(fleet.PhaseRunning, &fleet.GuestStatus{Agent: fleet.AgentNotResponding}), fleet.ActGuestPassword, "does not answer"},
		{view(fleet.PhaseRunning, &fleet.GuestStatus{Agent: "mumbles"}), fleet.ActGuestPassword, "does not answer"},
		{view(fleet.PhaseRunning, answers), fleet.ActExec, "does not allow programs"},
		{allows(fleet.PhaseRunning, answers, true, false), fleet.ActExec, "The host has not yet applied the policy that"},
		{allows(fleet.PhaseRunning, answers, false, true), fleet.ActExec, "does not allow programs"},
		{allows(fleet.PhaseRunning, answers, true, true), fleet.ActExec, ""},
		{allows(fleet.PhaseRunning, frozen, true, true), fleet.ActExec, "Thaw the file systems first."},
		{allows(fleet.PhaseRunning, &fleet.GuestStatus{Agent: fleet.AgentNotResponding}, true, true), fleet.ActExec, "does not answer"},
		{allows(fleet.PhaseRunning, nil, true, true), fleet.ActExec, "too old"},
		{allows(fleet.PhaseStopped, nil, true, true), fleet.ActExec, "not running"},
		{view(fleet.PhaseStopped, nil), fleet.ActTrim, "not running"},
		{view(fleet.PhasePaused, answers), fleet.ActTrim, "not running"},
		{view(fleet.PhaseUnknown, answers), fleet.ActThaw, "offline"},
		{view(fleet.PhaseDeleting, answers), fleet.ActThaw, "being deleted"},
	} {
		ok, why := c.v.Allows(c.action)
		if ok != (c.says == "") || !strings.Contains(why, c.says) || !ok && !strings.HasSuffix(why, ".") {
			t.Errorf("%s of a VM that is %s with %+v: %t, %q", c.action, c.v.Phase, c.v.Status.Guest, ok, why)
		}
	}
	for _, a := range fleet.GuestActions {
		if !a.IsKnown() || a.Label() == "" || !a.JobKind().Info().UsesGuest {
			t.Errorf("%s: word %q, job %q", a, a.Label(), a.JobKind())
		}
	}
}

func TestExpiryFaultNamesExpiryTime(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		in     time.Duration
		stops  bool
		expiry fleet.Expiry
		says   string
	}{
		{8 * 24 * time.Hour, true, "", ""},
		{fleet.ExpiryNotice, false, fleet.ExpiresSoon, "The VM expires on 8 March 2026, 12:00 UTC. Renew"},
		{time.Second, true, fleet.ExpiresSoon, "and is shut down then"},
		{0, false, fleet.Expired, "The VM expired on 1 March 2026"},
		{-time.Hour, true, fleet.Expired, "was asked to shut down"},
	} {
		end := now.Add(c.in)
		vm := fleet.VM{Meta: fleet.Meta{Protection: fleet.VMProtection{ExpiresAt: &end, ExpiryStops: c.stops}.WithExpiryAt(now)}}
		f := vm.ExpiryFault()
		if vm.Protection.Expiry != c.expiry || (f == nil) != (c.says == "") || f != nil && !strings.Contains(f.Text, c.says) {
			t.Errorf("in %s: %q, %+v", c.in, vm.Protection.Expiry, f)
		}
	}
	if f := (fleet.VM{}).ExpiryFault(); f != nil || (fleet.VMProtection{}).WithExpiryAt(now).Expiry != "" {
		t.Error("a VM without expiry expires")
	}
}
