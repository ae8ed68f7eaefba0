package testkit

import (
	"cmp"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"quantix/internal/fleet"
)

// TaskWithJob describes a task with one job, for the database of a test.
type TaskWithJob struct {
	ID      fleet.TaskID // also the job's ID; empty: a new ID
	Host    fleet.HostID
	Project fleet.ProjectID // empty: none
	Kind    fleet.JobKind
	Subject fleet.Subject
	Name    string
	State   fleet.JobState // empty: queued
	By      string         // creator of the task; empty: test
	Error   string
}

// Add inserts the task and its job in the same way as package control, and returns the task's ID.
func (o TaskWithJob) Add(t testing.TB, pool *pgxpool.Pool) fleet.TaskID {
	t.Helper()
	o.ID = cmp.Or(o.ID, fleet.NewID[fleet.TaskID]())
	_, err := pool.Exec(t.Context(), `
		WITH job AS (
			INSERT INTO jobs (id, task_id, host_id, kind, subject, generation, state, error) VALUES ($1, $1, $2, $4, $5, 1, $7, $9)
		)
		INSERT INTO tasks (id, host_id, project_id, kind, subject, subject_name, generation, state, created_by, error)
		VALUES ($1, $2, NULLIF($3::text, ''), $4, $5, $6, 1, $7, $8, $9)`,
		o.ID, o.Host, o.Project, o.Kind, o.Subject, o.Name, cmp.Or(o.State, fleet.JobQueued), cmp.Or(o.By, "test"), o.Error)
	if err != nil {
		t.Fatal(err)
	}
	return o.ID
}
