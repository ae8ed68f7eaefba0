package query

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/filter"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// taskSortOrders has only the order by creation, which is the order of task IDs.
var taskSortOrders = sortOrders[fleet.Task]{
	"created": {[]sortColumn{textColumn("t.id")}, func(t fleet.Task) []string { return []string{string(t.ID)} }},
}

// migrationTargetSQL is the name of the host that a migration (alias t of tasks) moves its VM to.
const migrationTargetSQL = `(SELECT m.name FROM jobs j JOIN hosts m ON m.id = j.args->'migrate'->>'to' WHERE j.task_id = t.id AND j.kind = 'vm.migrate' LIMIT 1)`

const taskRowsSQL = `SELECT t.id, t.parent_id, t.host_id, t.project_id, t.kind, t.subject, t.subject_name, t.generation, t.state, t.attempt, t.progress, t.steps,
	t.note, t.error, t.retry_at, t.created_by, t.created_at, t.started_at, t.ended_at, COALESCE(h.name, ''), CASE WHEN t.kind = 'vm.migrate' THEN ` + migrationTargetSQL + ` END FROM tasks t LEFT JOIN hosts h ON h.id = t.host_id`

// ListTasks returns one page of the tasks of the projects that the actor sees. Tasks of hosts and pools are visible
// only to global roles. Child tasks are listed only if the filter has one of the keys parent, target, name or host.
func (b *Queries) ListTasks(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.Task], error) {
	if err := policy.Check(a, policy.TasksSee, ""); err != nil {
		return fleet.Page[fleet.Task]{}, err
	}
	p, rq, err := b.tasksQuery(ctx, a, q)
	if err != nil {
		return fleet.Page[fleet.Task]{}, err
	}
	items, err := collectRows(ctx, b, rq.sql, rq.s, rq.scan)
	page := p.buildPage(redactAll(a, items, store.RedactTask))
	if err == nil {
		err = b.store.HidePoolsOfTasks(ctx, a, pointers(page.Items)...)
	}
	return page, err
}

// tasksQuery builds the query for one page of tasks.
func (b *Queries) tasksQuery(ctx context.Context, a fleet.Actor, q fleet.Query) (pagePosition[fleet.Task], rowQuery[fleet.Task], error) {
	s := new(statementBuilder)
	p, terms, err := taskSortOrders.parseQuery(q, "-created", filterKeys(a, fleet.TypeTask))
	if err != nil {
		return p, rowQuery[fleet.Task]{}, err
	}
	listed := s.whereTaskVisible(a, q.Project, terms)
	resolved := slices.Clone(terms)
	for i, t := range terms {
		if t.Key == "who" && listed {
			if resolved[i].Alternatives, err = b.matchingCreators(ctx, t.Alternatives); err != nil {
				return p, rowQuery[fleet.Task]{}, err
			}
		}
	}
	if _, err := b.applyFilter(ctx, s, a, taskFilter, resolved); err != nil {
		return p, rowQuery[fleet.Task]{}, err
	}
	tail := p.applyCursor(s)
	sql := taskRowsSQL + s.whereClause() + tail
	if slices.ContainsFunc(terms, usesFinishedIndex) {
		over, open := taskRowsSQL+s.whereClauseWith(taskFinishedSQL)+tail, taskRowsSQL+s.whereClauseWith(taskOpenSQL)+tail
		sql = "SELECT * FROM ((" + over + ") UNION ALL (" + open + ")) t ORDER BY " + p.orderBySQL() + " LIMIT " + strconv.Itoa(p.limit+1)
	}
	return p, rowQuery[fleet.Task]{sql, s, scanTask}, nil
}

// Every task is either finished or open. There are separate partial indexes for both conditions.
const (
	taskFinishedSQL = "t.state IN ('done', 'failed', 'cancelled', 'unknown')"
	taskOpenSQL     = "t.state IN ('queued', 'running')"
)

// usesFinishedIndex reports whether a suitable index for the term exists only for finished tasks.
func usesFinishedIndex(t filter.Term) bool {
	return !t.Not && (t.Key == "kind" || t.Key == "who" && !slices.ContainsFunc(t.Alternatives, func(m filter.Match) bool { return len(m.Pattern) == 1 && m.Pattern[0] == "me" }))
}

// whereTaskVisible limits tasks to those that the actor sees. A task for VMs of several projects belongs to no project:
// only its creator sees it, while its child tasks belong to the VMs' projects. listed reports whether the conditions
// exclude child tasks.
func (s *statementBuilder) whereTaskVisible(a fleet.Actor, only fleet.ProjectID, terms []filter.Term) (listed bool) {
	has := func(keys ...string) bool {
		return slices.ContainsFunc(terms, func(t filter.Term) bool { return !t.Not && slices.Contains(keys, t.Key) })
	}
	mine := only == "" && a.UserID != "" && has("who", "parent") && !policy.SeesAllProjects(a)
	if mine {
		s.addCondition(s.oneOfSQL("t.project_id", store.VisibleProjects(a)) + " OR t.project_id IS NULL AND (t.steps IS NOT NULL OR t.parent_id IS NOT NULL) AND t.user_id = " + s.addArg(string(a.UserID)))
	} else {
		s.whereProjectVisible(a, "t.project_id", only)
	}
	switch {
	case has("parent", "target", "name", "host"):
		return false
	case mine || only == "" && policy.SeesAllProjects(a):
		s.addCondition("t.parent_id IS NULL AND t.listed") // redundant, but matches the condition of the indexes
	default:
		s.addCondition("t.listed")
	}
	return true
}

