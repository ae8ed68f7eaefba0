package control

import (
	"context"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/maintenance"
	"quantix/internal/policy"
)

// terminatedHosts are the use cases of which the termination of a host consists: see hostpower.Hosts.
type terminatedHosts struct{ *Control }

// DrainHost is EnterMaintenance with decisions.
func (h terminatedHosts) DrainHost(ctx context.Context, a fleet.Actor, id fleet.HostID, decisions map[fleet.VMID]fleet.MaintenanceDecision, overcommit bool) (fleet.Task, error) {
	return h.EnterMaintenance(ctx, a, id, EnterMaintenance{Decisions: decisions, Overcommit: overcommit})
}

// ShutDownHost is RequestHostPower for a step of a task.
func (h terminatedHosts) ShutDownHost(ctx context.Context, a fleet.Actor, host fleet.HostView, task fleet.TaskID) error {
	_, err := h.RequestHostPower(store.WithChildTask(ctx, task), a, host.ID, fleet.ActShutDownHost, host.Name)
	return err
}

// CheckNothingRuns is checkNothingRuns.
func (terminatedHosts) CheckNothingRuns(ctx context.Context, q *db.Queries, host fleet.HostView) error {
	return checkNothingRuns(ctx, q, host)
}

// RunningVMs names the VMs that run on the host without a decision to leave them.
func (terminatedHosts) RunningVMs(ctx context.Context, q *db.Queries, host fleet.HostView) (names []string, err error) {
	running, err := undecidedRunningVMs(ctx, q, host.ID, *host.Maintenance)
	for _, vm := range running {
		names = append(names, vm.Name)
	}
	return names, err
}

// RunningVMsOf returns the VMs that run on the host by its last report.
func (c *Control) RunningVMsOf(ctx context.Context, a fleet.Actor, id fleet.HostID) (out []maintenance.Blocker, err error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return nil, err
	}
	if err := store.CheckID(id, "host"); err != nil {
		return nil, err
	}
	running, err := c.store.VMsRunningOn(ctx, id)
	for _, vm := range running {
		out = append(out, maintenance.Blocker{ID: vm.ID, Name: vm.Name, Managed: vm.Managed})
	}
	return out, store.UserError(err)
}
