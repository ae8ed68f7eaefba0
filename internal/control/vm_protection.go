package control

import (
	"context"
	"fmt"

	"quantix/db"
	"quantix/internal/control/flavors"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/vmedit"
)

// ProtectVM is the input of SetVMProtection: all protection settings of a VM.
type ProtectVM = vmedit.ProtectVM

// SetVMProtection sets the VM's protection. No job is queued.
func (c *Control) SetVMProtection(ctx context.Context, a fleet.Actor, id fleet.VMID, in ProtectVM) (fleet.VMView, error) {
	if err := policy.Check(a, policy.VMChange, ""); err != nil {
		return fleet.VMView{}, err
	}
	if err := store.CheckID(id, "VM"); err != nil {
		return fleet.VMView{}, err
	}
	var vm fleet.VMView
	err := c.store.Tx(ctx, func(q *db.Queries) error {
		was, err := store.LockVM(ctx, q, a, id, policy.VMChange)
		if err != nil {
			return err
		}
		if ok, why := was.Allows(fleet.ActProtect); !ok {
			return fleet.RefusalError(why)
		}
		now, err := q.TimeNow(ctx)
		if err != nil {
			return err
		}
		guard, err := in.ApplyTo(a, was.Protection, now)
		if err != nil {
			return err
		}
		if err := flavors.CheckProtection(ctx, q, a, was.ProjectID, was.Protection, guard); err != nil {
			return err
		}
		if err := q.ProtectVM(ctx, db.ProtectVMParams{
			ID: id, Protected: guard.Protected, Lock: guard.Lock, ExpiresAt: guard.ExpiresAt, ExpiryStops: guard.ExpiryStops, Expiry: guard.Expiry,
		}); err != nil {
			return err
		}
		if vm, err = store.GetVM(ctx, q, a, id); err != nil {
			return err
		}
		return store.Audit(ctx, q, a, "vm.protect", fleet.SubjectVM(id), vm.Name, vmedit.DescribeProtection(was.Protection, guard))
	})
	return c.shownVM(ctx, a, vm, err)
}

// ExpireVMs marks VMs as near their expiry or expired, so that they need attention. It shuts down expired VMs whose
// protection says so, except locked ones.
func (c *Control) ExpireVMs(ctx context.Context, a fleet.Actor) error {
	return c.store.RunPass(ctx, a, "expire VMs", func(q *db.Queries) error {
		rows, err := q.ExpiringVMs(ctx, fleet.ExpiryNotice)
		if err != nil {
			return err
		}
		for _, r := range rows {
			next := fleet.ExpiresSoon
			if r.Over {
				next = fleet.Expired
			}
			if err := q.SetExpiry(ctx, db.SetExpiryParams{ID: r.ID, Expiry: next}); err != nil {
				return err
			}
			if !r.Over || !r.ExpiryStops {
				continue
			}
			vm, err := store.LockVM(ctx, q, a, r.ID, policy.VMUse)
			if err != nil {
				return err
			}
			if ok, _ := vm.Allows(fleet.ActShutdown); !ok || vm.Protection.Lock != nil {
				continue
			}
			if _, err := queuePowerAction(ctx, q, a, r.ID, fleet.ActShutdown, PowerOptions{}, ""); err != nil {
				return fmt.Errorf("shut down VM %s at its expiry: %w", r.ID, err)
			}
		}
		return nil
	})
}
