package maintenance_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/maintenance"
)

const gib = int64(1) << 30

// copyTo is the migration of a VM with disks of the size to a pool of the host.
func copyTo(host fleet.HostID, pool fleet.PoolID, size, free int64, shared bool) maintenance.Choice {
	return maintenance.Choice{
		MaintenanceDecision: fleet.MaintenanceDecision{Do: fleet.MaintenanceMigrate, HostID: host}, HostName: string(host), Method: fleet.MethodCopy, Allowed: true,
		Copies: []fleet.PoolCopy{{PoolID: pool, PoolName: string(pool), Bytes: size, FreeBytes: free, Shared: shared}},
	}
}

func rooms(names ...fleet.HostID) (out []maintenance.Room) {
	for i, name := range names {
		out = append(out, maintenance.Room{HostID: name, HostName: string(name), MemoryMiB: 100_000 - int64(i)})
	}
	return out
}

// TestMaintenanceSpaceSumsCopiedDisks allocates VMs with disks of 50 GiB until no pool has space.
func TestMaintenanceSpaceSumsCopiedDisks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		shared, overcommit bool
		want               string
	}{
		"a pool of each host":             {false, false, "h2 h3 h2"},
		"a pool that the hosts share":     {true, false, "h2 h3"},
		"overcommit of the other hosts":   {false, true, "h2 h3 h2"},
		"overcommit beside a shared pool": {true, true, "h2 h3"},
	} {
		space := maintenance.NewSpace(rooms("h2", "h3"), c.overcommit)
		choices := []maintenance.Choice{copyTo("h2", "ssd", 50*gib, 100*gib, c.shared), copyTo("h3", "ssd", 50*gib, 60*gib, c.shared)}
		space.AddPools(choices)
		var got []string
		for {
			best, why, hostFull := space.TakeBest(choices, 1, 1024, "")
			if best == nil {
				if want := "After the other VMs, pool ssd on h2 has 0 B not provisioned to volumes; this VM's disks may grow to 50 GiB."; !c.shared && !strings.Contains(why, "pool ssd on ") || c.shared && why != want || hostFull {
					t.Errorf("%s: the reason is %q, the host is full: %t", name, why, hostFull)
				}
				break
			}
			got = append(got, string(best.HostID))
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s: the VMs go to %s, want %s", name, got, c.want)
		}
	}
}

func TestMaintenanceSpaceTakesNothingIfHostIsFull(t *testing.T) {
	t.Parallel()
	space := maintenance.NewSpace(rooms("h2"), false)
	c := copyTo("h2", "ssd", 50*gib, 100*gib, false)
	space.AddPools([]maintenance.Choice{c})
	if why, hostFull := space.Take(c, 1, 200_000); !strings.Contains(why, "100,000 MiB of memory left; this VM needs 200,000") || !hostFull {
		t.Errorf("the reason is %q, the host is full: %t", why, hostFull)
	}
	if p := space.Pools(); len(p) != 1 || p[0].FreeBytes != 100*gib || p[0].HostName != "h2" {
		t.Errorf("the pools are %+v", p)
	}
	if why, _ := space.Take(c, 1, 100_000); why != "" {
		t.Errorf("a VM that just fits: %s", why)
	}
	if p, h := space.Pools(), space.Hosts(""); p[0].FreeBytes != 50*gib || h[0].MemoryMiB != 0 {
		t.Errorf("then the space is %+v, %+v", p, h)
	}
}

func maintenancePlan() maintenance.Plan {
	shutdown := maintenance.Choice{MaintenanceDecision: fleet.MaintenanceDecision{Do: fleet.MaintenanceShutdown}, Allowed: true}
	leave := maintenance.Choice{MaintenanceDecision: fleet.MaintenanceDecision{Do: fleet.MaintenanceLeave}, Allowed: true}
	busy := shutdown
	busy.Allowed, busy.Reason = false, "The VM has a task."
	move := copyTo("h2", "ssd", 60*gib, 100*gib, false)
	return maintenance.Plan{HostName: "h1", Targets: rooms("h2"), VMs: []maintenance.VM{
		{ID: "web", Name: "web", Runs: true, Choices: []maintenance.Choice{move, shutdown, leave}, Proposal: &move.MaintenanceDecision},
		{ID: "db", Name: "db", Runs: true, Choices: []maintenance.Choice{move, shutdown, leave}, Reason: "It cannot migrate."},
		{ID: "task", Name: "task", Runs: true, Choices: []maintenance.Choice{busy, leave}, Reason: "It cannot migrate."},
	}}
}

