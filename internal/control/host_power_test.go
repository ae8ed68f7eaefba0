package control_test

import (
	"testing"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

func TestHostPowerNeedsMaintenanceSettingAndName(t *testing.T) {
	s := newMaintenanceFixture(t)
	power := func(act fleet.Action, name string) func() error {
		return func() error { _, err := s.RequestHostPower(t.Context(), chief, s.h2, act, name); return err }
	}
	s.wantRefused("outside maintenance", fleet.Conflict, "h2 is not in maintenance.", power(fleet.ActRebootHost, "h2"))
	if _, err := s.EnterMaintenance(t.Context(), chief, s.h2, control.EnterMaintenance{}); err != nil {
		t.Fatal(err)
	}
	s.wantRefused("without the agent's setting", fleet.Conflict, "agent.yaml of h2 does not allow it: set hostPower: true.", power(fleet.ActRebootHost, "h2"))
	s.execSQL(`UPDATE hosts SET status = status || '{"settings":{"hostPower":true}}' WHERE id = $1`, s.h2)
	s.wantRefused("without its name", fleet.Invalid, "Type the host's name, h2.", power(fleet.ActRebootHost, "h1"))
	s.wantRefused("another action", fleet.Invalid, "Use reboot or shutdown", power(fleet.ActReset, "h2"))
	if err := power(fleet.ActShutDownHost, "h2")(); err != nil {
		t.Fatal(err)
	}
	task, err := s.RequestHostPower(t.Context(), chief, s.h2, fleet.ActRebootHost, "h2")
	if err != nil || task.Kind != fleet.HostReboot || task.HostID != s.h2 {
		t.Fatalf("the task is %+v, %v", task, err)
	}
	w := s.claimOnlyJob(s.h2, fleet.HostReboot)
	s.finishJobWith(s.h2, w, wire.Finish{Outcome: wire.Done})
	if got, err := s.GetTask(t.Context(), chief, task.ID); err != nil || got.State != fleet.JobDone {
		t.Errorf("the task is %s, %v", got.State, err)
	}
	if n := s.countRows("jobs WHERE kind = 'host.shutdown' AND state = 'cancelled'"); n != 1 {
		t.Errorf("the earlier command is not cancelled")
	}
	s.execSQL(`UPDATE vms SET host_id = $1 WHERE id = $2`, s.h2, s.web.ID)
	s.wantRefused("with a running VM", fleet.Conflict, "web runs on h2", power(fleet.ActRebootHost, "h2"))
	s.execSQL(`UPDATE vms SET host_id = $1 WHERE id = $2`, s.h1, s.web.ID)
	if err := power(fleet.ActRebootHost, "h2")(); err != nil {
		t.Fatal(err)
	}
	s.execSQL(`UPDATE jobs SET created_at = now() - interval '3 minutes' WHERE kind = 'host.reboot'`)
	s.runPasses()
	if n := s.countRows("jobs WHERE kind = 'host.reboot' AND state = 'cancelled'"); n != 1 {
		t.Errorf("%d commands are cancelled that the host did not get in time, want 1", n)
	}
	if err := power(fleet.ActRebootHost, "h2")(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.LeaveMaintenance(t.Context(), chief, s.h2, nil); err != nil {
		t.Fatal(err)
	}
	if n := s.countRows("jobs WHERE kind IN ('host.reboot', 'host.shutdown') AND state = 'queued'"); n != 0 {
		t.Errorf("%d commands outlive the maintenance", n)
	}
}

func TestHostPowerRefusedWhileVMIsOnItsWay(t *testing.T) {
	s := newMaintenanceFixture(t)
	s.execSQL(`UPDATE hosts SET status = status || '{"settings":{"hostPower":true}}' WHERE id = $1`, s.h2)
	if _, err := s.MigrateVM(t.Context(), chief, s.web.ID, control.MigrateVM{HostID: s.h2}); err != nil {
		t.Fatal(err)
	}
	s.execSQL(`UPDATE hosts SET maintenance = '{"since":"2026-01-01T00:00:00Z","by":"chief","enteredAt":"2026-01-01T00:00:00Z"}' WHERE id = $1`, s.h2)
	s.wantRefused("during a migration to the host", fleet.Conflict, "h2 has 2 transfers in progress", func() error {
		_, err := s.RequestHostPower(t.Context(), chief, s.h2, fleet.ActRebootHost, "h2")
		return err
	})
}
