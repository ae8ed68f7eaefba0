package control

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// ProtectVM is the input of SetVMProtection: all protection settings of a VM.
type ProtectVM struct {
	Protected   bool       `json:"protected" doc:"Whether deletion of the VM is refused"`
	Locked      bool       `json:"locked" doc:"Whether only the person who locks the VM, and administrators, may change it or its power state"`
	Reason      string     `json:"reason,omitempty" doc:"The reason of the lock: one line"`
	ExpiresAt   *time.Time `json:"expiresAt,omitempty" doc:"When the VM expires; left out: never. It needs attention from 7 days before"`
	ExpiryStops bool       `json:"expiryStops,omitempty" doc:"Whether the VM is shut down when it expires; otherwise it only needs attention"`
}

// newProtection returns the protection with the settings of the input. An unchanged lock keeps its owner and time.
func (in ProtectVM) newProtection(a fleet.Actor, was fleet.VMProtection, now time.Time) (fleet.VMProtection, error) {
	var checks fleet.Checks
	out := fleet.VMProtection{Protected: in.Protected, ExpiresAt: in.ExpiresAt, ExpiryStops: in.ExpiryStops}
	reason := strings.TrimSpace(in.Reason)
	switch {
	case in.Locked && reason == "":
		checks.Add("reason", "Give the reason for the lock: other users see it.")
	case in.Locked && was.Lock != nil && was.Lock.Reason == reason:
		out.Lock = was.Lock
	case in.Locked:
		out.Lock = &fleet.VMLock{Reason: reason, By: a.Name, UserID: a.UserID, At: now}
	}
	var of fleet.Checks
	out.Check(&of, now)
	if err, ok := errors.AsType[*fleet.Error](of.Err()); ok {
		for _, f := range err.Fields {
			if f.Field == "lock" {
				f.Field = "reason"
			}
			if f.Field == "expiresAt" && was.ExpiresAt != nil && in.ExpiresAt != nil && was.ExpiresAt.Equal(*in.ExpiresAt) {
				continue // an expiry time in the past is allowed if unchanged
			}
			checks.Add(f.Field, "%s", f.Message)
		}
	}
	return out.WithExpiryAt(now), checks.Err()
}

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
		guard, err := in.newProtection(a, was.Protection, now)
		if err != nil {
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
		return store.Audit(ctx, q, a, "vm.protect", fleet.SubjectVM(id), vm.Name, describeProtection(was.Protection, guard))
	})
	return store.RedactVM(a, vm), err
}

// describeProtection describes the changes for the audit line.
func describeProtection(was, is fleet.VMProtection) string {
	var out []string
	if was.Protected != is.Protected {
		out = append(out, map[bool]string{true: "protected from deletion", false: "no longer protected from deletion"}[is.Protected])
	}
	switch {
	case is.Lock == nil && was.Lock != nil:
		out = append(out, "unlocked")
	case is.Lock != nil && is.Lock != was.Lock:
		out = append(out, "locked: "+is.Lock.Reason)
	}
	switch {
	case is.ExpiresAt == nil && was.ExpiresAt != nil:
		out = append(out, "does not expire")
	case is.ExpiresAt != nil && (was.ExpiresAt == nil || !was.ExpiresAt.Equal(*is.ExpiresAt) || was.ExpiryStops != is.ExpiryStops):
		then := ""
		if is.ExpiryStops {
			then = ", then it is shut down"
		}
		out = append(out, "expires "+is.ExpiresAt.UTC().Format("2006-01-02 15:04 UTC")+then)
	}
	return strings.Join(out, ", ")
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
