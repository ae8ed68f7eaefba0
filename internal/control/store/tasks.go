package store

import (
	"context"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// TaskFromRow returns the task of a row.
func TaskFromRow(r db.Task, host string) fleet.Task {
	t := fleet.Task{
		ID: r.ID, HostName: host, Kind: r.Kind, Subject: r.Subject, SubjectName: r.SubjectName, Generation: r.Generation,
		State: r.State, Attempt: int(r.Attempt), Progress: int(r.Progress), Steps: r.Steps, Note: r.Note, Error: r.Error, RetryAt: r.RetryAt,
		CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt, StartedAt: r.StartedAt, EndedAt: r.EndedAt,
	}
	if r.Steps != nil { // the stored number of failed children includes those that were refused
		steps := *r.Steps
		steps.Failed -= steps.Refused
		t.Steps = &steps
	}
	if r.ParentID != nil {
		t.Parent = *r.ParentID
	}
	if r.HostID != nil {
		t.HostID = *r.HostID
	}
	if r.ProjectID != nil {
		t.ProjectID = *r.ProjectID
	}
	return t
}

// GetTask returns a task that the actor may see, not redacted.
func GetTask(ctx context.Context, q *db.Queries, a fleet.Actor, id fleet.TaskID) (fleet.Task, error) {
	r, err := q.GetTask(ctx, db.GetTaskParams{ID: id, AllProjects: policy.SeesAllProjects(a), Projects: VisibleProjects(a), Own: ActorUserID(a)})
	if err != nil {
		return fleet.Task{}, NotFoundError(err, "task")
	}
	return TaskFromRow(r.Task, r.HostName), nil
}
