package fleet_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
)

func TestVMPhaseDeterminesAllowedActions(t *testing.T) {
	t.Parallel()
	// Columns in the order of fleet.VMActions: start, shutdown, stop, restart, reboot, reset, pause, resume, console,
	// edit, protect, delete.
	table := map[fleet.Phase]string{
		fleet.PhaseCreating:     "---------++++",
		fleet.PhaseStarting:     "--+-----+++++",
		fleet.PhaseRunning:      "-++++++-+++++",
		fleet.PhaseNeedsRestart: "-++++++-+++++",
		fleet.PhaseStopping:     "--+--+--+++++",
		fleet.PhaseStopped:      "+--------++++",
		fleet.PhasePausing:      "--+-----+++++",
		fleet.PhasePaused:       "--+--+-++++++",
		fleet.PhaseUpdating:     "--+-----+++++",
		fleet.PhaseDeleting:     "-------------",
		fleet.PhaseFailed:       "+--------++++",
		fleet.PhaseCrashed:      "+-+------++++",
		fleet.PhaseMissing:      "+--------++++",
		fleet.PhaseLost:         "---------++++", // with FaultLost, the only cause of this phase, only protection is allowed
		fleet.PhaseUnknown:      "---------++++",
	}
	since := time.Now()
	for _, phase := range fleet.VMPhases {
		var got strings.Builder
		for _, a := range (fleet.VMView{Phase: phase, VM: fleet.VM{Status: &fleet.VMStatus{StartedAt: &since}}}).Actions() {
			if a.Allowed {
				got.WriteByte('+')
			} else {
				got.WriteByte('-')
			}
			if a.Allowed != (a.Reason == "") || !a.Allowed && !strings.HasSuffix(a.Reason, ".") {
				t.Errorf("%s, %s: allowed %t with reason %q", phase, a.Action, a.Allowed, a.Reason)
			}
		}
		if got.String() != table[phase] {
			t.Errorf("%s allows %s, want %s", phase, got.String(), table[phase])
		}
	}
}

func TestRefusedVMActionHasReason(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		phase  fleet.Phase
		action fleet.Action
		says   string
	}{
		{fleet.PhaseRunning, fleet.ActStart, "Only a stopped VM can be started."},
		{fleet.PhaseStopped, fleet.ActConsole, "no screen"},
		{fleet.PhaseUnknown, fleet.ActStart, "host is offline"},
		{fleet.PhaseCreating, fleet.ActStart, "still being created"},
		{fleet.PhaseMissing, fleet.ActStop, "does not exist on its host"},
		{fleet.PhaseDeleting, fleet.ActDelete, "being deleted"},
		{fleet.PhaseRunning, "explode", `no action "explode"`},
	} {
		if ok, why := c.phase.Allows(c.action); ok || !strings.Contains(why, c.says) {
			t.Errorf("%s of a VM that is %s: %t, %q, want %q", c.action, c.phase, ok, why, c.says)
		}
	}
}

func TestForceOffAllowedAfterFailedStart(t *testing.T) {
	t.Parallel()
	off := fleet.VMView{Phase: fleet.PhaseStopped}
	if ok, why := off.Allows(fleet.ActStop); ok || why != "The VM is not running." {
		t.Errorf("a stopped VM without a failure: %t, %q", ok, why)
	}
	off.Attention = true
	if ok, why := off.Allows(fleet.ActStop); !ok || why != "" {
		t.Errorf("a VM whose start failed: %t, %q", ok, why)
	}
	for _, phase := range []fleet.Phase{fleet.PhaseFailed, fleet.PhaseMissing, fleet.PhaseUnknown} {
		if ok, _ := (fleet.VMView{Phase: phase, Attention: true}).Allows(fleet.ActStop); ok {
			t.Errorf("a VM that is %s can be forced off", phase)
		}
	}
}

func TestEveryActionHasLabelAndJob(t *testing.T) {
	t.Parallel()
	for _, a := range fleet.VMActions {
		if !a.IsKnown() || a.Label() == "" || a.JobKind() != "" && !a.JobKind().IsKnown() {
			t.Errorf("%s: label %q, job %q", a, a.Label(), a.JobKind())
		}
	}
	if fleet.Action("explode").IsKnown() {
		t.Error("an unknown action is known")
	}
}

// libvirt reports a lost guest as off. No action may start it again, delete its disks, or show it as off.
func TestGuestLostByLibvirtAllowsOnlyProtection(t *testing.T) {
	t.Parallel()
	why := fleet.Fault{Code: fleet.FaultLost, Text: "libvirt has lost it."}
	v := fleet.VMView{Phase: fleet.PhaseLost, VM: fleet.VM{Status: &fleet.VMStatus{Power: fleet.Stopped, Faults: []fleet.Fault{why}}}}
	v.Attention = true
	for _, a := range slices.Concat(fleet.VMActions, fleet.GuestActions) {
		if a == fleet.ActProtect {
			continue
		}
		if ok, reason := v.Allows(a); ok || reason != why.Text {
			t.Errorf("%s: %t, %q", a, ok, reason)
		}
	}
	if ok, reason := v.AllowsSnapshots(nil); ok || reason != why.Text {
		t.Errorf("snapshots: %t, %q", ok, reason)
	}
	if ok, reason := v.Allows(fleet.ActProtect); !ok {
		t.Errorf("protection: %q", reason)
	}
	v.Status.Faults = nil
	if ok, reason := v.Allows(fleet.ActDelete); !ok {
		t.Errorf("without the fault: %q", reason)
	}
}
