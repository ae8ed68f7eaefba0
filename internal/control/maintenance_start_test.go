package control_test

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"quantix/db"
	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// TestStartIsRefusedBeforehandOnHostInMaintenance compares the reasons that lists, pages, bulk starts and the request
// itself give, in each state of the host.
func TestStartIsRefusedBeforehandOnHostInMaintenance(t *testing.T) {
	s := newMaintenanceFixture(t)
	off := s.addDiscoveredVM(`{"power":"stopped","cpus":1,"memoryMiB":128}`)
	check := func(state, want, tenant string) {
		t.Helper()
		for who, c := range map[string]struct {
			actor fleet.Actor
			want  string
		}{"an administrator": {chief, want}, "a member": {s.member, tenant}} {
			rows, err := s.ListVMRows(t.Context(), c.actor, fleet.Query{Filter: "name:old"})
			if err != nil || len(rows.Items) != 1 {
				t.Fatalf("%s: %d rows, %v", state, len(rows.Items), err)
			}
			one, err := s.GetVM(t.Context(), c.actor, s.old.ID)
			if err != nil {
				t.Fatal(err)
			}
			for where, vm := range map[string]fleet.VMView{"row": rows.Items[0], "page": one} {
				if _, why := vm.Allows(fleet.ActStart); why != c.want {
					t.Errorf("%s: the %s of %s says %q, want %q", state, where, who, why, c.want)
				}
			}
			if c.want == "" {
				continue
			}
			if _, err := s.RequestPowerAction(t.Context(), c.actor, s.old.ID, fleet.ActStart); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: the request of %s ends with %v, want %q", state, who, err, c.want)
			}
			task, err := s.RequestPowerActions(t.Context(), c.actor, fleet.ActStart, []fleet.VMID{s.old.ID})
			if err != nil {
				t.Fatal(err)
			}
			children, err := s.ListTasks(t.Context(), c.actor, fleet.Query{Filter: "parent:" + string(task.ID)})
			if err != nil || len(children.Items) != 1 || !strings.Contains(children.Items[0].Error, c.want) || !children.Items[0].WasRefusedBeforeHost() {
				t.Errorf("%s: the children of the bulk start of %s are %+v, want %q, %v", state, who, children.Items, c.want, err)
			}
		}
		found, err := s.GetDiscoveredVM(t.Context(), chief, s.h1, off)
		if err != nil {
			t.Fatal(err)
		}
		if _, why := found.Allows(fleet.ActStart); why != want {
			t.Errorf("%s: the discovered VM says %q, want %q", state, why, want)
		}
	}
	check("ready", "", "")
	s.execSQL(`UPDATE hosts SET maintenance = '{"since":"2026-01-01T00:00:00Z","by":"chief"}' WHERE id = $1`, s.h1)
	check("draining", "h1 is entering maintenance. Leave maintenance or migrate the VM first.", "The VM's host is entering maintenance. Ask an administrator.")
	s.execSQL(`UPDATE hosts SET maintenance = maintenance || '{"enteredAt":"2026-01-01T00:00:00Z"}' WHERE id = $1`, s.h1)
	check("maintenance", "h1 is in maintenance. Leave maintenance or migrate the VM first.", "The VM's host is in maintenance. Ask an administrator.")
	s.goOffline(s.h1)
	check("offline", "h1 is powered off. Power it on first.", "The VM's host is powered off. Ask an administrator.")
}