func wantFields(t *testing.T, err error, want ...string) {
	t.Helper()
	var got []string
	if refused, ok := errors.AsType[*fleet.Error](err); ok {
		for _, f := range refused.Fields {
			got = append(got, f.Field+": "+f.Message)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the errors are\n%s, want\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestMaintenancePlanRefusesMoreDisksThanPoolHolds(t *testing.T) {
	t.Parallel()
	p := maintenancePlan()
	given := map[fleet.VMID]fleet.MaintenanceDecision{"db": {Do: fleet.MaintenanceMigrate, HostID: "h2"}, "task": {Do: fleet.MaintenanceLeave}}
	for _, overcommit := range []bool{false, true} {
		p.Overcommit = overcommit
		_, err := p.Decide(given)
		wantFields(t, err, "decisions.db: db: After the other VMs, pool ssd on h2 has 40 GiB not provisioned to volumes; this VM's disks may grow to 60 GiB.")
	}
	given["web"] = fleet.MaintenanceDecision{Do: fleet.MaintenanceShutdown}
	if _, err := p.Decide(given); err != nil {
		t.Errorf("with one of the VMs: %v", err)
	}
}

func TestMaintenanceDefaultDecidesOnlyUndecidedVMs(t *testing.T) {
	t.Parallel()
	p := maintenancePlan()
	if err := p.ApplyDefault(fleet.MaintenanceShutdown); err != nil {
		t.Fatal(err)
	}
	if p.Undecided() != 1 || p.VMs[0].Proposal.Do != fleet.MaintenanceMigrate || p.VMs[1].Proposal.Do != fleet.MaintenanceShutdown {
		t.Errorf("the plan is %+v", p.VMs)
	}
	_, err := p.Decide(nil)
	wantFields(t, err, "decisions.task: Decide what happens to task: It cannot migrate.")
	got, err := p.Decide(map[fleet.VMID]fleet.MaintenanceDecision{"db": {Do: fleet.MaintenanceLeave}, "task": {Do: fleet.MaintenanceLeave}})
	if err != nil || got["db"].Do != fleet.MaintenanceLeave {
		t.Errorf("the decisions are %+v, %v", got, err)
	}
	for _, do := range []fleet.MaintenanceDo{fleet.MaintenanceMigrate, "stop"} {
		p := maintenancePlan()
		wantFields(t, p.ApplyDefault(do), "default: Use shutdown or leave.")
	}
	p = maintenancePlan()
	if err := p.ApplyDefault(""); err != nil || p.Undecided() != 2 {
		t.Errorf("without a default, %d VMs are undecided, %v", p.Undecided(), err)
	}
}

// TestMaintenancePlanNeedsDecisionForEachRunningVM checks the decisions of a plan with a VM of each kind.
func TestMaintenancePlanNeedsDecisionForEachRunningVM(t *testing.T) {
	t.Parallel()
	migrate := func(host, pool, why string) maintenance.Choice {
		return maintenance.Choice{
			MaintenanceDecision: fleet.MaintenanceDecision{Do: fleet.MaintenanceMigrate, HostID: fleet.HostID(host), PoolID: fleet.PoolID(pool)}, Allowed: why == "", Reason: why,
		}
	}
	other := func(do fleet.MaintenanceDo) maintenance.Choice {
		return maintenance.Choice{MaintenanceDecision: fleet.MaintenanceDecision{Do: do}, Allowed: true}
	}
	live := migrate("h2", "", "")
	plan := maintenance.Plan{HostName: "host-1", VMs: []maintenance.VM{
		{ID: "a", Name: "web", Runs: true, Choices: []maintenance.Choice{live, migrate("h3", "", "h3 is full."), other(fleet.MaintenanceShutdown)}, Proposal: &live.MaintenanceDecision},
		{ID: "b", Name: "db", Runs: true, Choices: []maintenance.Choice{migrate("h2", "", "Its disk is local."), other(fleet.MaintenanceShutdown), other(fleet.MaintenanceLeave)}, Reason: "Its disk is local."},
		{ID: "c", Name: "off", Choices: []maintenance.Choice{migrate("h2", "p1", ""), other(fleet.MaintenanceLeave)}, Proposal: &fleet.MaintenanceDecision{Do: fleet.MaintenanceLeave}},
	}}
	if plan.Undecided() != 1 {
		t.Errorf("%d VMs are undecided", plan.Undecided())
	}
	type decisions = map[fleet.VMID]fleet.MaintenanceDecision
	refused := func(given decisions, field, says string) {
		t.Helper()
		_, err := plan.Decide(given)
		var refusal *fleet.Error
		if refusal, _ = err.(*fleet.Error); refusal == nil || !slices.ContainsFunc(refusal.Fields, func(f fleet.FieldError) bool { //nolint:errorlint // not wrapped
			return f.Field == "decisions."+field && strings.Contains(f.Message, says)
		}) {
			t.Errorf("%v: %+v, want %q at %s", given, err, says, field)
		}
	}
	refused(nil, "b", "Decide what happens to db: Its disk is local.")
	refused(decisions{"b": {Do: fleet.MaintenanceMigrate}}, "b", "Choose the host that db is migrated to.")
	refused(decisions{"b": {Do: fleet.MaintenanceMigrate, HostID: "h2"}}, "b", "db: Its disk is local.")
	refused(decisions{"a": {Do: fleet.MaintenanceMigrate, HostID: "h3"}}, "a", "h3 is full.")
	refused(decisions{"a": {Do: fleet.MaintenanceLeave}}, "a", "not possible for web")
	refused(decisions{"x": {Do: fleet.MaintenanceLeave}}, "x", "host-1 does not have this VM.")
	got, err := plan.Decide(decisions{"b": {Do: fleet.MaintenanceShutdown}, "c": {Do: fleet.MaintenanceMigrate, HostID: "h2"}})
	want := decisions{"a": live.MaintenanceDecision, "b": {Do: fleet.MaintenanceShutdown}, "c": {Do: fleet.MaintenanceMigrate, HostID: "h2", PoolID: "p1"}}
	if err != nil || len(got) != 3 || got["a"] != want["a"] || got["b"] != want["b"] || got["c"] != want["c"] {
		t.Errorf("the decisions are %v, %v, want %v", got, err, want)
	}
}
