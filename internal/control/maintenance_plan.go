package control

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"quantix/db"
	"quantix/internal/control/query"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/maintenance"
	"quantix/internal/policy"
)

// PlanMaintenance returns what can happen to each VM of a host that enters maintenance: every VM of Quantix on the host,
// and the running discovered VMs. The proposals together fit on the other hosts, unless overcommit is true. It changes
// nothing.
func (c *Control) PlanMaintenance(ctx context.Context, a fleet.Actor, id fleet.HostID, overcommit bool) (maintenance.Plan, error) {
	host, err := c.hostToMaintain(ctx, a, id)
	if err != nil {
		return maintenance.Plan{}, err
	}
	if err := checkMayOvercommit(a, overcommit); err != nil {
		return maintenance.Plan{}, err
	}
	plan := maintenance.Plan{HostID: id, HostName: host.Name, VMs: []maintenance.VM{}, Overcommit: overcommit, Targets: []maintenance.Room{}, Pools: []maintenance.Pool{}}
	var before fleet.HostMaintenance
	if host.Maintenance != nil {
		before = *host.Maintenance
		if _, err := recordMaintenanceResults(ctx, c.store.Queries, &before); err != nil {
			return plan, store.UserError(err)
		}
	}
	ids, err := c.store.VMsOfHosts(ctx, []string{string(id)})
	if err != nil {
		return plan, store.UserError(err)
	}
	vms, err := visibleVMs(ctx, c.store.Queries, a, ids)
	if err != nil {
		return plan, err
	}
	space, err := c.readMaintenanceSpace(ctx, a, overcommit)
	if err != nil {
		return plan, err
	}
	all := make([]fleet.VMView, 0, len(vms))
	for _, vm := range vms {
		all = append(all, vm)
	}
	slices.SortFunc(all, func(x, y fleet.VMView) int { return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.ID, y.ID)) })
	migrations, err := c.planMigrations(ctx, a, all, overcommit)
	if err != nil {
		return plan, err
	}
	moves := make([][]maintenance.Choice, len(all))
	for i, vm := range all {
		moves[i] = maintenanceMigrations(vm, migrations[i])
		space.AddPools(moves[i])
	}
	plan.Targets, plan.Pools = space.Hosts(id), space.Pools()
	for i, vm := range all {
		plan.VMs = append(plan.VMs, planMaintenanceOfVM(vm, moves[i], space, before.Decisions[vm.ID].HostID))
	}
	found, err := query.ReadAllPages(ctx, a, fleet.Query{Filter: fmt.Sprintf("host:%q", host.Name)}, c.ListDiscoveredVMs)
	if err != nil {
		return plan, err
	}
	for _, vm := range found {
		if vm.HostID == id && isOn(&vm.Status) {
			plan.VMs = append(plan.VMs, planMaintenanceOfDiscoveredVM(vm))
		}
	}
	for i := range plan.VMs {
		plan.VMs[i].ProposeAgain(before.Decisions)
		if vm := plan.VMs[i]; !vm.Runs && slices.Contains(before.Stopped, vm.ID) {
			plan.VMs[i].OfferStart()
		}
	}
	return plan, nil
}

// hostToMaintain returns the host, or an error if the actor may not maintain it or its lifecycle refuses to enter
// maintenance.
func (c *Control) hostToMaintain(ctx context.Context, a fleet.Actor, id fleet.HostID) (fleet.HostView, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return fleet.HostView{}, err
	}
	host, err := c.GetHost(ctx, a, id)
	if err != nil {
		return host, err
	}
	return host, conflictIfNotAllowed(host.Allows(fleet.ActEnterMaintenance))
}

// isOn reports whether the status is that of a running or paused VM.
func isOn(s *fleet.VMStatus) bool {
	return s != nil && (s.Power == fleet.Running || s.Power == fleet.Paused)
}

// readMaintenanceSpace returns what the hosts can still allocate.
func (c *Control) readMaintenanceSpace(ctx context.Context, a fleet.Actor, overcommit bool) (*maintenance.Space, error) {
	hosts, err := query.ReadAllPages(ctx, a, fleet.Query{}, c.ListHosts)
	if err != nil {
		return nil, err
	}
	used, err := c.store.Committed(ctx, "") // also VMs that are migrating to the host
	if err != nil {
		return nil, store.UserError(err)
	}
	committed := make(map[fleet.HostID]db.CommittedRow, len(used))
	for _, u := range used {
		committed[u.HostID] = u
	}
	rooms := make([]maintenance.Room, len(hosts))
	for i, h := range hosts {
		u := committed[h.ID]
		rooms[i] = maintenance.Room{HostID: h.ID, HostName: h.Name, MemoryMiB: h.Capacity.AllocatableMemoryMiB - u.Mib - u.DiscoveredMib}
		if h.Capacity.Threads > 0 {
			left := h.Capacity.AllocatableCPUs - u.Cpus - u.DiscoveredCpus
			rooms[i].CPUs = &left
		}
	}
	return maintenance.NewSpace(rooms, overcommit), nil
}

