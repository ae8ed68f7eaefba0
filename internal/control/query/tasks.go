package query

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// taskOrders sorts tasks only by creation, which is the order of task IDs.
var taskOrders = orders[fleet.Task]{
	"created": {[]column{textColumn("t.id")}, func(t fleet.Task) []string { return []string{string(t.ID)} }},
}

const taskRows = `SELECT t.id, t.parent_id, t.host_id, t.project_id, t.kind, t.subject, t.subject_name, t.generation, t.state, t.attempt, t.progress, t.steps,
	t.note, t.error, t.retry_at, t.created_by, t.created_at, t.started_at, t.ended_at, COALESCE(h.name, '') FROM tasks t LEFT JOIN hosts h ON h.id = t.host_id`

// ListTasks returns one page of the tasks of the projects that the actor sees. Tasks of hosts and pools are visible
// only to global roles. Subtasks are listed only if the filter has one of the keys parent, target, name or host.
func (b *Queries) ListTasks(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.Task], error) {
	if err := policy.Check(a, policy.TasksSee, ""); err != nil {
		return fleet.Page[fleet.Task]{}, err
	}
	p, rq, err := b.tasksQuery(ctx, a, q)
	if err != nil {
		return fleet.Page[fleet.Task]{}, err
	}
	items, err := collect(ctx, b, rq.sql, rq.s, rq.scan)
	return p.pageOf(redactAll(a, items, store.TaskFor)), err
}

// tasksQuery builds the query for one page of tasks.
func (b *Queries) tasksQuery(ctx context.Context, a fleet.Actor, q fleet.Query) (paging[fleet.Task], rowQuery[fleet.Task], error) {
	s := new(statement)
	p, terms, err := taskOrders.parse(q, "-created", withoutHostKey(a, fleet.TaskKeys))
	if err != nil {
		return p, rowQuery[fleet.Task]{}, err
	}
	listed := s.tasksFor(a, q.Project, terms)
	for _, t := range terms {
		if t.Key == "who" && listed {
			if t.Alternatives, err = b.matchingCreators(ctx, t.Alternatives); err != nil {
				return p, rowQuery[fleet.Task]{}, err
			}
		}
		if err := b.taskTerm(ctx, s, a, t); err != nil {
			return p, rowQuery[fleet.Task]{}, err
		}
	}
	tail := p.applyCursor(s)
	sql := taskRows + s.conditions() + tail
	if slices.ContainsFunc(terms, usesFinishedIndex) {
		over, open := taskRows+s.conditionsWith(taskFinished)+tail, taskRows+s.conditionsWith(taskOpen)+tail
		sql = "SELECT * FROM ((" + over + ") UNION ALL (" + open + ")) t ORDER BY " + p.orderBy() + " LIMIT " + strconv.Itoa(p.limit+1)
	}
	return p, rowQuery[fleet.Task]{sql, s, scanTask}, nil
}

// Every task is either finished or open. Each condition has its own indexes.
const (
	taskFinished = "t.state IN ('done', 'failed', 'cancelled', 'unknown')"
	taskOpen     = "t.state IN ('queued', 'running')"
)

// usesFinishedIndex reports whether the term is best served by an index that exists only for finished tasks.
func usesFinishedIndex(t fleet.Term) bool {
	return !t.Not && (t.Key == "kind" || t.Key == "who" && !slices.ContainsFunc(t.Alternatives, func(m fleet.Match) bool { return len(m.Pattern) == 1 && m.Pattern[0] == "me" }))
}

// tasksFor limits tasks to those that the actor sees. A task over several projects belongs to no project: its subtasks
// are listed in their projects, and the task itself only for its creator. The result listed is true if the terms select
// only top-level entries.
func (s *statement) tasksFor(a fleet.Actor, only fleet.ProjectID, terms []fleet.Term) (listed bool) {
	has := func(keys ...string) bool {
		return slices.ContainsFunc(terms, func(t fleet.Term) bool { return !t.Not && slices.Contains(keys, t.Key) })
	}
	mine := only == "" && a.UserID != "" && has("who", "parent") && !policy.AllProjects(a)
	if mine {
		s.and(s.oneOf("t.project_id", store.ProjectsOf(a)) + " OR t.project_id IS NULL AND (t.steps IS NOT NULL OR t.parent_id IS NOT NULL) AND t.user_id = " + s.arg(string(a.UserID)))
	} else {
		s.visible(a, "t.project_id", only)
	}
	switch {
	case has("parent", "target", "name", "host"):
		return false
	case mine || only == "" && policy.AllProjects(a):
		s.and("t.parent_id IS NULL AND t.listed") // redundant, but matches the condition of the indexes
	default:
		s.and("t.listed")
	}
	return true
}

func (b *Queries) taskTerm(ctx context.Context, s *statement, a fleet.Actor, t fleet.Term) error {
	switch t.Key {
	case "state", "kind":
		s.not(t.Not, s.text("t."+t.Key, t.Alternatives))
	case "target", "name":
		s.not(t.Not, "("+s.text("t.subject_name", lower(t.Alternatives))+" OR "+s.text("t.subject", lower(t.Alternatives))+")")
	case "host":
		ids, err := b.idsByName(ctx, "hosts", t.Alternatives)
		if err == nil {
			s.not(t.Not, s.oneOf("t.host_id", ids))
		}
		return err
	case "parent":
		s.not(t.Not, s.text("t.parent_id", t.Alternatives))
	case "who":
		s.not(t.Not, s.createdBy(a, t.Alternatives))
	}
	return nil
}

