package quotas

import (
	"context"
	"time"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/quota"
	"quantix/internal/usage"
)

// sweptDays is the number of old days that one transaction deletes.
const sweptDays = 20000

// RecordProjectDays is the pass that stores what each project uses today, and deletes days that are older than a year.
func (qs *Quotas) RecordProjectDays(ctx context.Context, a fleet.Actor) error {
	return qs.store.RunPass(ctx, a, "project days", func(q *db.Queries) error {
		if _, err := q.RecordProjectDays(ctx); err != nil {
			return err
		}
		_, err := q.SweepProjectDays(ctx, sweptDays)
		return err
	})
}

// UsageHistory returns what a project used each day of the last year, oldest first. Days without a running portal are
// missing.
func (qs *Quotas) UsageHistory(ctx context.Context, a fleet.Actor, project fleet.ProjectID) ([]quota.Day, error) {
	if err := policy.Check(a, policy.VMSee, project); err != nil {
		return nil, store.UnknownProjectError(err)
	}
	rows, err := qs.store.ProjectDays(ctx, project)
	out := make([]quota.Day, len(rows))
	for i, r := range rows {
		out[i] = quota.Day{Day: r.Day, VMs: r.Vms, RunningVMs: r.RunningVms, CPUs: r.Cpus, MemoryMiB: r.MemoryMib, DiskBytes: r.DiskBytes}
	}
	return out, store.UserError(err)
}

const (
	expiryNotice  = 14 * 24 * time.Hour
	maxExpiringVM = 10
)

// ExpiringVMs returns the VMs of the actor's own projects that expire within two weeks, the next one first.
func (qs *Quotas) ExpiringVMs(ctx context.Context, a fleet.Actor) ([]usage.ExpiringVM, error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return nil, err
	}
	rows, err := qs.store.SoonExpiringVMs(ctx, db.SoonExpiringVMsParams{Projects: store.VisibleProjects(a), Within: expiryNotice, Most: maxExpiringVM})
	out := make([]usage.ExpiringVM, len(rows))
	for i, r := range rows {
		out[i] = usage.ExpiringVM{ID: r.ID, Name: r.Name, ExpiresAt: r.ExpiresAt, Stops: r.ExpiryStops}
	}
	return out, store.UserError(err)
}
