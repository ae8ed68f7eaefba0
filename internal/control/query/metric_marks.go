package query

import (
	"context"
	"slices"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// hostMarkKinds are the kinds of tasks that a host's charts mark.
var hostMarkKinds = []string{string(fleet.HostMaintenanceEnter), string(fleet.HostMaintenanceLeave), string(fleet.HostReboot), string(fleet.HostShutdown)}

// addTaskMarks adds the tasks of a VM or pool that the actor sees.
func (b *Queries) addTaskMarks(ctx context.Context, a fleet.Actor, of fleet.Subject, to *fleet.MetricSeries) error {
	if policy.Check(a, policy.TasksSee, "") != nil {
		return nil
	}
	rows, err := b.store.TaskMarks(ctx, db.TaskMarksParams{
		Subject: of, FromTime: to.From, ToTime: to.To, AllProjects: policy.SeesAllProjects(a), Projects: store.VisibleProjects(a), MaxRows: fleet.MaxMetricMarks,
	})
	if err != nil {
		return store.UserError(err)
	}
	for _, r := range slices.Backward(rows) {
		addMark(to, r)
	}
	return nil
}

// addHostMarks adds the maintenance of a host, its power actions and its offline periods.
func (b *Queries) addHostMarks(ctx context.Context, a fleet.Actor, id fleet.HostID, to *fleet.MetricSeries) error {
	if policy.Check(a, policy.TasksSee, "") == nil {
		rows, err := b.store.HostTaskMarks(ctx, db.HostTaskMarksParams{Kinds: hostMarkKinds, HostID: &id, FromTime: to.From, ToTime: to.To, MaxRows: fleet.MaxMetricMarks})
		if err != nil {
			return store.UserError(err)
		}
		for _, r := range slices.Backward(rows) {
			addMark(to, db.TaskMarksRow(r))
		}
	}
	offline, err := b.store.HostOfflinePeriods(ctx, db.HostOfflinePeriodsParams{Hosts: []string{string(id)}, Since: to.From})
	for _, p := range offline {
		if p.Since.Before(to.To) {
			to.Marks = append(to.Marks, fleet.MetricMark{At: p.Since, Until: &p.Until, Title: "Agent offline"})
		}
	}
	slices.SortStableFunc(to.Marks, func(x, y fleet.MetricMark) int { return x.At.Compare(y.At) })
	return store.UserError(err)
}

// addMark adds a task that has begun or ended. Consoles and other background tasks are no marks.
func addMark(to *fleet.MetricSeries, r db.TaskMarksRow) {
	at, kind := r.StartedAt, r.Kind.Info()
	switch {
	case kind.Background:
		return
	case kind.OnlyParent:
		at = &r.CreatedAt
	case at == nil && r.EndedAt != nil: // no host received it
		at = r.EndedAt
	case at == nil:
		return
	}
	title := fleet.Task{Kind: r.Kind, Generation: r.Generation}.Title()
	to.Marks = append(to.Marks, fleet.MetricMark{At: *at, Until: r.EndedAt, Title: title, TaskID: r.ID, State: r.State})
}
