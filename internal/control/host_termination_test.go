package control_test

import (
	"slices"
	"testing"

	"quantix/internal/control/hostpower"
	"quantix/internal/fleet"
	"quantix/internal/testkit/mockbmc"
	"quantix/internal/wire"
)

// onlyMovableVMs removes the VMs that cannot leave h1.
func (s *maintenanceFixture) onlyMovableVMs() {
	s.t.Helper()
	s.execSQL(`DELETE FROM vms WHERE id = $1`, s.db.ID)
	s.execSQL(`DELETE FROM found_vms WHERE id = $1`, s.legacy)
}

func (s *maintenanceFixture) terminate(in hostpower.TerminateHost) (fleet.Task, error) {
	s.t.Helper()
	s.markOnline()
	in.LeaveVolumes = true
	return s.TerminateHost(s.t.Context(), chief, s.h1, in)
}

func (s *maintenanceFixture) advance() {
	s.t.Helper()
	s.runPasses()
	if err := s.AdvanceTerminations(s.t.Context(), fleet.SystemActor); err != nil {
		s.t.Fatal(err)
	}
}

// steps returns the kinds and states of a task's children.
func (s *maintenanceFixture) steps(task fleet.Task) (out []string) {
	s.t.Helper()
	page, err := s.ListTasks(s.t.Context(), chief, fleet.Query{Filter: "parent:" + string(task.ID)})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, t := range slices.Backward(page.Items) {
		out = append(out, string(t.Kind)+" "+string(t.State))
		if t.State == fleet.JobFailed {
			s.t.Logf("%s: %s", t.Kind, t.Error)
		}
	}
	return out
}

func (s *maintenanceFixture) wantSteps(task fleet.Task, want ...string) {
	s.t.Helper()
	got := s.steps(task)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		s.t.Errorf("the steps are %q, want %q", got, want)
	}
}

func TestTerminationRefusesWhatWouldStay(t *testing.T) {
	s := newMaintenanceFixture(t)
	refused := func(what string, code fleet.ErrorCode, words string, in hostpower.TerminateHost) {
		t.Helper()
		s.wantRefused(what, code, words, func() error { _, err := s.terminate(in); return err })
	}
	confirmed := hostpower.TerminateHost{Confirm: "h1"}
	refused("without a power-off", fleet.Conflict, "it has no BMC, and its agent.yaml lacks hostPower", confirmed)
	s.addBMC(s.h1)
	refused("without its name", fleet.Invalid, "Type the host's name, h1.", hostpower.TerminateHost{Confirm: "h2"})
	refusedAt := func(what string, vm fleet.VMID, words string, in hostpower.TerminateHost) {
		t.Helper()
		s.wantRefusedAt(what, "decisions."+string(vm), words, func() error { _, err := s.terminate(in); return err })
	}
	refusedAt("with a VM that cannot leave", s.db.ID, "Decide what happens to db", confirmed)
	refusedAt("with a VM that nobody manages", s.legacy, "Decide what happens to legacy", confirmed)
	refusedAt("with a VM that stays", s.web.ID, "web would stay on h1", hostpower.TerminateHost{Confirm: "h1", Decisions: decisions{s.web.ID: {Do: fleet.MaintenanceShutdown}}})
	if n := s.countRows("tasks WHERE kind LIKE 'host.%'"); n != 0 {
		t.Errorf("%d tasks were added", n)
	}
	s.markOnline()
	plan, err := s.PlanTermination(t.Context(), chief, s.h1, false)
	if err != nil || plan.PowerOff != "bmc" {
		t.Fatalf("the plan is %+v, %v", plan, err)
	}
	for _, vm := range plan.VMs {
		if vm.Name == "old" && (vm.Proposal == nil || vm.Proposal.Do != fleet.MaintenanceMigrate) {
			t.Errorf("a VM that is off stays: %+v", vm.Proposal)
		}
	}
}