// TestStartAndEnteringMaintenanceSeeEachOther runs both at the same time, many times. Either the start is refused, or
// the maintenance knows that the VM runs.
func TestStartAndEnteringMaintenanceSeeEachOther(t *testing.T) {
	s := newMaintenanceFixture(t)
	s.execSQL(`DELETE FROM found_vms`)
	s.execSQL(`DELETE FROM vms WHERE id <> $1`, s.old.ID)
	var started, entered int
	for range 40 {
		s.markOnline()
		var startErr, enterErr error
		var both sync.WaitGroup
		both.Go(func() { _, startErr = s.RequestPowerAction(t.Context(), s.member, s.old.ID, fleet.ActStart) })
		both.Go(func() { _, enterErr = s.EnterMaintenance(t.Context(), chief, s.h1, control.EnterMaintenance{}) })
		both.Wait()
		for what, err := range map[string]error{"start": startErr, "maintenance": enterErr} {
			if refusal := (*fleet.Error)(nil); err != nil && (!errors.As(err, &refusal) || refusal.Code != fleet.Conflict && refusal.Code != fleet.Invalid) {
				t.Fatalf("the %s ends with %v", what, err)
			}
		}
		vm, host := s.getVM(s.old.ID), s.getHost(s.h1)
		switch m := host.Maintenance; {
		case startErr != nil && enterErr != nil:
			t.Fatalf("both are refused: %v; %v", startErr, enterErr)
		case startErr == nil && vm.RequestedPower != fleet.Running:
			t.Fatal("the start was accepted, but is not requested")
		case startErr == nil && m != nil && m.LeavesRunning(s.old.ID):
			t.Fatal("the maintenance left the VM as powered off, although its start was accepted")
		}
		if startErr == nil {
			started++
		}
		if enterErr == nil {
			entered++
		}
		s.execSQL(`UPDATE hosts SET maintenance = NULL`)
		s.execSQL(`DELETE FROM jobs`)
		s.execSQL(`UPDATE vms SET spec = jsonb_set(spec, '{power}', '"stopped"'), observed_generation = generation`)
		s.reportPower(s.old.ID, fleet.Stopped)
	}
	t.Logf("%d starts and %d maintenances were accepted", started, entered)
}

// TestVMsOffBeforePowerOffStayOff checks a host that is powered off by Quantix: a VM that was off before stays off, and
// the state of any other VM is unknown.
func TestVMsOffBeforePowerOffStayOff(t *testing.T) {
	s := newMaintenanceFixture(t)
	s.execSQL(`DELETE FROM found_vms`)
	s.execSQL(`UPDATE hosts SET maintenance = '{"since":"2026-01-01T00:00:00Z","by":"chief","enteredAt":"2026-01-01T00:00:00Z"}',
		status = status || '{"settings":{"hostPower":true}}' WHERE id = $1`, s.h1)
	s.execSQL(`UPDATE hosts SET maintenance = maintenance || jsonb_build_object('decisions', jsonb_build_object($2::text, '{"do":"leave"}'::jsonb, $3::text, '{"do":"leave"}'::jsonb)) WHERE id = $1`, s.h1, s.web.ID, s.db.ID)
	check := func(when string, old fleet.Phase) {
		t.Helper()
		unknown := 2
		if old == fleet.PhaseUnknown {
			unknown = 3
		}
		if _, err := s.RefreshCounters(t.Context(), fleet.SystemActor); err != nil {
			t.Fatal(err)
		}
		for id, want := range map[fleet.VMID]fleet.Phase{s.web.ID: fleet.PhaseUnknown, s.db.ID: fleet.PhaseUnknown, s.old.ID: old} {
			vm, err := s.GetVM(t.Context(), chief, id)
			if err != nil || vm.Phase != want || vm.Attention != (want == fleet.PhaseUnknown) {
				t.Errorf("%s: %s is %s, needs attention: %t, %v", when, vm.Name, vm.Phase, vm.Attention, err)
			}
		}
		for filter, want := range map[string]int{"state:unknown": unknown, "state:stopped": 3 - unknown, "attention:yes": unknown, "attention:no": 3 - unknown} {
			if page, err := s.ListVMRows(t.Context(), chief, fleet.Query{Filter: filter}); err != nil || len(page.Items) != want {
				t.Errorf("%s: %s lists %d VMs, want %d, %v", when, filter, len(page.Items), want, err)
			}
		}
		totals, err := s.VMTotals(t.Context(), chief)
		if err != nil || totals.Phases[fleet.PhaseUnknown] != unknown || totals.NeedingAttention != unknown {
			t.Errorf("%s: the totals are %+v, %v", when, totals, err)
		}
		o, err := s.Overview(t.Context(), chief)
		if err != nil || o.VMs[fleet.PhaseUnknown] != unknown || o.VMsNeedingAttention != unknown {
			t.Errorf("%s: the dashboard has %+v, %v", when, o.VMs, err)
		}
	}
	s.goOffline(s.h1)
	check("without a command", fleet.PhaseUnknown)
	s.markOnline()
	if _, err := s.RequestHostPower(t.Context(), chief, s.h1, fleet.ActShutDownHost, "h1"); err != nil {
		t.Fatal(err)
	}
	s.finishJobWith(s.h1, s.claimOnlyJob(s.h1, fleet.HostShutdown), wire.Finish{Outcome: wire.Done})
	s.goOffline(s.h1)
	check("after the command", fleet.PhaseStopped)
	s.execSQL(`UPDATE host_sessions SET powered_off_at = seen_at - interval '6 minutes' WHERE host_id = $1`, s.h1)
	check("silent long after the command", fleet.PhaseUnknown)
}

