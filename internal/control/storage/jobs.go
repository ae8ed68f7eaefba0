package storage

import (
	"context"
	"fmt"

	"quantix/db"
	"quantix/internal/control/assign"
	"quantix/internal/control/query"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
)

// VolumeJob is a volume job to queue.
type VolumeJob struct {
	Kind          fleet.JobKind
	Ref           fleet.Volref
	Host          query.HostRef
	Params        fleet.VolumeParams
	DeletesData   bool // the job deletes the volume's data
	AuditByCaller bool // the caller writes the audit line

	Project *fleet.ProjectID // whose members see the task; nil: only administrators
	Detail  string
}

// QueueVolumeJob locks the pool, calls decide and queues the job that it returns. Transactions that publish a volume of
// the pool or assign one to a VM wait for the lock.
func QueueVolumeJob(ctx context.Context, s *store.Store, a fleet.Actor, pool fleet.PoolID, decide func(*db.Queries, assign.AssignableObject) (VolumeJob, error)) (task fleet.Task, err error) {
	return QueueVolumeJobWithRows(ctx, s, a, pool, decide, func(*db.Queries, fleet.TaskID) error { return nil })
}

// QueueVolumeJobWithRows works like QueueVolumeJob and then calls addRows in the same transaction, which adds rows that
// refer to the task.
func QueueVolumeJobWithRows(ctx context.Context, s *store.Store, a fleet.Actor, pool fleet.PoolID, decide func(*db.Queries, assign.AssignableObject) (VolumeJob, error), addRows func(*db.Queries, fleet.TaskID) error) (task fleet.Task, err error) {
	return QueueVolumeJobWithPoolActor(ctx, s, a, a, pool, decide, addRows)
}

// QueueVolumeJobWithPoolActor works like QueueVolumeJobWithRows, but changes the pool as poolActor instead of a, the person.
// The caller has checked the person's permission.
func QueueVolumeJobWithPoolActor(ctx context.Context, s *store.Store, poolActor, a fleet.Actor, pool fleet.PoolID, decide func(*db.Queries, assign.AssignableObject) (VolumeJob, error), addRows func(*db.Queries, fleet.TaskID) error) (task fleet.Task, err error) {
	err = assign.PoolType.ChangeObject(ctx, s, poolActor, string(pool), func(q *db.Queries, on assign.AssignableObject) error {
		j, err := decide(q, on)
		if err != nil {
			return err
		}
		subject := fleet.SubjectVolume(j.Ref)
		id, err := store.JoinOrQueueJob(ctx, q, a, db.JoinQueueParams{
			HostID: j.Host.ID, Kind: j.Kind, Subject: subject, SubjectName: j.Ref.Volume, ProjectID: j.Project, Args: fleet.JobArgs{DeleteDisks: j.DeletesData, Volume: &j.Params},
		})
		if err != nil {
			return err
		}
		if err := addRows(q, id); err != nil {
			return err
		}
		detail := fmt.Sprintf("in pool %s on %s: %s", on.Name, j.Host.Name, j.Detail)
		if !j.AuditByCaller {
			if err := store.Audit(ctx, q, a, string(j.Kind), subject, j.Ref.Volume, detail); err != nil {
				return err
			}
		}
		task, err = store.GetTask(ctx, q, a, id)
		return err
	})
	return store.RedactTask(a, task), err
}

// NewVolumeJobOnHost chooses the host of a new volume and returns the job for that host.
func NewVolumeJobOnHost(ctx context.Context, q *db.Queries, a fleet.Actor, j VolumeJob, choice HostChoice) (VolumeJob, error) {
	spec, err := ReadPoolSpec(ctx, q, j.Ref.PoolID)
	if err != nil {
		return j, err
	}
	if err := j.CheckPoolKind(spec); err != nil {
		return j, err
	}
	if choice.Named == "" && !spec.Shared {
		var checks fleet.Checks
		checks.Add("hostId", "Each host has separate files in this pool. Choose the host.")
		return j, checks.Err()
	}
	if err := CheckVolumeNameFree(ctx, q, j.Ref, choice.Named, spec.Shared); err != nil {
		return j, err
	}
	j.Host, err = FindHostForVolumeJob(ctx, q, a, j, choice)
	return j, err
}

// CheckPoolKind refuses a job that the kind of its pool does not support, such as a new volume whose format must be
// different.
func (j VolumeJob) CheckPoolKind(spec fleet.PoolSpec) error {
	is := spec.Kind.Info()
	var checks fleet.Checks
	switch {
	case !is.CreatesVolumes:
		return fleet.Errorf(fleet.Conflict, "Quantix cannot make volumes in a pool of kind %q: the storage makes them.", string(spec.Kind))
	case !is.FilePool && (j.Kind == fleet.VolumeFetch || j.Kind == fleet.VolumeUpload):
		return fleet.Errorf(fleet.Conflict, "Images can only be stored in file pools, and this pool is of kind %q.", string(spec.Kind))
	case !is.FilePool && j.Params.Format != "raw":
		checks.Add("format", "Volumes of a pool of kind %q are raw.", string(spec.Kind))
	}
	return checks.Err()
}