// TestTerminationDrainsPowersOffAndRemoves follows the steps to the end.
func TestTerminationDrainsPowersOffAndRemoves(t *testing.T) {
	s := newMaintenanceFixture(t)
	s.onlyMovableVMs()
	s.execSQL(`DELETE FROM vms WHERE id = $1`, s.old.ID)
	m := s.addBMC(s.h1)
	task, err := s.terminate(hostpower.TerminateHost{Confirm: "h1"})
	if err != nil {
		t.Fatal(err)
	}
	s.advance()
	s.wantSteps(task, "host.maintenance.enter queued", "host.power.off queued", "host.remove queued")
	s.wantRefused("a second termination", fleet.Conflict, "", func() error { _, err := s.terminate(hostpower.TerminateHost{Confirm: "h1"}); return err })
	s.finishMigration(s.web.ID, s.h1, s.h2)
	s.advance()
	s.advance()
	s.wantSteps(task, "host.maintenance.enter done", "host.power.off queued", "host.remove queued")
	m.SetLag(1)
	s.runOrders()
	s.wantSteps(task, "host.maintenance.enter done", "host.power.off running", "host.remove queued")
	s.advance()
	s.runOrders()
	s.runOrders()
	if m.Power() != "Off" {
		t.Fatal("the machine is on")
	}
	s.advance()
	s.wantSteps(task, "host.maintenance.enter done", "host.power.off done", "host.remove done")
	s.wantTask(task, fleet.JobDone, "")
	s.wantRefused("the removed host", fleet.NotFound, "", func() error { _, err := s.GetHost(t.Context(), chief, s.h1); return err })
	if vm := s.getVM(s.web.ID); vm.HostID != s.h2 {
		t.Errorf("web is on %s", vm.HostID)
	}
	if n := s.countRows("audit WHERE action IN ('host.terminate', 'host.enterMaintenance', 'host.power-off', 'host.delete') AND actor = 'chief'"); n != 4 {
		t.Errorf("%d audit lines", n)
	}
}

// TestTerminationByAgentWaitsUntilHostIsOff checks that a host which still reports is not removed.
func TestTerminationByAgentWaitsUntilHostIsOff(t *testing.T) {
	s := newMaintenanceFixture(t)
	s.onlyMovableVMs()
	s.execSQL(`DELETE FROM vms WHERE host_id = $1`, s.h1)
	s.execSQL(`UPDATE hosts SET status = status || '{"settings":{"hostPower":true}}' WHERE id = $1`, s.h1)
	task, err := s.terminate(hostpower.TerminateHost{Confirm: "h1"})
	if err != nil {
		t.Fatal(err)
	}
	s.advance()
	w := s.claimOnlyJob(s.h1, fleet.HostShutdown)
	s.finishJobWith(s.h1, w, wire.Finish{Outcome: wire.Done})
	s.advance()
	s.wantSteps(task, "host.maintenance.enter done", "host.shutdown done", "host.remove queued")
	s.goOffline(s.h1)
	if err := s.AdvanceTerminations(t.Context(), fleet.SystemActor); err != nil {
		t.Fatal(err)
	}
	s.wantTask(task, fleet.JobDone, "")
}

// TestFailedStepEndsTermination checks that nothing follows a step that has not succeeded, and that a step can be cancelled
// before it begins.
func TestFailedStepEndsTermination(t *testing.T) {
	s := newMaintenanceFixture(t)
	s.onlyMovableVMs()
	s.execSQL(`DELETE FROM vms WHERE host_id = $1`, s.h1)
	m := s.addBMC(s.h1)
	m.SetMode(mockbmc.Refuses)
	task, err := s.terminate(hostpower.TerminateHost{Confirm: "h1"})
	if err != nil {
		t.Fatal(err)
	}
	s.advance()
	s.runOrders()
	s.advance()
	s.wantSteps(task, "host.maintenance.enter done", "host.power.off failed", "host.remove cancelled")
	s.wantTask(task, fleet.JobFailed, "")
	m.SetMode(mockbmc.Honest)
	again, err := s.terminate(hostpower.TerminateHost{Confirm: "h1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.CancelTask(t.Context(), chief, again.ID); err != nil {
		t.Fatal(err)
	}
	s.advance()
	s.runOrders()
	s.wantSteps(again, "host.maintenance.enter done", "host.power.off cancelled", "host.remove cancelled")
	if m.Power() != "On" || s.getHost(s.h1).Lifecycle != fleet.LifecycleMaintenance {
		t.Error("a cancelled termination changed the host")
	}
}
