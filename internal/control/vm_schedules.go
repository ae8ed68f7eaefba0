package control

import (
	"context"
	"slices"
	"strings"
	"time"

	"quantix/db"
	"quantix/internal/control/query"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/schedules"
)

// SnapshotSchedules returns the VM's snapshot schedules with their last results.
func (c *Control) SnapshotSchedules(ctx context.Context, a fleet.Actor, id fleet.VMID) ([]schedules.ScheduleView, error) {
	vm, err := query.VMWithPools(ctx, c.Queries, a, id)
	if err != nil {
		return nil, err
	}
	rows, err := c.store.SchedulesOf(ctx, id)
	if err != nil || len(rows) == 0 {
		return nil, store.UserError(err)
	}
	runs, err := c.store.ScheduleRunsOf(ctx, id)
	if err != nil {
		return nil, store.UserError(err)
	}
	out := make([]schedules.ScheduleView, len(rows))
	for i, r := range rows {
		out[i] = schedules.ScheduleView{
			ID: r.ID, SnapshotSchedule: r.Spec, CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt, NextAt: r.NextAt, Missed: int(r.Missed), Trouble: r.Trouble, Attention: r.Attention,
		}
		for _, run := range runs {
			if run.ScheduleID != r.ID {
				continue
			}
			if out[i].LastAt == nil {
				out[i].LastAt, out[i].LastTask = &run.Due, run.TaskID
			}
			if vm.Status != nil && vm.Status.Snapshots.SnapshotByID(run.SnapshotID) != nil {
				out[i].Snapshots++
			}
		}
	}
	return out, nil
}

// AddSnapshotSchedule adds a snapshot schedule to the VM.
func (c *Control) AddSnapshotSchedule(ctx context.Context, a fleet.Actor, id fleet.VMID, in schedules.SnapshotSchedule) (schedules.ScheduleID, error) {
	made := fleet.NewID[schedules.ScheduleID]()
	err := c.changeSchedules(ctx, a, id, func(q *db.Queries, vm fleet.VMView, rows []db.SnapshotSchedule, now time.Time) (string, error) {
		if len(rows) >= schedules.MaxSchedules {
			return "", fleet.Errorf(fleet.Conflict, "The VM has %d schedules, which is the maximum. Delete one first.", len(rows))
		}
		in, next, err := completeSchedule(in, "", vm, rows, now)
		if err != nil {
			return "", err
		}
		return "schedule " + in.Name + ": " + describeSchedule(in), q.AddSchedule(ctx, db.AddScheduleParams{ID: made, VMID: id, Spec: in, CreatedBy: a.Name, NextAt: next})
	})
	if err != nil {
		return "", err
	}
	return made, nil
}

// EditSnapshotSchedule replaces a schedule's settings. The new retention also applies to existing snapshots of the
// schedule.
func (c *Control) EditSnapshotSchedule(ctx context.Context, a fleet.Actor, id fleet.VMID, schedule schedules.ScheduleID, in schedules.SnapshotSchedule) error {
	return c.changeSchedules(ctx, a, id, func(q *db.Queries, vm fleet.VMView, rows []db.SnapshotSchedule, now time.Time) (string, error) {
		i := slices.IndexFunc(rows, func(r db.SnapshotSchedule) bool { return r.ID == schedule })
		if i < 0 {
			return "", noScheduleError()
		}
		in, next, err := completeSchedule(in, schedule, vm, rows, now)
		if err != nil {
			return "", err
		}
		checkAt := next
		if in.Enabled { // the new retention may expire snapshots at once
			checkAt = &now
			if was := rows[i]; was.Spec.Enabled && was.NextAt != nil && equalSnapshotTimes(was.Spec.Times, in.Times) {
				next = was.NextAt
			}
		}
		words := "schedule " + in.Name + ": " + describeSchedule(in)
		return words, q.ChangeSchedule(ctx, db.ChangeScheduleParams{ID: schedule, Spec: in, NextAt: next, LookAt: checkAt})
	})
}

// DeleteSnapshotSchedule deletes a schedule. Its snapshots stay, without retention.
func (c *Control) DeleteSnapshotSchedule(ctx context.Context, a fleet.Actor, id fleet.VMID, schedule schedules.ScheduleID) error {
	return c.changeSchedules(ctx, a, id, func(q *db.Queries, _ fleet.VMView, rows []db.SnapshotSchedule, _ time.Time) (string, error) {
		i := slices.IndexFunc(rows, func(r db.SnapshotSchedule) bool { return r.ID == schedule })
		if i < 0 {
			return "", noScheduleError()
		}
		_, err := q.DeleteSchedule(ctx, db.DeleteScheduleParams{ID: schedule, VMID: id})
		return "schedule " + rows[i].Spec.Name + " deleted; its snapshots stay", err
	})
}

