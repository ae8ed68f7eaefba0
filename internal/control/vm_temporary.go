package control

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/vmcopy"
)

// roleSnapshot is the role of the job that takes the snapshot for a task's disk copies.
const roleSnapshot = "snapshot"

// tempSnapshot is a temporary snapshot of a VM that a task copies disks from. The VM is locked. The zero value means
// that disks are copied without a snapshot.
type tempSnapshot struct {
	vm      fleet.VMView
	id      fleet.SnapshotID
	takeJob fleet.JobID // the job that takes the snapshot and that the copies wait for; empty: taken or not yet queued
	queued  bool        // whether the job is queued
}

// snapshotRef returns the reference to the snapshot for a copy job, or nil if there is no snapshot.
func (t tempSnapshot) snapshotRef() *fleet.SnapshotRef {
	if t.id == "" {
		return nil
	}
	return &fleet.SnapshotRef{VMID: t.vm.ID, ID: t.id}
}

// newTempSnapshot returns a new temporary snapshot, without queueing its job. It returns the zero value if the VM's
// disks can be copied without a snapshot, and an error if no snapshot can be taken now.
func newTempSnapshot(ctx context.Context, q *db.Queries, vm fleet.VMView) (tempSnapshot, error) {
	if !vmcopy.NeedsTemporarySnapshot(vm) {
		return tempSnapshot{}, nil
	}
	busy, err := q.SnapshotWork(ctx, fleet.SubjectVM(vm.ID))
	if err != nil {
		return tempSnapshot{}, err
	}
	return tempSnapshot{vm: vm, id: fleet.NewID[fleet.SnapshotID]()}, conflictWithPrefix(vm.Name + " cannot be copied now: ")(vm.AllowsNewSnapshot(busy))
}

// sharedTempSnapshot returns the temporary snapshot that the bulk task already has, so that all clones have the same
// state, or else a new one.
func sharedTempSnapshot(ctx context.Context, q *db.Queries, vm fleet.VMView, task fleet.TaskID) (tempSnapshot, error) {
	if !vmcopy.NeedsTemporarySnapshot(vm) {
		return tempSnapshot{}, nil
	}
	row, err := q.TemporarySnapshotOf(ctx, db.TemporarySnapshotOfParams{VMID: vm.ID, TaskID: task})
	switch {
	case err != nil && !errors.Is(err, pgx.ErrNoRows):
		return tempSnapshot{}, err
	case err == nil && row.State != fleet.JobDone:
		return tempSnapshot{vm: vm, id: row.SnapshotID, takeJob: row.JobID, queued: true}, nil
	case err == nil && vm.Status.Snapshots.SnapshotByID(row.SnapshotID) != nil:
		return tempSnapshot{vm: vm, id: row.SnapshotID, queued: true}, nil
	}
	return newTempSnapshot(ctx, q, vm) // the task has no snapshot, or it was deleted
}

// queueTakeJob adds the job that takes the snapshot to the task. The snapshot's name contains copyName, the name of the
// new VM or template.
func (t *tempSnapshot) queueTakeJob(ctx context.Context, q *db.Queries, a fleet.Actor, task fleet.TaskID, copyName string) error {
	if t.id == "" || t.queued {
		return nil
	}
	order := fleet.SnapshotParams{
		ID: t.id, Name: fleet.CutSnapshotName("Temporary, for " + copyName), By: a.Name, Quiesce: true,
		Description: "Disks are copied from this snapshot while the VM continues. Quantix deletes it afterwards.",
	}
	subject := fleet.SubjectVM(t.vm.ID)
	t.takeJob, t.queued = fleet.NewID[fleet.JobID](), true
	err := q.AddStep(ctx, db.AddStepParams{
		ID: t.takeJob, TaskID: &task, Role: roleSnapshot, HostID: t.vm.HostID, Kind: fleet.VMSnapshot, Subject: subject, Args: fleet.JobArgs{Snapshot: &order},
	})
	if err != nil {
		return err
	}
	if err := q.AddTemporarySnapshot(ctx, db.AddTemporarySnapshotParams{SnapshotID: t.id, VMID: t.vm.ID, JobID: t.takeJob, TaskID: task}); err != nil {
		return err
	}
	return store.Audit(ctx, q, a, string(fleet.VMSnapshot), subject, t.vm.Name, order.Name)
}

