package views

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"quantix/internal/fleet"
)

// TasksPage is the list of tasks.
type TasksPage struct {
	List
	Tasks []fleet.Task
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

func (p *TasksPage) table() Table[fleet.Task] {
	return taskTable(&p.List, "task-rows", p.Tasks, noTasks(p))
}

func taskTable(l *List, id string, tasks []fleet.Task, none templ.Component) Table[fleet.Task] {
	return Table[fleet.Task]{
		List: l, ID: id, Live: "tasks", Every: "30s", Label: "List of tasks", Noun: "task", Head: Column{Word: "Task"}, Items: tasks, None: none,
		Row: func(j *fleet.Task) Row {
			return Row{ID: id + "-" + string(j.ID), Name: j.Title(), Href: TaskPath(j.ID)}
		},
		Cells: taskRow,
	}
}

// TaskTable is tasks on another object's page; target: also what each is about.
func TaskTable(id string, tasks []fleet.Task, target bool) templ.Component {
	shown := TaskColumns.Chosen(Link{})
	if !slices.ContainsFunc(tasks, func(j fleet.Task) bool { return j.HostName != "" }) {
		shown = shown.Hostless()
	}
	if !target {
		shown = slices.DeleteFunc(shown, func(c Column) bool { return c.Key == "target" })
	}
	return table(taskTable(&List{Shown: shown}, id, tasks, nil))
}

// TaskPage is one task.
type TaskPage struct {
	Task   fleet.Task
	Parent *fleet.Task // what it is a part of; nil: nothing, or nothing that the reader may see
	Now    time.Time
	Cancel fleet.ActionState // whether it can be taken back
	Steps  *TasksPage        // a page of its children; nil: it has none
	Back   string            // the list that it was asked for in; empty: none
}

// StepColumns are the columns of a task's children.
var StepColumns = Columns{
	{Key: "state", Word: "State"},
	{Key: "result", Word: "What happened"},
	{Key: "progress", Word: "Progress", Class: "hide-narrow"},
	{Key: "host", Word: "Host", Class: "hide-narrow"},
	{Key: "task", Word: "Task"},
}

// live and href say how the page follows its task.
func (p TaskPage) live() string {
	if p.Steps != nil {
		return string(fleet.SubjectTask(p.Task.ID))
	}
	return "tasks"
}

func (p TaskPage) href() string {
	if p.Steps != nil {
		return p.Steps.Link.String()
	}
	return TaskPath(p.Task.ID)
}

func (p TaskPage) crumbs() []Crumb {
	all := []Crumb{{"Tasks", "/tasks"}}
	if p.Parent != nil {
		all = append(all, Crumb{p.Parent.Title() + " " + p.Parent.SubjectName, TaskPath(p.Parent.ID)})
	}
	return all
}

// stepTabs lead to the children in each state that some are in.
func (p TaskPage) stepTabs() []Tab {
	l, s := p.Steps.Link.First().Without("filter"), p.Task.Steps
	tabs := []Tab{{Text: "All", Href: l.String(), Here: p.Steps.Filter.Value == "", Count: strconv.Itoa(s.Queued + s.Running + s.Done + s.Failed + s.Cancelled + s.Unknown)}}
	for _, x := range []struct {
		state fleet.JobState
		n     int
	}{
		{fleet.JobQueued, s.Queued}, {fleet.JobRunning, s.Running}, {fleet.JobDone, s.Done}, {fleet.JobFailed, s.Failed}, {fleet.JobUnknown, s.Unknown}, {fleet.JobCancelled, s.Cancelled},
	} {
		filter := "state:" + string(x.state)
		tone, _, word := jobLook(x.state)
		if here := p.Steps.Filter.Value == filter; x.n > 0 || here {
			tabs = append(tabs, Tab{Text: word, Href: l.With("filter", filter).String(), Here: here, Count: strconv.Itoa(x.n), Tone: tone})
		}
	}
	return tabs
}

func (p TaskPage) stepTable() Table[fleet.Task] {
	return Table[fleet.Task]{
		List: &p.Steps.List, ID: "step-rows", Live: p.live(), Every: "30s", Label: "Results", Noun: "result", Head: Column{Word: "VM"}, Items: p.Steps.Tasks, None: noSteps(p),
		Row: func(t *fleet.Task) Row {
			return Row{ID: "step-" + string(t.ID), Name: t.SubjectName, Href: cmp.Or(SubjectLink(t.Subject), TaskPath(t.ID))}
		},
		Cells: taskRow,
	}
}

// StepsText counts children: "3 done · 1 running · 1 refused".
func StepsText(s fleet.Steps) string {
	var parts []string
	for _, x := range []struct {
		n    int
		word string
	}{
		{s.Done, "done"},
		{s.Running, "running"},
		{s.Queued, "waiting"},
		{s.Failed - s.Refused, "failed"},
		{s.Unknown, "outcome unknown"},
		{s.Cancelled, "cancelled"},
		{s.Refused, "refused"},
	} {
		if x.n > 0 {
			parts = append(parts, strconv.Itoa(x.n)+" "+x.word)
		}
	}
	return strings.Join(parts, " · ")
}
