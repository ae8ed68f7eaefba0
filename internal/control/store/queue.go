package store

import (
	"context"

	"quantix/db"
	"quantix/internal/fleet"
)

// Queue adds a job, or hands its newer generation to one that already waits, and returns the task that it is of.
func Queue(ctx context.Context, q *db.Queries, a fleet.Actor, j db.QueueJobParams) (fleet.TaskID, error) {
	j.ID, j.CreatedBy, j.UserID = fleet.NewID[fleet.JobID](), a.Name, UserIDOf(a)
	id, err := q.QueueJob(ctx, j)
	task := fleet.TaskID(id)
	if err == nil && j.Child == nil && id != string(j.ID) {
		err = q.JoinTask(ctx, db.JoinTaskParams{ID: task, CreatedBy: j.CreatedBy, UserID: j.UserID})
	}
	return task, err
}

// PowerOrders are the jobs of which only the newest counts.
var PowerOrders = fleet.KindsWhere(func(k fleet.Kind) bool { return k.NewestOnly })
