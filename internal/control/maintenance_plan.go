package control

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"quantix/internal/control/query"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// PlanMaintenance returns what can happen to each VM of a host that enters maintenance: every VM of Quantix on the host,
// and the running discovered VMs. It changes nothing.
func (c *Control) PlanMaintenance(ctx context.Context, a fleet.Actor, id fleet.HostID) (fleet.MaintenancePlan, error) {
	host, err := c.hostToMaintain(ctx, a, id)
	if err != nil {
		return fleet.MaintenancePlan{}, err
	}
	plan := fleet.MaintenancePlan{HostID: id, HostName: host.Name, VMs: []fleet.MaintenanceVM{}}
	earlier := map[fleet.VMID]fleet.MaintenanceDecision{}
	if host.Maintenance != nil {
		earlier = host.Maintenance.Decisions
	}
	ids, err := c.store.VMsOfHosts(ctx, []string{string(id)})
	if err != nil {
		return plan, store.UserError(err)
	}
	vms, err := visibleVMs(ctx, c.store.Queries, a, ids)
	if err != nil {
		return plan, err
	}
	room, err := c.readFreeMemory(ctx, a)
	if err != nil {
		return plan, err
	}
	all := make([]fleet.VMView, 0, len(vms))
	for _, vm := range vms {
		all = append(all, vm)
	}
	slices.SortFunc(all, func(x, y fleet.VMView) int { return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.ID, y.ID)) })
	migrations, err := c.planMigrations(ctx, a, all)
	if err != nil {
		return plan, err
	}
	for i, vm := range all {
		plan.VMs = append(plan.VMs, planMaintenanceOfVM(vm, migrations[i], room))
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
		plan.VMs[i].ProposeAgain(earlier)
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

// freeMemory is the memory in MiB that hosts can still allocate, by host.
type freeMemory map[fleet.HostID]int64

func (c *Control) readFreeMemory(ctx context.Context, a fleet.Actor) (freeMemory, error) {
	hosts, err := query.ReadAllPages(ctx, a, fleet.Query{}, c.ListHosts)
	out := make(freeMemory, len(hosts))
	for _, h := range hosts {
		out[h.ID] = h.Capacity.AllocatableMemoryMiB - h.UsedMiB()
	}
	return out, err
}

// takeBest returns the migration whose host has the most free memory, preferably one without copied disks, and counts the
// VM's memory there; nil: none is allowed. A host that would be full is chosen last.
func (r freeMemory) takeBest(choices []fleet.MaintenanceChoice, memoryMiB int64) *fleet.MaintenanceDecision {
	var best *fleet.MaintenanceChoice
	for i, c := range choices {
		if c.Do != fleet.MaintenanceMigrate || !c.Allowed {
			continue
		}
		if best == nil || cmp.Or(compareBool(best.Method == fleet.MethodCopy, c.Method == fleet.MethodCopy), cmp.Compare(r[c.HostID], r[best.HostID])) > 0 {
			best = &choices[i]
		}
	}
	if best == nil {
		return nil
	}
	r[best.HostID] -= memoryMiB
	d := best.MaintenanceDecision
	return &d
}

// planMaintenanceOfVM lists the choices for a VM of Quantix. A VM that is off stays on the host unless a user decides
// otherwise.
func planMaintenanceOfVM(vm fleet.VMView, migrations fleet.MigrationPlan, room freeMemory) fleet.MaintenanceVM {
	line := fleet.MaintenanceVM{
		ID: vm.ID, Name: vm.Name, ProjectID: vm.ProjectID, ProjectName: vm.ProjectName, Managed: true, Phase: vm.Phase,
		Runs: vm.DeletedAt == nil && (isOn(vm.Status) || vm.RequestedPower == fleet.Running),
	}
	moves := maintenanceMigrations(vm, migrations)
	line.Choices = append(line.Choices, moves...)
	if line.Runs {
		down := fleet.MaintenanceChoice{MaintenanceDecision: fleet.MaintenanceDecision{Do: fleet.MaintenanceShutdown}}
		down.Allowed, down.Reason = vm.Allows(fleet.ActShutdown)
		line.Choices = append(line.Choices, down)
	}
	stay := fleet.MaintenanceDecision{Do: fleet.MaintenanceLeave}
	line.Choices = append(line.Choices, fleet.MaintenanceChoice{MaintenanceDecision: stay, Allowed: true})
	if !line.Runs {
		line.Proposal = &stay
		return line
	}
	if line.Proposal = room.takeBest(moves, int64(vm.Spec.MemoryMiB)); line.Proposal == nil {
		if line.Reason = "There is no other host."; len(moves) > 0 {
			line.Reason = moves[0].Reason
		}
	}
	return line
}

// maintenanceMigrations lists one choice for each other host: with the best pool, or with the first reason against the
// host.
func maintenanceMigrations(vm fleet.VMView, plan fleet.MigrationPlan) []fleet.MaintenanceChoice {
	mode := fleet.MigrateCold
	if vm.MigratesLive() {
		mode = fleet.MigrateLive
	}
	out := make([]fleet.MaintenanceChoice, len(plan.Targets))
	for i, t := range plan.Targets {
		out[i] = fleet.MaintenanceChoice{
			MaintenanceDecision: fleet.MaintenanceDecision{Do: fleet.MaintenanceMigrate, HostID: t.HostID, PoolID: t.PoolID},
			HostName:            t.HostName, PoolName: t.PoolName, Mode: mode, Method: t.Method, Allowed: t.Allowed && plan.Reason == "", Reason: cmp.Or(plan.Reason, t.Reason),
		}
	}
	return out
}

func planMaintenanceOfDiscoveredVM(vm fleet.DiscoveredVM) fleet.MaintenanceVM {
	down := fleet.MaintenanceChoice{MaintenanceDecision: fleet.MaintenanceDecision{Do: fleet.MaintenanceShutdown}}
	down.Allowed, down.Reason = vm.Allows(fleet.ActShutdown)
	return fleet.MaintenanceVM{
		ID: vm.ID, Name: vm.Name, Phase: vm.Phase, Runs: true, Reason: "Quantix does not manage it, so it cannot be migrated.",
		Choices: []fleet.MaintenanceChoice{down, {MaintenanceDecision: fleet.MaintenanceDecision{Do: fleet.MaintenanceLeave}, Allowed: true}},
	}
}
