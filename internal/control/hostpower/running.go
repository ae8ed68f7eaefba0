package hostpower

import (
	"context"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/maintenance"
	"quantix/internal/policy"
)

// UndecidedVMs returns the VMs that run on the host and were not left running by decision.
func UndecidedVMs(ctx context.Context, q *db.Queries, id fleet.HostID, m fleet.HostMaintenance) ([]db.VMsRunningOnRow, error) {
	running, err := q.VMsRunningOn(ctx, id)
	var out []db.VMsRunningOnRow
	for _, vm := range running {
		if !m.LeavesRunning(vm.ID) {
			out = append(out, vm)
		}
	}
	return out, err
}

// CheckNothingRuns refuses if VMs run on the host in maintenance that were not left running by decision, or if a VM or a
// disk is on its way to or from the host.
func CheckNothingRuns(ctx context.Context, q *db.Queries, host fleet.HostView) error {
	running, err := UndecidedVMs(ctx, q, host.ID, *host.Maintenance)
	if err != nil {
		return err
	}
	if len(running) > 0 {
		return fleet.Errorf(fleet.Conflict, "%s runs on %s. Shut the VM down or migrate it first.", running[0].Name, host.Name)
	}
	moving, err := q.HostTransfers(ctx, host.ID)
	if err == nil && moving > 0 {
		err = fleet.Errorf(fleet.Conflict, "%s has %d transfers in progress. Wait until they have ended, or cancel them.", host.Name, moving)
	}
	return err
}

// RunningVMsOf returns the VMs that run on the host by its last report.
func (hp *HostPower) RunningVMsOf(ctx context.Context, a fleet.Actor, id fleet.HostID) (out []maintenance.Blocker, err error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return nil, err
	}
	if err := store.CheckID(id, "host"); err != nil {
		return nil, err
	}
	running, err := hp.store.VMsRunningOn(ctx, id)
	for _, vm := range running {
		out = append(out, maintenance.Blocker{ID: vm.ID, Name: vm.Name, Managed: vm.Managed})
	}
	return out, store.UserError(err)
}