func noScheduleError() error {
	return fleet.Errorf(fleet.NotFound, "The VM has no such schedule any more. Reload the page.")
}

// changeSchedules locks the VM, calls do with its schedules, and writes the audit line. No job is queued.
func (c *Control) changeSchedules(ctx context.Context, a fleet.Actor, id fleet.VMID, do func(*db.Queries, fleet.VMView, []db.SnapshotSchedule, time.Time) (detail string, err error)) error {
	if err := policy.Check(a, policy.VMChange, ""); err != nil {
		return err
	}
	if err := store.CheckID(id, "VM"); err != nil {
		return err
	}
	return c.store.Tx(ctx, func(q *db.Queries) error {
		vm, err := store.LockVM(ctx, q, a, id, policy.VMChange)
		if err != nil {
			return err
		}
		if vm.DeletedAt != nil {
			return fleet.Errorf(fleet.Conflict, "The VM is being deleted.")
		}
		rows, err := q.SchedulesOf(ctx, id)
		if err != nil {
			return err
		}
		now, err := q.TimeNow(ctx)
		if err != nil {
			return err
		}
		detail, err := do(q, vm, rows, now)
		if err != nil {
			return err
		}
		if err := q.SetScheduleTrouble(ctx, id); err != nil {
			return err
		}
		return store.Audit(ctx, q, a, "vm.schedule", fleet.SubjectVM(id), vm.Name, detail)
	})
}

// completeSchedule checks a schedule and fills in what it leaves out. It also returns the schedule's next due time, or
// nil if it is disabled. rows are all schedules of the VM; id is the schedule's id.
func completeSchedule(in schedules.SnapshotSchedule, id schedules.ScheduleID, vm fleet.VMView, rows []db.SnapshotSchedule, now time.Time) (schedules.SnapshotSchedule, *time.Time, error) {
	in.Name, in.NameAs, in.Times.Zone = strings.TrimSpace(in.Name), strings.TrimSpace(in.NameAs), strings.TrimSpace(in.Times.Zone)
	var checks fleet.Checks
	in.Check(&checks, "")
	if err := checks.Err(); err != nil {
		return in, nil, err
	}
	others := 0
	for _, r := range rows {
		if r.ID == id {
			continue
		}
		others += r.Spec.Keep.MaxKept()
		if r.Spec.Name == in.Name {
			checks.Add("name", "The VM has a schedule of that name already.")
		}
	}
	if most := in.Keep.MaxKept(); others+most > schedules.MaxScheduledSnapshots {
		checks.Add("keep.last", "The VM's other schedules keep %d snapshots. All schedules of a VM together may keep at most %d, because each snapshot makes its disks slower.", others, schedules.MaxScheduledSnapshots)
	}
	if err := checks.Err(); err != nil {
		return in, nil, err
	}
	for i, d := range vm.Spec.Disks {
		if d.Encryption != "" {
			return in, nil, fleet.Errorf(fleet.Conflict, "Disk %d is encrypted, so the VM cannot have snapshots.", i+1)
		}
		if !d.IsQcow2() {
			return in, nil, fleet.Errorf(fleet.Conflict, "Disk %d is not a qcow2 file of a pool, so the VM cannot have snapshots.", i+1)
		}
	}
	if i := slices.IndexFunc(vm.Spec.HostDevices, func(d fleet.VMHostDevice) bool { return d.PhysicalDiskName() != "" }); i >= 0 {
		return in, nil, fleet.Errorf(fleet.Conflict, "The VM has the physical disk %s, so the VM cannot have snapshots.", vm.Spec.HostDevices[i].Device)
	}
	if !in.Enabled {
		return in, nil, nil
	}
	next := in.Times.NextAfter(now)
	return in, &next, nil
}

func equalSnapshotTimes(a, b schedules.SnapshotTimes) bool {
	return a.EveryHours == b.EveryHours && a.At == b.At && a.Zone == b.Zone && slices.Equal(a.Days, b.Days)
}

func describeSchedule(s schedules.SnapshotSchedule) string {
	if !s.Enabled {
		return "disabled"
	}
	return s.Times.Text() + ", keeps " + s.Keep.Text()
}
