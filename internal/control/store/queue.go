package store

import (
	"context"

	"quantix/db"
	"quantix/internal/fleet"
)

type childTaskKey struct{}

// WithChildTask returns a context with which JoinOrQueueJob adds the job to the given child of a bulk task instead of a
// new task.
func WithChildTask(ctx context.Context, child fleet.TaskID) context.Context {
	return context.WithValue(ctx, childTaskKey{}, child)
}

// ChildTask returns the child task that WithChildTask has set in ctx, or an empty ID.
func ChildTask(ctx context.Context) fleet.TaskID {
	child, _ := ctx.Value(childTaskKey{}).(fleet.TaskID)
	return child
}

// JoinOrQueueJob adds a job, unless an equal job is queued: then it only raises that job's generation. It returns the
// job's task.
func JoinOrQueueJob(ctx context.Context, q *db.Queries, a fleet.Actor, j db.JoinQueueParams) (fleet.TaskID, error) {
	j.ID, j.CreatedBy, j.UserID = fleet.NewID[fleet.JobID](), a.Name, ActorUserID(a)
	if child := ChildTask(ctx); child != "" && j.Child == nil {
		j.Child = (*string)(&child)
	}
	if j.Child == nil {
		n, err := q.QueueJob(ctx, db.QueueJobParams{
			ID: string(j.ID), HostID: &j.HostID, Kind: j.Kind, Subject: j.Subject, Args: j.Args, Generation: j.Generation, ProjectID: j.ProjectID,
			SubjectName: j.SubjectName, CreatedBy: j.CreatedBy, UserID: j.UserID,
		})
		if err != nil || n > 0 {
			return fleet.TaskID(j.ID), err
		}
	}
	id, err := q.JoinQueue(ctx, j)
	task := fleet.TaskID(id)
	if err == nil && j.Child == nil && id != string(j.ID) {
		err = q.JoinTask(ctx, db.JoinTaskParams{ID: task, CreatedBy: j.CreatedBy, UserID: j.UserID})
	}
	return task, err
}

// PowerJobKinds are the kinds of power jobs. A new job of one kind cancels queued jobs of the others.
var PowerJobKinds = fleet.JobKindsWhere(func(k fleet.JobKindInfo) bool { return k.NewestOnly })
