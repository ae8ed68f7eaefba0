package task

import (
	"slices"

	"github.com/a-h/templ"

	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

// ListPage is the list of tasks.
type ListPage struct {
	kit.List
	Tasks []fleet.Task
}

func (p *ListPage) tabs() []kit.Tab {
	return kit.LinkTabs(p.Link.FirstPage(), "filter", p.Filter.Value, kit.Tab{Text: "All"}, kit.Tab{Key: "who:me", Text: "Mine"},
		kit.Tab{Key: "state:queued,running", Text: "Running"}, kit.Tab{Key: "state:failed,unknown", Text: "Failed"})
}

func (p *ListPage) table() kit.Table[fleet.Task] {
	return newTaskTable(&p.List, "task-rows", p.Tasks, emptyListNote(p))
}

func newTaskTable(l *kit.List, id string, tasks []fleet.Task, none templ.Component) kit.Table[fleet.Task] {
	return kit.Table[fleet.Task]{
		List: l, ID: id, Live: "tasks", Every: "30s", Label: "List of tasks", Type: "task", Head: kit.Column{Label: "Task"}, Items: tasks, EmptyContent: none,
		Row: func(j *fleet.Task) kit.Row {
			return kit.Row{ID: id + "-" + string(j.ID), Name: j.Title(), Href: views.TaskPath(j.ID)}
		},
		RowCells: row,
	}
}

// TaskTable is the table of tasks on another object's page. If target is true, the table has a column for the object of
// each task.
func TaskTable(id string, tasks []fleet.Task, target bool) templ.Component {
	shown := Columns.ChosenInQuery(kit.Link{})
	if !slices.ContainsFunc(tasks, func(j fleet.Task) bool { return j.HostName != "" }) {
		shown = shown.WithoutHost()
	}
	if !target {
		shown = slices.DeleteFunc(shown, func(c kit.Column) bool { return c.Key == "target" })
	}
	return kit.StaticTable(newTaskTable(&kit.List{Shown: shown}, id, tasks, nil))
}
