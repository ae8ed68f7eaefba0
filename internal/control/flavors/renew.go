package flavors

import (
	"context"
	"time"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/usage"
	"quantix/internal/vmedit"
)

// Renewal is the input of RenewVM.
type Renewal struct {
	ExpiresAt *time.Time `json:"expiresAt,omitempty" doc:"The new expiry; only where the project sets no days"`
}

// MaxRenewals limits the VMs of one request of RenewVMs.
const MaxRenewals = 500

// RenewVM extends the lifetime of a VM that has expired or expires soon, by the days that its project sets for new VMs. In
// a project without days, the input has the new expiry. The extension begins at the old expiry, or now if that is over.
func (f *Flavors) RenewVM(ctx context.Context, a fleet.Actor, id fleet.VMID, in Renewal) (vm fleet.VMView, err error) {
	if err := policy.Check(a, policy.VMChange, ""); err != nil {
		return vm, err
	}
	if err := store.CheckID(id, "VM"); err != nil {
		return vm, err
	}
	err = f.store.Tx(ctx, func(q *db.Queries) error {
		was, err := store.LockVM(ctx, q, a, id, policy.VMChange)
		if err != nil {
			return err
		}
		now, err := q.TimeNow(ctx)
		if err != nil {
			return err
		}
		guard := was.Protection.WithExpiryAt(now)
		if why := renewalRefusal(guard); why != "" {
			return fleet.RefusalError(why)
		}
		if guard.ExpiresAt, err = newExpiry(ctx, q, a, was, in, now); err != nil {
			return err
		}
		guard = guard.WithExpiryAt(now)
		var checks fleet.Checks
		if guard.Check(&checks, now); checks.Len() > 0 {
			return checks.Err()
		}
		if err := q.ProtectVM(ctx, db.ProtectVMParams{
			ID: id, Protected: guard.Protected, Lock: guard.Lock, ExpiresAt: guard.ExpiresAt, ExpiryStops: guard.ExpiryStops, Expiry: guard.Expiry,
		}); err != nil {
			return err
		}
		if vm, err = store.GetVM(ctx, q, a, id); err != nil {
			return err
		}
		return store.Audit(ctx, q, a, "vm.renew", fleet.SubjectVM(id), vm.Name, vmedit.DescribeProtection(was.Protection, guard))
	})
	if err != nil {
		return vm, err
	}
	shown := []fleet.VMView{store.RedactVM(a, vm)}
	err = f.store.HidePools(ctx, a, shown)
	return shown[0], err
}

// renewalRefusal returns why a VM cannot be renewed; empty: it can.
func renewalRefusal(p fleet.VMProtection) string {
	switch {
	case p.ExpiresAt == nil:
		return "The VM does not expire."
	case p.Expiry == "":
		return "The VM can be renewed from 7 days before its expiry."
	}
	return ""
}

// newExpiry returns the expiry of a renewed VM.
func newExpiry(ctx context.Context, q *db.Queries, a fleet.Actor, vm fleet.VMView, in Renewal, now time.Time) (*time.Time, error) {
	r, err := readRules(ctx, q, a, vm.ProjectID)
	if err != nil {
		return nil, err
	}
	var checks fleet.Checks
	switch {
	case in.ExpiresAt != nil && (r.ExpiryDays == 0 || r.Free):
		return in.ExpiresAt, nil
	case in.ExpiresAt != nil:
		checks.Add("expiresAt", "The project extends VMs by %s. Leave the time out.", fleet.CountWithUnit(r.ExpiryDays, "day"))
	case r.ExpiryDays == 0:
		checks.Add("expiresAt", "Enter the new expiry. The project sets no days for it.")
	default:
		from := *vm.Protection.ExpiresAt
		if from.Before(now) {
			from = now
		}
		return new(from.AddDate(0, 0, r.ExpiryDays)), nil
	}
	return nil, checks.Err()
}

// RenewResult is the result of one VM of RenewVMs.
type RenewResult struct {
	ID    fleet.VMID
	Name  string
	Error error // nil: renewed
}

// RenewVMs works like RenewVM for several VMs, which do not affect each other.
func (f *Flavors) RenewVMs(ctx context.Context, a fleet.Actor, ids []fleet.VMID, in Renewal) ([]RenewResult, error) {
	if err := policy.Check(a, policy.VMChange, ""); err != nil {
		return nil, err
	}
	if len(ids) > MaxRenewals {
		return nil, fleet.Errorf(fleet.Invalid, "At most %d VMs can be renewed at once. Select fewer.", MaxRenewals)
	}
	out := make([]RenewResult, len(ids))
	for i, id := range ids {
		vm, err := f.RenewVM(ctx, a, id, in)
		if err != nil && fleet.CodeOf(err) == "" {
			return out, err
		}
		out[i] = RenewResult{id, vm.Name, err}
	}
	return out, nil
}

// The dashboard of a tenant lists VMs that expire within expiringWithin.
const (
	expiringWithin = 14 * 24 * time.Hour
	maxExpiringVMs = 10
)

// ExpiringVMs returns the VMs of the actor's own projects that expire within two weeks, the next one first.
func (f *Flavors) ExpiringVMs(ctx context.Context, a fleet.Actor) ([]usage.ExpiringVM, error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return nil, err
	}
	rows, err := f.store.SoonExpiringVMs(ctx, db.SoonExpiringVMsParams{Projects: store.VisibleProjects(a), Within: expiringWithin, Most: maxExpiringVMs})
	out := make([]usage.ExpiringVM, len(rows))
	for i, r := range rows {
		out[i] = usage.ExpiringVM{ID: r.ID, Name: r.Name, ExpiresAt: r.ExpiresAt, Stops: r.ExpiryStops}
	}
	return out, store.UserError(err)
}
