package control

import (
	"context"

	"quantix/internal/control/store"
	"quantix/internal/fleet"
)

// terminatedHosts has the use cases of the steps of a host's termination: see hostpower.Hosts.
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
