package views

import (
	"slices"
	"time"

	"github.com/a-h/templ"

	"quantix/internal/fleet"
)

// TasksPage is the list of tasks.
type TasksPage struct {
	List
	Tasks []fleet.Job
}

// TaskColumns are the columns of tasks.
var TaskColumns = Columns{
	{Key: "target", Word: "Target"},
	{Key: "state", Word: "State"},
	{Key: "who", Word: "Who"},
	{Key: "host", Word: "Host"},
	{Key: "created", Word: "Started", Sort: "created"},
	{Key: "ended", Word: "Ended", Extra: true},
	{Key: "progress", Word: "Progress"},
	{Key: "result", Word: "Result"},
	{Key: "id", Word: "UUID", Extra: true},
}

func (p *TasksPage) tabs() []Tab {
	l := p.Link.First().Without("filter")
	tab := func(word, filter string) Tab {
		return Tab{Text: word, Href: l.With("filter", filter).String(), Here: p.Filter.Value == filter}
	}
	return []Tab{tab("All", ""), tab("Mine", "who:me"), tab("Running", "state:queued,running"), tab("Failed", "state:failed,unknown")}
}

func (p *TasksPage) table() Table[fleet.Job] {
	return taskTable(&p.List, "task-rows", p.Tasks, noTasks(p))
}

func taskTable(l *List, id string, tasks []fleet.Job, none templ.Component) Table[fleet.Job] {
	return Table[fleet.Job]{
		List: l, ID: id, Live: "tasks", Every: "30s", Label: "List of tasks", Noun: "task", Head: Column{Word: "Task"}, Items: tasks, None: none,
		Row: func(j *fleet.Job) Row {
			return Row{ID: id + "-" + string(j.ID), Name: j.Title(), Href: TaskPath(j.ID)}
		},
		Cells: taskRow,
	}
}

// TaskTable is tasks on another object's page; target: also what each is about.
func TaskTable(id string, tasks []fleet.Job, target bool) templ.Component {
	shown := TaskColumns.Chosen(Link{})
	if !slices.ContainsFunc(tasks, func(j fleet.Job) bool { return j.HostName != "" }) {
		shown = shown.Hostless()
	}
	if !target {
		shown = slices.DeleteFunc(shown, func(c Column) bool { return c.Key == "target" })
	}
	return table(taskTable(&List{Shown: shown}, id, tasks, nil))
}

// TaskPage is one task.
type TaskPage struct {
	Task   fleet.Job
	Now    time.Time
	Cancel fleet.ActionState // whether it can be taken back
}