// makeCopiesWait makes the task's copy jobs wait for the job that takes the snapshot.
func (t tempSnapshot) makeCopiesWait(ctx context.Context, q *db.Queries, task fleet.TaskID) error {
	if t.takeJob == "" {
		return nil
	}
	return q.WaitFor(ctx, db.WaitForParams{Others: []string{string(t.takeJob)}, TaskID: &task, Kind: fleet.VolumeCopy})
}

const (
	tempCheckSoon  = 5 * time.Second  // while disks are copied from the snapshot, or it is being deleted
	tempCheckLater = time.Minute      // while it cannot be deleted
	tempRetryDelay = 15 * time.Second // after the first failed deletion; doubled after each further one
)

// tempSnapshotBatchSize is the maximum number of temporary snapshots that one pass checks.
const tempSnapshotBatchSize = 100

// DeleteTemporarySnapshots requests the deletion of temporary snapshots whose disk copies have ended, and retries
// failed deletions. A deletion merges the snapshot's overlays into the VM's disks.
func (c *Control) DeleteTemporarySnapshots(ctx context.Context, a fleet.Actor) error {
	for range tempSnapshotBatchSize {
		more := false
		err := c.store.RunPass(ctx, a, "temporary snapshots", func(q *db.Queries) error {
			at, err := q.TemporarySnapshotToCheck(ctx)
			if errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			if more = err == nil; !more {
				return err
			}
			return deleteTempSnapshotIfUnused(ctx, q, a, at.VMID, at.SnapshotID)
		})
		if err != nil || !more {
			return err
		}
	}
	return nil
}

func deleteTempSnapshotIfUnused(ctx context.Context, q *db.Queries, a fleet.Actor, id fleet.VMID, snapshot fleet.SnapshotID) error {
	vm, err := store.LockVM(ctx, q, a, id, policy.VMChange)
	if err != nil {
		return err
	}
	row, err := q.TemporarySnapshot(ctx, snapshot)
	if err != nil {
		return err
	}
	busy, err := q.SnapshotWork(ctx, fleet.SubjectVM(id))
	if err != nil {
		return err
	}
	again := func(after time.Duration) error {
		return q.TemporarySnapshotChecked(ctx, db.TemporarySnapshotCheckedParams{SnapshotID: snapshot, Wait: after, Deletions: row.Deletions})
	}
	if len(busy) > 0 || row.Awaited {
		return again(tempCheckSoon)
	}
	if ok, _ := vm.AllowsSnapshots(nil); !ok {
		return again(tempCheckLater)
	}
	switch left := hasSnapshotFiles(vm.Status.Snapshots, snapshot); {
	case !left && !row.Settled:
		return again(tempCheckSoon)
	case !left:
		return q.ForgetTemporarySnapshot(ctx, snapshot)
	}
	order := fleet.SnapshotParams{ID: snapshot, Name: "temporary"}
	if _, err := queueVMJob(ctx, q, a, vm, fleet.VMSnapshotDelete, fleet.JobArgs{Snapshot: &order}); err != nil {
		return err
	}
	wait := min(tempRetryDelay<<min(row.Deletions, 8), time.Hour)
	row.Deletions++
	if err := again(wait); err != nil {
		return err
	}
	return store.Audit(ctx, q, a, string(fleet.VMSnapshotDelete), fleet.SubjectVM(id), vm.Name, "the temporary snapshot that disks were copied from")
}

// hasSnapshotFiles reports whether the host has files of the snapshot that a deletion would merge. After an interrupted
// job the host may have such files, so hasSnapshotFiles returns true.
func hasSnapshotFiles(tree *fleet.SnapshotTree, id fleet.SnapshotID) bool {
	if tree == nil {
		return false
	}
	return tree.Unfinished != "" || slices.ContainsFunc(tree.Snapshots, func(s fleet.Snapshot) bool {
		return s.ID == id && (!s.Deleted || tree.Merges > 0)
	})
}
