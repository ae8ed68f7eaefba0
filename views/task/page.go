// Package task renders tasks: the list, one task with its results, and task states on other objects' pages.
package task

import (
	"cmp"
	"time"

	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

// Page shows one task.
type Page struct {
	Task      fleet.Task
	Parent    *fleet.Task // parent task; nil: none, or none that the reader may see
	Now       time.Time
	Cancel    fleet.ActionState // whether the task can be cancelled
	Steps     *ListPage         // one page of child tasks; nil: none
	Run       *fleet.GuestRun   // program run in a guest; nil: none
	RunHidden string            // why the program's output is hidden; empty: the output is shown
	Back      string            // list that the task was started from; empty: none
}

// live is the wake-up key of the task's page.
func (p Page) live() string {
	if p.Steps != nil {
		return string(fleet.SubjectTask(p.Task.ID))
	}
	return "tasks"
}

func (p Page) href() string {
	if p.Steps != nil {
		return p.Steps.Link.String()
	}
	return views.TaskPath(p.Task.ID)
}

func (p Page) crumbs() []kit.Crumb {
	all := []kit.Crumb{{Text: "Tasks", Href: "/tasks"}}
	if p.Parent != nil {
		all = append(all, kit.Crumb{Text: p.Parent.Title() + " " + p.Parent.SubjectName, Href: views.TaskPath(p.Parent.ID)})
	}
	return all
}

// cancel is the action that cancels the task, or the waiting tasks of a bulk task.
func (p Page) cancel() kit.Act {
	if !p.Cancel.Allowed {
		return kit.Act{Word: "Cancel", Why: cmp.Or(p.Cancel.Reason, "This is not possible now.")}
	}
	a := kit.Act{Icon: "ban", Word: "Cancel", Post: views.TaskPath(p.Task.ID, "cancel")}
	if p.Steps != nil {
		a.Word = "Cancel waiting tasks"
	}
	return a
}
