package control

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

func jobOf(r db.Job, host string) fleet.Job {
	j := fleet.Job{
		ID: r.ID, HostID: r.HostID, HostName: host, Kind: r.Kind, Subject: r.Subject, SubjectName: r.SubjectName, Generation: r.Generation,
		State: r.State, Attempt: int(r.Attempt), Progress: int(r.Progress), Note: r.Note, Error: r.Error,
		CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt, StartedAt: r.StartedAt, EndedAt: r.EndedAt,
	}
	if r.ProjectID != nil {
		j.ProjectID = *r.ProjectID
	}
	if r.Retries > 0 && r.State == fleet.JobQueued {
		j.RetryAt = &r.RunAfter
	}
	return j
}

// taskOrders: tasks are listed newest first, always; their ids are ordered by birth.
var taskOrders = orders[fleet.Job]{
	"created": {[]column{textColumn("j.id")}, func(j fleet.Job) []string { return []string{string(j.ID)} }},
}

const taskRows = `SELECT j.id, j.host_id, j.project_id, j.kind, j.subject, j.subject_name, j.generation, j.state, j.attempt, j.progress, j.note, j.error,
	j.retries, j.run_after, j.created_by, j.created_at, j.started_at, j.ended_at, h.name FROM jobs j JOIN hosts h ON h.id = j.host_id`

// ListTasks returns one page of the tasks of the projects that the actor sees; those of hosts and pools only to global roles.
// Opened consoles are no tasks.
func (c *Control) ListTasks(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.Job], error) {
	if err := policy.Check(a, policy.TasksSee, ""); err != nil {
		return fleet.Page[fleet.Job]{}, err
	}
	p, ask, err := c.tasksOf(ctx, a, q)
	if err != nil {
		return fleet.Page[fleet.Job]{}, err
	}
	items, err := collect(ctx, c, ask.sql, ask.s, ask.scan)
	return p.cut(each(a, items, jobFor)), err
}

// tasksOf is the question for one page of tasks.
func (c *Control) tasksOf(ctx context.Context, a fleet.Actor, q fleet.Query) (paging[fleet.Job], question[fleet.Job], error) {
	s := new(statement)
	p, err := taskOrders.page(q, "-created")
	if err != nil {
		return p, question[fleet.Job]{}, err
	}
	terms, err := fleet.ParseFilter(noHosts(a, fleet.TaskKeys), q.Filter)
	if err != nil {
		return p, question[fleet.Job]{}, err
	}
	s.visible(a, "j.project_id", q.Project)
	s.and("j.kind <> 'console.open'")
	for _, t := range terms {
		if err := c.taskTerm(ctx, s, a, t); err != nil {
			return p, question[fleet.Job]{}, err
		}
	}
	tail := p.apply(s)
	return p, question[fleet.Job]{taskRows + s.conditions() + tail, s, scanTask}, nil
}

func (c *Control) taskTerm(ctx context.Context, s *statement, a fleet.Actor, t fleet.Term) error {
	switch t.Key {
	case "state", "kind":
		s.not(t.Not, s.text("j."+t.Key, t.Any))
	case "target", "name":
		s.not(t.Not, "("+s.text("j.subject_name", lower(t.Any))+" OR "+s.text("j.subject", lower(t.Any))+")")
	case "host":
		ids, err := c.named(ctx, "hosts", t.Any)
		if err == nil {
			s.not(t.Not, s.oneOf("j.host_id", ids))
		}
		return err
	case "who":
		s.not(t.Not, s.who(a, t.Any))
	}
	return nil
}

// who is the condition that a task was asked for by one of any: names, or "me". One's own tasks are found by index as long as
// no name stands beside them.
func (s *statement) who(a fleet.Actor, any []fleet.Match) string {
	var names []fleet.Match
	var parts []string
	for _, m := range any {
		if text, exact := m.Exact(); exact && text == "me" && a.UserID != "" {
			parts = append(parts, "j.user_id = "+s.arg(string(a.UserID)))
		} else {
			names = append(names, m)
		}
	}
	if len(names) > 0 {
		parts = append(parts, s.text("j.created_by", names))
	}
	return strings.Join(parts, " OR ")
}

func scanTask(row pgx.CollectableRow) (fleet.Job, error) {
	var r db.Job
	var host string
	err := row.Scan(&r.ID, &r.HostID, &r.ProjectID, &r.Kind, &r.Subject, &r.SubjectName, &r.Generation, &r.State, &r.Attempt, &r.Progress, &r.Note, &r.Error,
		&r.Retries, &r.RunAfter, &r.CreatedBy, &r.CreatedAt, &r.StartedAt, &r.EndedAt, &host)
	return jobOf(r, host), err
}