// taskFilter are the conditions of fleet.TaskKeys.
var taskFilter = listFilter{
	"state":  exactTextCondition("t.state"),
	"kind":   exactTextCondition("t.kind"),
	"target": taskTarget,
	"name":   taskTarget,
	"host":   rowNameCondition("t.host_id", "hosts"),
	"parent": exactTextCondition("t.parent_id"),
	"who": sqlCondition(func(f filterScope, t filter.Term) string {
		return f.createdBySQL(f.actor, "t.user_id", "t.created_by", t.Alternatives)
	}),
}

var taskTarget = sqlCondition(func(f filterScope, t filter.Term) string {
	return "(" + f.matchText("t.subject_name", lowerMatches(t.Alternatives)) + " OR " + f.matchText("t.subject", lowerMatches(t.Alternatives)) + ")"
})

// matchingCreators replaces patterns, except prefixes, by the matching names of task creators. There are few creators,
// and a recursive query steps through the index from one name to the next.
func (b *Queries) matchingCreators(ctx context.Context, any []filter.Match) ([]filter.Match, error) {
	var patterns, rest []filter.Match
	for _, m := range any {
		if _, exact := m.ExactText(); exact || len(m.Pattern) == 2 && m.Pattern[1] == "" {
			rest = append(rest, m)
		} else {
			patterns = append(patterns, m)
		}
	}
	if len(patterns) == 0 {
		return any, nil
	}
	s := new(statementBuilder)
	s.addCondition(s.matchText("n.name", patterns))
	names, err := collectRows(ctx, b, creatorsSQL+s.whereClause(), s, pgx.RowTo[string])
	for _, name := range names {
		rest = append(rest, filter.Match{Pattern: filter.Pattern{name}})
	}
	return rest, err
}

const creatorsSQL = `WITH RECURSIVE over (name) AS (
	(SELECT t.created_by FROM tasks t WHERE t.listed AND ` + taskFinishedSQL + ` ORDER BY t.created_by USING ~<~ LIMIT 1)
	UNION ALL SELECT (SELECT t.created_by FROM tasks t WHERE t.listed AND ` + taskFinishedSQL + ` AND t.created_by ~>~ o.name ORDER BY t.created_by USING ~<~ LIMIT 1)
		FROM over o WHERE o.name IS NOT NULL)
	SELECT n.name FROM (SELECT name FROM over UNION SELECT t.created_by FROM tasks t WHERE ` + taskOpenSQL + `) n`

// createdBySQL returns the condition that the user with the ID and name in the columns has one of the names. The name "me"
// stands for the actor; if it is the only name, an index finds the actor's tasks.
func (s *statementBuilder) createdBySQL(a fleet.Actor, idColumn, nameColumn string, any []filter.Match) string {
	var names []filter.Match
	parts := []string{"false"}
	for _, m := range any {
		if text, exact := m.ExactText(); exact && text == "me" && a.UserID != "" {
			parts = append(parts, idColumn+" = "+s.addArg(string(a.UserID)))
		} else {
			names = append(names, m)
		}
	}
	if len(names) > 0 {
		parts = append(parts, s.matchText(nameColumn, names))
	}
	return strings.Join(parts, " OR ")
}

func scanTask(row pgx.CollectableRow) (fleet.Task, error) {
	var r db.Task
	var host string
	var target *string
	err := row.Scan(&r.ID, &r.ParentID, &r.HostID, &r.ProjectID, &r.Kind, &r.Subject, &r.SubjectName, &r.Generation, &r.State, &r.Attempt, &r.Progress, &r.Steps,
		&r.Note, &r.Error, &r.RetryAt, &r.CreatedBy, &r.CreatedAt, &r.StartedAt, &r.EndedAt, &host, &target)
	t := store.TaskFromRow(r, host)
	if target != nil {
		t.TargetHostName = *target
	}
	return t, err
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
	t = store.RedactTask(a, t)
	if err == nil {
		err = b.store.HidePoolsOfTasks(ctx, a, &t)
	}
	return t, err
}

// RunningTasks returns the number of queued and running tasks that the actor sees, up to 1000.
func (b *Queries) RunningTasks(ctx context.Context, a fleet.Actor) (int, error) {
	if err := policy.Check(a, policy.TasksSee, ""); err != nil {
		return 0, err
	}
	rq := runningTasksQuery(a)
	n, err := collectRows(ctx, b, rq.sql, rq.s, rq.scan)
	if err != nil {
		return 0, err
	}
	return n[0], nil
}

// runningTasksQuery returns the query of RunningTasks. It stops counting at 1000 to limit its cost.
func runningTasksQuery(a fleet.Actor) rowQuery[int] {
	s := new(statementBuilder)
	s.whereTaskVisible(a, "", nil)
	s.addCondition("t.state IN ('queued', 'running')")
	return rowQuery[int]{"SELECT count(*) FROM (SELECT 1 FROM tasks t" + s.whereClause() + " LIMIT " + s.addKeyArg(1000) + ") bounded", s, pgx.RowTo[int]}
}

// CountOpenJobs returns the numbers of queued (fleet.JobQueued) and running (fleet.JobRunning) jobs of all hosts,
// including console jobs.
func (b *Queries) CountOpenJobs(ctx context.Context, a fleet.Actor) (map[fleet.JobState]int64, error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return nil, err
	}
	n, err := b.store.CountOpenJobs(ctx)
	return map[fleet.JobState]int64{fleet.JobQueued: n.Queued, fleet.JobRunning: n.Running}, store.UserError(err)
}
