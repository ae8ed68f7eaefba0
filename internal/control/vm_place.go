package control

import (
	"context"

	"quantix/db"
	"quantix/internal/control/agentapi"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// ChooseVMHost assigns the VM to the host that a person chooses, after several hosts reported a domain of the VM. The
// VM's domains on other hosts do not change and are shown as unmanaged. If the chosen host has no domain with the VM's
// ownership mark, the error is a Conflict.
func (c *Control) ChooseVMHost(ctx context.Context, a fleet.Actor, id fleet.VMID, host fleet.HostID) (vm fleet.VMView, err error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return vm, err
	}
	if err := store.CheckID(id, "VM"); err != nil {
		return vm, err
	}
	err = c.store.Tx(ctx, func(q *db.Queries) error {
		was, err := store.GetVM(ctx, q, a, id)
		if err != nil {
			return err
		}
		if err := q.RequestFullReports(ctx, store.ToStrings([]fleet.HostID{was.HostID, host})); err != nil {
			return err
		}
		if vm, err = store.LockVM(ctx, q, a, id, policy.VMUse); err != nil {
			return err
		}
		migrating, err := readMigration(ctx, q, id)
		if err != nil {
			return err
		}
		to := agentapi.ReportedLocation(vm, host)
		switch {
		case migrating != nil && migrating.Live != "":
			return fleet.Errorf(fleet.Conflict, "The VM is migrating to %s, so both hosts have it. Wait for that task, or cancel it.", migrating.ToName)
		case was.HostID != vm.HostID:
			return fleet.Errorf(fleet.Conflict, "The VM's host has changed meanwhile. Reload the page.")
		case to.HostID == "":
			return fleet.Errorf(fleet.Conflict, "The chosen host does not report this VM. Choose a host that reports it.")
		case to.Why != "":
			return fleet.RefusalError(to.Why)
		case to.Own:
			err = q.SettleSightings(ctx, id)
		default:
			err = moveToChosenHost(ctx, q, vm, to)
		}
		err = store.FirstErrorOf(err, func() error {
			return store.Audit(ctx, q, a, "vm.place", fleet.SubjectVM(id), vm.Name, locationAuditDetail(vm, to))
		})
		if err != nil {
			return err
		}
		vm, err = store.GetVM(ctx, q, a, id)
		return err
	})
	return c.shownVM(ctx, a, vm, err)
}

// moveToChosenHost assigns the VM to the chosen host. The VM's domains on all other hosts, including the former one,
// then count as unmanaged.
func moveToChosenHost(ctx context.Context, q *db.Queries, vm fleet.VMView, to fleet.VMLocation) error {
	// Do not store the former host's domain as discovered while that host is offline or has no domain of the VM. If that
	// host later runs the VM, the portal must raise an alarm.
	if own := vm.Locations()[0]; !own.Offline && own.Power != fleet.Absent {
		if err := q.KeepAsDiscovered(ctx, vm.ID); err != nil {
			return err
		}
	}
	if err := agentapi.SetVMHost(ctx, q, vm, to); err != nil {
		return err
	}
	return q.SettleSightings(ctx, vm.ID)
}

func locationAuditDetail(vm fleet.VMView, to fleet.VMLocation) string {
	if to.Own {
		return "stays on " + to.HostName
	}
	return vm.HostName + " → " + to.HostName
}