// GetTask returns one task.
func (c *Control) GetTask(ctx context.Context, a fleet.Actor, id fleet.JobID) (fleet.Job, error) {
	if err := policy.Check(a, policy.TasksSee, ""); err != nil {
		return fleet.Job{}, err
	}
	if err := checkID(id, "task"); err != nil {
		return fleet.Job{}, err
	}
	j, err := getTask(ctx, c.q, a, id)
	return jobFor(a, j), err
}

func getTask(ctx context.Context, q *db.Queries, a fleet.Actor, id fleet.JobID) (fleet.Job, error) {
	r, err := q.GetTask(ctx, db.GetTaskParams{ID: id, AllProjects: policy.AllProjects(a), Projects: projectsOf(a)})
	if err != nil {
		return fleet.Job{}, notFound(err, "task")
	}
	return jobOf(r.Job, r.HostName), nil
}

// CancelTask takes back an order that no host has begun; a deletion is undone with it. What brings a host to the intent that
// people gave cannot be cancelled: it would be queued again.
func (c *Control) CancelTask(ctx context.Context, a fleet.Actor, id fleet.JobID) (fleet.Job, error) {
	if err := policy.Check(a, policy.TasksSee, ""); err != nil {
		return fleet.Job{}, err
	}
	if err := checkID(id, "task"); err != nil {
		return fleet.Job{}, err
	}
	var j fleet.Job
	err := c.tx(ctx, func(q *db.Queries) error {
		var err error
		if j, err = getTask(ctx, q, a, id); err != nil {
			return err
		}
		if _, err := q.HoldSubject(ctx, db.HoldSubjectParams{ID: id}); err != nil {
			return err
		}
		if err := mayCancel(a, j); err != nil {
			return err
		}
		n, err := q.CancelTask(ctx, db.CancelTaskParams{ID: id, Error: fmt.Sprintf("Cancelled by %s.", a.Name)})
		if err != nil {
			return err
		}
		if n == 0 {
			return fleet.Errorf(fleet.Conflict, "Only a task that still waits can be cancelled. This one is %s.", j.State)
		}
		if _, id := j.Subject.Split(); j.Kind == fleet.VMDelete {
			if err := q.UndoDeletion(ctx, db.UndoDeletionParams{ID: fleet.VMID(id), HostID: j.HostID}); err != nil {
				return err
			}
		}
		if j, err = getTask(ctx, q, a, id); err != nil {
			return err
		}
		return audit(ctx, q, a, "task.cancel", j.Subject, j.SubjectName, j.Title())
	})
	if err != nil {
		return fleet.Job{}, err
	}
	return jobFor(a, j), nil
}

// mayCancel asks for the right that the task itself took, and whether cancelling would have any effect.
func mayCancel(a fleet.Actor, j fleet.Job) error {
	is := j.Kind.Is()
	right := is.Right
	if j.ProjectID == "" {
		right = policy.InfraChange
	}
	if err := policy.Check(a, right, j.ProjectID); err != nil {
		return err
	}
	switch {
	case is.Begun != "" && j.Attempt > 0:
		return fleet.Errorf(fleet.Conflict, "%s", is.Begun)
	case is.Stands != "":
		return fleet.Errorf(fleet.Conflict, "%s", is.Stands)
	}
	return nil
}

// RunningTasks counts the waiting and running tasks that the actor sees, up to 1000.
func (c *Control) RunningTasks(ctx context.Context, a fleet.Actor) (int, error) {
	if err := policy.Check(a, policy.TasksSee, ""); err != nil {
		return 0, err
	}
	ask := runningOf(a)
	n, err := collect(ctx, c, ask.sql, ask.s, ask.scan)
	if err != nil {
		return 0, err
	}
	return n[0], nil
}

// runningOf is the question for their number. It is bounded: nobody reads a number above a thousand.
func runningOf(a fleet.Actor) question[int] {
	s := new(statement)
	s.visible(a, "j.project_id", "")
	s.and("j.state IN ('queued', 'running') AND j.kind <> 'console.open'")
	return question[int]{"SELECT count(*) FROM (SELECT 1 FROM jobs j" + s.conditions() + " LIMIT 1000) bounded", s, pgx.RowTo[int]}
}

// OpenJobs counts the jobs of all hosts that wait (fleet.JobQueued) and run (fleet.JobRunning), consoles among them.
func (c *Control) OpenJobs(ctx context.Context, a fleet.Actor) (map[fleet.JobState]int64, error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return nil, err
	}
	n, err := c.q.CountOpenJobs(ctx)
	return map[fleet.JobState]int64{fleet.JobQueued: n.Queued, fleet.JobRunning: n.Running}, dbError(err)
}
