package store

import (
	"context"

	"quantix/db"
	"quantix/internal/fleet"
)

// Queue adds a job, or hands its newer generation to one that already waits, and returns the task that it is of.
func Queue(ctx context.Context, q *db.Queries, a fleet.Actor, j db.QueueJobParams) (fleet.TaskID, error) {
	j.ID, j.CreatedBy, j.UserID = fleet.NewID[fleet.JobID](), a.Name, UserIDOf(a)
	task, err := q.QueueJob(ctx, j)
	return fleet.TaskID(task), err
}

// PowerOrders are the jobs of which only the newest counts.
var PowerOrders = fleet.KindsWhere(func(k fleet.Kind) bool { return k.NewestOnly })
