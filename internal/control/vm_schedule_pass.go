package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/quotas"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/quota"
	"quantix/internal/schedules"
)

// Delays until the next check of a schedule.
const (
	scheduleCheckSoon     = 20 * time.Second // while a job of the schedule runs
	scheduleCheckLater    = time.Minute      // while the schedule waits for anything else
	maxDeletionRetryDelay = time.Hour        // between two attempts to delete old snapshots
)

// scheduleBatchSize is the maximum number of schedules that one pass checks.
const scheduleBatchSize = 100

// RunSnapshotSchedules requests due snapshots, and the deletion of snapshots that exceed their schedule's retention. A
// failure of one schedule does not affect the others.
func (c *Control) RunSnapshotSchedules(ctx context.Context, a fleet.Actor) error {
	for range scheduleBatchSize {
		var at db.ScheduleToCheckRow
		more := false
		err := c.store.RunPass(ctx, a, "snapshot schedules", func(q *db.Queries) (err error) {
			at, err = q.ScheduleToCheck(ctx)
			if errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			if more = err == nil; !more {
				return err
			}
			return checkSchedule(ctx, q, a, at.VMID, at.ID)
		})
		if err != nil && more {
			said := "The portal's log has the cause."
			if fleet.CodeOf(err) != "" {
				said = err.Error()
			}
			err = c.store.Tx(ctx, func(q *db.Queries) error {
				return q.ScheduleFailed(ctx, db.ScheduleFailedParams{ID: at.ID, Trouble: "The schedule could not be checked: " + said})
			})
		}
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// scheduleCheck checks one schedule within a transaction.
type scheduleCheck struct {
	q            *db.Queries
	actor        fleet.Actor
	vm           fleet.VMView
	row          db.SnapshotSchedule
	runs         []db.ScheduleRunsOfRow // of this schedule, newest first
	runningKinds []fleet.JobKind
	now          time.Time
	nextCheck    time.Time // time of the next check; zero: when the schedule is due
}

func checkSchedule(ctx context.Context, q *db.Queries, a fleet.Actor, vm fleet.VMID, id schedules.ScheduleID) error {
	s := scheduleCheck{q: q, actor: a}
	var err error
	if s.vm, err = store.LockVM(ctx, q, a, vm, policy.VMChange); err != nil {
		return err
	}
	rows, err := q.SchedulesOf(ctx, vm) // after the VM's lock, which every change of schedules takes
	if err != nil {
		return err
	}
	i := slices.IndexFunc(rows, func(r db.SnapshotSchedule) bool { return r.ID == id })
	if i < 0 {
		return nil
	}
	s.row = rows[i]
	if s.now, err = q.TimeNow(ctx); err != nil {
		return err
	}
	if s.runningKinds, err = q.SnapshotWork(ctx, fleet.SubjectVM(vm)); err != nil {
		return err
	}
	runs, err := q.ScheduleRunsOf(ctx, vm)
	if err != nil {
		return err
	}
	s.runs = slices.DeleteFunc(runs, func(r db.ScheduleRunsOfRow) bool { return r.ScheduleID != id })
	for _, step := range []func(context.Context) error{s.recordEndedRuns, s.takeDueSnapshot, s.deleteExpiredSnapshot} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	next := s.row.NextAt
	if !s.nextCheck.IsZero() && (next == nil || s.nextCheck.Before(*next) || !next.After(s.now)) {
		next = &s.nextCheck
	}
	err = q.ScheduleChecked(ctx, db.ScheduleCheckedParams{
		ID: id, NextAt: s.row.NextAt, LookAt: next, Missed: s.row.Missed, Trouble: s.row.Trouble, Attention: s.row.Attention,
	})
	if err != nil {
		return err
	}
	return q.SetScheduleTrouble(ctx, vm)
}

// checkAgainAfter schedules the next check after the delay, unless an earlier check is scheduled.
func (s *scheduleCheck) checkAgainAfter(after time.Duration) {
	if at := s.now.Add(after); s.nextCheck.IsZero() || at.Before(s.nextCheck) {
		s.nextCheck = at
	}
}

// setDelayReason sets the reason shown for a delay or failure. If attention is set, a person must act and the VM needs
// attention.
func (s *scheduleCheck) setDelayReason(attention bool, format string, args ...any) {
	s.row.Trouble, s.row.Attention = fmt.Sprintf(format, args...), attention
}

// isUnfinishedState reports whether a task in this state has not ended.
func isUnfinishedState(state string) bool {
	return state == string(fleet.JobQueued) || state == string(fleet.JobRunning)
}

// recordEndedRuns records ended runs and the result of the last run.
func (s *scheduleCheck) recordEndedRuns(ctx context.Context) error {
	s.row.Trouble, s.row.Attention = "", false
	for i, r := range s.runs {
		if isUnfinishedState(r.State) {
			s.checkAgainAfter(scheduleCheckSoon)
			continue
		}
		if !r.Settled {
			if err := s.q.SettleScheduleRun(ctx, db.SettleScheduleRunParams{ScheduleID: s.row.ID, Due: r.Due}); err != nil {
				return err
			}
			s.runs[i].Settled = true
		}
		if i == 0 && r.State != string(fleet.JobDone) {
			s.setDelayReason(true, "The snapshot of %s was not taken: %s", r.Due.UTC().Format("2 January, 15:04 UTC"), cmp.Or(r.Error, "its task ended as "+r.State+"."))
		}
	}
	return nil
}

// takeDueSnapshot requests a snapshot if one is due. Of several due times, only the newest gets a snapshot.
func (s *scheduleCheck) takeDueSnapshot(ctx context.Context) error {
	if s.row.NextAt == nil || s.row.NextAt.After(s.now) {
		return nil
	}
	spec := s.row.Spec
	due, missed := spec.Times.NewestDue(*s.row.NextAt, s.now)
	next := spec.Times.NextAfter(s.now)
	ok, why := s.vm.AllowsNewSnapshot(s.runningKinds)
	tree := s.snapshotTree()
	switch {
	case slices.ContainsFunc(s.runs, func(r db.ScheduleRunsOfRow) bool { return r.Due.Equal(due) }):
		s.row.NextAt = &next // already requested
		return nil
	case s.vm.Protection.Lock != nil:
		s.setDelayReason(false, "The schedule waits: %s", s.vm.Protection.Lock.Refusal())
		s.checkAgainAfter(scheduleCheckLater)
		return nil
	case tree != nil && tree.Depth >= fleet.DeepChain:
		s.setDelayReason(true, "The schedule is paused: the VM's disks consist of %d files. Delete unneeded snapshots; the schedule then continues automatically.", tree.Depth)
		s.checkAgainAfter(scheduleCheckLater)
		return nil
	case !ok:
		s.setDelayReason(false, "The schedule waits: %s", why)
		s.checkAgainAfter(scheduleCheckLater)
		return nil
	}
	over, err := quotas.Excess(ctx, s.q, s.vm.ProjectID, quota.Usage{Snapshots: 1, SnapshotBytes: 1})
	if err != nil {
		return err
	}
	if len(over) > 0 {
		s.setDelayReason(true, "The schedule waits: %s", over[0])
		s.checkAgainAfter(scheduleCheckLater)
		return nil
	}
	order := fleet.SnapshotParams{
		ID: fleet.NewID[fleet.SnapshotID](), Name: spec.SnapshotName(s.vm.Name, due), By: "schedule " + spec.Name,
		Description: "Taken by itself: " + spec.Times.Text() + ".", Memory: spec.Memory, Quiesce: spec.Quiesce,
	}
	task, err := queueVMJob(ctx, s.q, s.actor, s.vm, fleet.VMSnapshot, fleet.JobArgs{Snapshot: &order})
	if err != nil {
		return err
	}
	n, err := s.q.AddScheduleRun(ctx, db.AddScheduleRunParams{ScheduleID: s.row.ID, Due: due, SnapshotID: order.ID, TaskID: task.ID})
	if err != nil {
		return err
	}
	if n == 0 {
		return fmt.Errorf("the snapshot of schedule %s for %s was already requested", s.row.ID, due)
	}
	s.row.NextAt, s.row.Missed, s.row.Trouble, s.row.Attention = &next, int32(missed), "", false
	s.runningKinds = append(s.runningKinds, fleet.VMSnapshot)
	s.checkAgainAfter(scheduleCheckSoon)
	return store.Audit(ctx, s.q, s.actor, string(fleet.VMSnapshot), fleet.SubjectVM(s.vm.ID), s.vm.Name, order.Name+", by schedule "+spec.Name)
}

func (s *scheduleCheck) snapshotTree() *fleet.SnapshotTree {
	if s.vm.Status == nil {
		return nil
	}
	return s.vm.Status.Snapshots
}

// deleteExpiredSnapshot requests the deletion of the oldest snapshot that exceeds the schedule's retention. It waits
// for all snapshot jobs of the VM, so it deletes one snapshot at a time.
func (s *scheduleCheck) deleteExpiredSnapshot(ctx context.Context) error {
	if !s.row.Spec.Enabled || len(s.runningKinds) > 0 || len(s.runs) == 0 {
		if len(s.runningKinds) > 0 && len(s.runs) > 0 {
			s.checkAgainAfter(scheduleCheckLater)
		}
		return nil
	}
	// Wait while the VM's snapshots are unknown or cannot change, or the VM is locked.
	if ok, _ := s.vm.AllowsSnapshots(s.runningKinds); !ok || s.vm.Protection.Lock != nil {
		s.checkAgainAfter(5 * scheduleCheckLater)
		return nil
	}
	var mine []schedules.ScheduledSnapshot
	var forgotten []time.Time
	for i, r := range s.runs {
		switch {
		case s.snapshotTree().SnapshotByID(r.SnapshotID) != nil:
			mine = append(mine, schedules.ScheduledSnapshot{ID: r.SnapshotID, Due: r.Due})
		case r.Settled && i > 0: // the newest run stays, because the page shows its time
			forgotten = append(forgotten, r.Due)
		}
	}
	if len(forgotten) > 0 {
		if err := s.q.ForgetScheduleRuns(ctx, db.ForgetScheduleRunsParams{ScheduleID: s.row.ID, Dues: forgotten}); err != nil {
			return err
		}
	}
	expired := s.row.Spec.Keep.ExpiredSnapshots(mine, s.row.Spec.Times)
	if len(expired) == 0 {
		return nil
	}
	i := slices.IndexFunc(s.runs, func(r db.ScheduleRunsOfRow) bool { return r.SnapshotID == expired[0].ID })
	run := s.runs[i]
	shot := *s.snapshotTree().SnapshotByID(run.SnapshotID)
	if run.TidyAt != nil {
		if s.row.Trouble == "" && run.TidyState != string(fleet.JobDone) {
			s.setDelayReason(true, "The snapshot %s has expired, and could not be deleted: %s", shot.Name, cmp.Or(run.TidyError, "its task ended as "+run.TidyState+"."))
		}
		if wait := run.TidyAt.Sub(s.now); wait > 0 {
			s.checkAgainAfter(wait)
			return nil
		}
	}
	task, err := queueVMJob(ctx, s.q, s.actor, s.vm, fleet.VMSnapshotDelete, fleet.JobArgs{Snapshot: &fleet.SnapshotParams{ID: shot.ID, Name: shot.Name}})
	if err != nil {
		return err
	}
	if err := s.q.TidyScheduleRun(ctx, db.TidyScheduleRunParams{ScheduleID: s.row.ID, Due: run.Due, TidyTask: task.ID, Wait: min(time.Minute<<min(run.Tidied, 6), maxDeletionRetryDelay)}); err != nil {
		return err
	}
	s.checkAgainAfter(scheduleCheckSoon)
	return store.Audit(ctx, s.q, s.actor, string(fleet.VMSnapshotDelete), fleet.SubjectVM(s.vm.ID), s.vm.Name, shot.Name+", which schedule "+s.row.Spec.Name+" keeps no longer")
}