// takeBest is MaintenanceSpace.TakeBest with a reason also if no host is allowed.
func takeBest(space *maintenance.Space, choices []maintenance.Choice, spec fleet.VMSpec, preferred fleet.HostID) (best *fleet.MaintenanceDecision, why string, hostFull bool) {
	best, why, hostFull = space.TakeBest(choices, spec.CPUs, spec.MemoryMiB, preferred)
	if best == nil && why == "" {
		why = whyNoMigration(choices)
	}
	return best, why, hostFull
}

// planMaintenanceOfVM lists the choices for a VM of Quantix. A VM that is off stays on the host unless a user decides
// otherwise. earlier is the host that an earlier decision names; empty: none.
func planMaintenanceOfVM(vm fleet.VMView, moves []maintenance.Choice, space *maintenance.Space, earlier fleet.HostID) maintenance.VM {
	line := maintenance.VM{
		ID: vm.ID, Name: vm.Name, ProjectID: vm.ProjectID, ProjectName: vm.ProjectName, Managed: true, Phase: vm.Phase,
		CPUs: vm.Spec.CPUs, MemoryMiB: vm.Spec.MemoryMiB,
		Runs: vm.DeletedAt == nil && (isOn(vm.Status) || vm.RequestedPower == fleet.Running),
	}
	line.Choices = append(line.Choices, moves...)
	if line.Runs {
		down := maintenance.Choice{MaintenanceDecision: fleet.MaintenanceDecision{Do: fleet.MaintenanceShutdown}}
		down.Allowed, down.Reason = vm.Allows(fleet.ActShutdown)
		line.Choices = append(line.Choices, down)
	}
	stay := fleet.MaintenanceDecision{Do: fleet.MaintenanceLeave}
	line.Choices = append(line.Choices, maintenance.Choice{MaintenanceDecision: stay, Allowed: true})
	if !line.Runs {
		if line.Proposal = &stay; !slices.ContainsFunc(moves, func(m maintenance.Choice) bool { return m.Allowed }) {
			line.Reason = whyNoMigration(moves)
		}
		return line
	}
	line.Proposal, line.Reason, line.LacksRoom = takeBest(space, moves, vm.Spec, earlier)
	return line
}

// whyNoMigration is the reason against a migration if none is allowed.
func whyNoMigration(moves []maintenance.Choice) string {
	if len(moves) == 0 {
		return "There is no other host."
	}
	return moves[0].Reason
}

// maintenanceMigrations lists one choice for each other host: with the best pool, or with the first reason against the
// host.
func maintenanceMigrations(vm fleet.VMView, plan fleet.MigrationPlan) []maintenance.Choice {
	mode := fleet.MigrateCold
	if vm.MigratesLive() {
		mode = fleet.MigrateLive
	}
	out := make([]maintenance.Choice, len(plan.Targets))
	for i, t := range plan.Targets {
		out[i] = maintenance.Choice{
			MaintenanceDecision: fleet.MaintenanceDecision{Do: fleet.MaintenanceMigrate, HostID: t.HostID, PoolID: t.PoolID},
			HostName:            t.HostName, PoolName: t.PoolName, Mode: mode, Method: t.Method, Allowed: t.Allowed && plan.Reason == "", Reason: cmp.Or(plan.Reason, t.Reason),
			LacksRoom: t.HostFull && plan.Reason == "", Copies: t.Copies,
		}
	}
	return out
}

func planMaintenanceOfDiscoveredVM(vm fleet.DiscoveredVM) maintenance.VM {
	down := maintenance.Choice{MaintenanceDecision: fleet.MaintenanceDecision{Do: fleet.MaintenanceShutdown}}
	down.Allowed, down.Reason = vm.Allows(fleet.ActShutdown)
	return maintenance.VM{
		ID: vm.ID, Name: vm.Name, Phase: vm.Phase, Runs: true, Reason: "Quantix does not manage it, so it cannot be migrated.",
		Choices: []maintenance.Choice{down, {MaintenanceDecision: fleet.MaintenanceDecision{Do: fleet.MaintenanceLeave}, Allowed: true}},
	}
}