// TestStartWaitsForEnteringMaintenance checks a start that begins while another transaction puts the host into
// maintenance.
func TestStartWaitsForEnteringMaintenance(t *testing.T) {
	s := newMaintenanceFixture(t)
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	var pid int
	if err := errors.Join(tx.QueryRow(t.Context(), `SELECT pg_backend_pid()`).Scan(&pid), db.New(tx).SetMaintenance(t.Context(), db.SetMaintenanceParams{ID: s.h1})); err != nil {
		t.Fatal(err)
	}
	if _, err := db.New(tx).LockHost(t.Context(), s.h1); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := s.RequestPowerAction(t.Context(), s.member, s.old.ID, fleet.ActStart)
		ended <- err
	}()
	for s.countRows("pg_stat_activity WHERE "+strconv.Itoa(pid)+" = ANY (pg_blocking_pids(pid))") == 0 {
		select {
		case err := <-ended:
			t.Fatalf("the start did not wait: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	if err := errors.Join(db.New(tx).SetMaintenance(t.Context(), db.SetMaintenanceParams{ID: s.h1, Maintenance: &fleet.HostMaintenance{By: "chief"}}), tx.Commit(t.Context())); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "entering maintenance") {
		t.Errorf("the start ends with %v", err)
	}
}

// TestResumedMaintenanceOffersDecisionsAboutVMsShutDown checks a maintenance that was cancelled after it had shut down a
// VM: the VM is started afterwards unless a user decides otherwise.
func TestResumedMaintenanceOffersDecisionsAboutVMsShutDown(t *testing.T) { //nolint:tparallel // the fixture makes the subtests parallel
	t.Parallel()
	for do, started := range map[fleet.MaintenanceDo]bool{"": true, fleet.MaintenanceShutdown: true, fleet.MaintenanceLeave: false} {
		t.Run("decision "+string(do), func(t *testing.T) {
			s := newMaintenanceFixture(t)
			task := s.enter(decisions{s.db.ID: {Do: fleet.MaintenanceShutdown}, s.legacy: {Do: fleet.MaintenanceLeave}})
			s.execSQL(`UPDATE tasks SET begin_after = now() + interval '1 hour' WHERE parent_id = $1 AND kind = 'vm.migrate'`, task.ID)
			s.runPasses()
			s.finishShutdown(s.db.ID, s.h1)
			if _, err := s.CancelTask(t.Context(), chief, task.ID); err != nil {
				t.Fatal(err)
			}
			s.markOnline()
			plan, err := s.PlanMaintenance(t.Context(), chief, s.h1, false)
			if err != nil {
				t.Fatal(err)
			}
			for _, vm := range plan.VMs {
				switch vm.Name {
				case "db":
					if vm.Runs || vm.Proposal == nil || vm.Proposal.Do != fleet.MaintenanceShutdown || len(vm.Choices) != 3 {
						t.Errorf("db has the choices %+v, proposed %+v", vm.Choices, vm.Proposal)
					}
					if vm.Reason == "" {
						t.Error("the plan does not say why db cannot migrate")
					}
				case "old":
					if vm.Proposal == nil || vm.Proposal.Do != fleet.MaintenanceLeave || vm.Reason != "" {
						t.Errorf("old is proposed %+v: %s", vm.Proposal, vm.Reason)
					}
				}
			}
			given := decisions{s.web.ID: {Do: fleet.MaintenanceLeave}}
			if do != "" {
				given[s.db.ID] = fleet.MaintenanceDecision{Do: do}
			}
			again := s.enter(given)
			if again.Steps != nil {
				t.Errorf("%q: a VM that is off has a child task: %+v", do, again.Steps)
			}
			s.wantLifecycle(fleet.LifecycleMaintenance)
			leave, err := s.PlanLeave(t.Context(), chief, s.h1)
			if err != nil || len(leave.Start) == 1 != started {
				t.Errorf("%q: leaving starts %+v, %v", do, leave.Start, err)
			}
		})
	}
}

// TestMigrationTasksNameTargetHost checks that lists of tasks name both hosts of a migration, for users who see hosts.
func TestMigrationTasksNameTargetHost(t *testing.T) {
	s := newMaintenanceFixture(t)
	task, err := s.MigrateVMs(t.Context(), chief, []fleet.VMID{s.web.ID, s.legacy}, control.MigrateVM{HostID: s.h2})
	if err != nil {
		t.Fatal(err)
	}
	s.runPasses()
	got, err := s.GetTask(t.Context(), chief, task.ID)
	if err != nil || *got.Steps != (fleet.Steps{Queued: 1, Refused: 1}) {
		t.Errorf("the children count as %+v, %v", got.Steps, err)
	}
	for who, c := range map[string]struct {
		actor        fleet.Actor
		host, target string
	}{"an administrator": {chief, "h1", "h2"}, "a member": {s.member, "", ""}} {
		page, err := s.ListTasks(t.Context(), c.actor, fleet.Query{Filter: "target:web kind:vm.migrate"})
		if err != nil || len(page.Items) != 1 || page.Items[0].HostName != c.host || page.Items[0].TargetHostName != c.target {
			t.Errorf("%s sees %+v, %v", who, page.Items, err)
		}
	}
}

// TestMaintenancePlanFitsIntoPools checks a plan whose VMs fit into the other host's pool alone, but not together.
func TestMaintenancePlanFitsIntoPools(t *testing.T) {
	s := newMaintenanceFixture(t)
	s.execSQL(`DELETE FROM found_vms`)
	a, b := s.migratableVM("a", s.local), s.migratableVM("b", s.local)
	s.setPoolSizes(s.nfs, 2<<10, 0, 512) // each VM has a disk of 1,024 MiB
	plan, err := s.PlanMaintenance(t.Context(), chief, s.h1, true)
	if err != nil {
		t.Fatal(err)
	}
	const full = "After the other VMs, pool nfs on h2 has 512 MiB not provisioned to volumes; this VM's disks may grow to 1 GiB."
	for _, vm := range plan.VMs {
		switch {
		case vm.ID == a.ID && (vm.Proposal == nil || vm.Proposal.HostID != s.h2):
			t.Errorf("a is proposed %+v: %s", vm.Proposal, vm.Reason)
		case vm.ID == b.ID && (vm.Proposal != nil || vm.Reason != full || vm.LacksRoom):
			t.Errorf("b is proposed %+v: %s", vm.Proposal, vm.Reason)
		}
	}
	if len(plan.Pools) != 1 || plan.Pools[0].PoolID != s.nfs || plan.Pools[0].HostID != "" || plan.Pools[0].FreeBytes != 1536<<20 {
		t.Errorf("the plan has the pools %+v", plan.Pools)
	}
	s.wantRefused("two VMs whose disks do not fit together", fleet.Invalid, "b: "+full, func() error {
		_, err := s.EnterMaintenance(t.Context(), chief, s.h1, control.EnterMaintenance{
			Decisions: decisions{b.ID: {Do: fleet.MaintenanceMigrate, HostID: s.h2}}, Default: fleet.MaintenanceShutdown,
		})
		return err
	})
	task, err := s.EnterMaintenance(t.Context(), chief, s.h1, control.EnterMaintenance{Default: fleet.MaintenanceShutdown})
	if err != nil {
		t.Fatal(err)
	}
	if got := queryValue[string](&hostFixture{t: t, pool: s.pool}, `SELECT string_agg(subject_name || ' ' || kind, ', ' ORDER BY subject_name) FROM tasks WHERE parent_id = $1`, task.ID); got != "a vm.migrate, b vm.shutdown, db vm.shutdown, web vm.migrate" {
		t.Errorf("the children are %s", got)
	}
}