// matchingCreators replaces patterns by the matching names of creators of listed tasks; prefixes stay unchanged. Such
// names are few, and the recursive query steps through the index from name to name.
func (b *Queries) matchingCreators(ctx context.Context, any []fleet.Match) ([]fleet.Match, error) {
	var patterns, rest []fleet.Match
	for _, m := range any {
		if _, exact := m.Exact(); exact || len(m.Pattern) == 2 && m.Pattern[1] == "" {
			rest = append(rest, m)
		} else {
			patterns = append(patterns, m)
		}
	}
	if len(patterns) == 0 {
		return any, nil
	}
	s := new(statement)
	s.and(s.text("n.name", patterns))
	names, err := collect(ctx, b, creatorsSQL+s.conditions(), s, pgx.RowTo[string])
	for _, name := range names {
		rest = append(rest, fleet.Match{Pattern: fleet.Pattern{name}})
	}
	return rest, err
}

const creatorsSQL = `WITH RECURSIVE over (name) AS (
	(SELECT t.created_by FROM tasks t WHERE t.listed AND ` + taskFinished + ` ORDER BY t.created_by USING ~<~ LIMIT 1)
	UNION ALL SELECT (SELECT t.created_by FROM tasks t WHERE t.listed AND ` + taskFinished + ` AND t.created_by ~>~ o.name ORDER BY t.created_by USING ~<~ LIMIT 1)
		FROM over o WHERE o.name IS NOT NULL)
	SELECT n.name FROM (SELECT name FROM over UNION SELECT t.created_by FROM tasks t WHERE ` + taskOpen + `) n`

// createdBy is the condition that a task was created by any of the names, or by the actor for "me". If the term has no
// other names, an index finds the actor's own tasks.
func (s *statement) createdBy(a fleet.Actor, any []fleet.Match) string {
	var names []fleet.Match
	parts := []string{"false"}
	for _, m := range any {
		if text, exact := m.Exact(); exact && text == "me" && a.UserID != "" {
			parts = append(parts, "t.user_id = "+s.arg(string(a.UserID)))
		} else {
			names = append(names, m)
		}
	}
	if len(names) > 0 {
		parts = append(parts, s.text("t.created_by", names))
	}
	return strings.Join(parts, " OR ")
}

func scanTask(row pgx.CollectableRow) (fleet.Task, error) {
	var r db.Task
	var host string
	err := row.Scan(&r.ID, &r.ParentID, &r.HostID, &r.ProjectID, &r.Kind, &r.Subject, &r.SubjectName, &r.Generation, &r.State, &r.Attempt, &r.Progress, &r.Steps,
		&r.Note, &r.Error, &r.RetryAt, &r.CreatedBy, &r.CreatedAt, &r.StartedAt, &r.EndedAt, &host)
	return store.TaskOf(r, host), err
}

// GetTask returns one task.
func (b *Queries) GetTask(ctx context.Context, a fleet.Actor, id fleet.TaskID) (fleet.Task, error) {
	if err := policy.Check(a, policy.TasksSee, ""); err != nil {
		return fleet.Task{}, err
	}
	if err := store.CheckID(id, "task"); err != nil {
		return fleet.Task{}, err
	}
	t, err := store.GetTask(ctx, b.store.Queries, a, id)
	return store.TaskFor(a, t), err
}

// RunningTasks counts the waiting and running tasks that the actor sees, up to 1000.
func (b *Queries) RunningTasks(ctx context.Context, a fleet.Actor) (int, error) {
	if err := policy.Check(a, policy.TasksSee, ""); err != nil {
		return 0, err
	}
	rq := runningTasksQuery(a)
	n, err := collect(ctx, b, rq.sql, rq.s, rq.scan)
	if err != nil {
		return 0, err
	}
	return n[0], nil
}

// runningTasksQuery builds the query of RunningTasks. The limit keeps the count cheap; nobody needs a number above
// 1000.
func runningTasksQuery(a fleet.Actor) rowQuery[int] {
	s := new(statement)
	s.tasksFor(a, "", nil)
	s.and("t.state IN ('queued', 'running')")
	return rowQuery[int]{"SELECT count(*) FROM (SELECT 1 FROM tasks t" + s.conditions() + " LIMIT " + s.key(1000) + ") bounded", s, pgx.RowTo[int]}
}

// OpenJobs counts the waiting (fleet.JobQueued) and running (fleet.JobRunning) jobs of all hosts, including consoles.
func (b *Queries) OpenJobs(ctx context.Context, a fleet.Actor) (map[fleet.JobState]int64, error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return nil, err
	}
	n, err := b.store.CountOpenJobs(ctx)
	return map[fleet.JobState]int64{fleet.JobQueued: n.Queued, fleet.JobRunning: n.Running}, store.Err(err)
}
