package quotas

import (
	"context"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/quota"
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
