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
	Task       fleet.Task
	Parent     *fleet.Task // parent task; nil: none, or none that the reader may see
	Now        time.Time
	Cancel     fleet.ActionState // whether the task can be cancelled
	ChildTasks *ListPage         // one page of child tasks; nil: none
	Run        *fleet.GuestRun   // program run in a guest; nil: none
	RunHidden  string            // why the program's output is hidden; empty: the output is shown
	Back       string            // list that the task was started from; empty: none
}

// liveKey is the wake-up key of the task's page.
func (p Page) liveKey() string {
	if p.ChildTasks != nil {
		return string(fleet.SubjectTask(p.Task.ID))
	}
	return "tasks"
}

func (p Page) pagePath() string {
	if p.ChildTasks != nil {
		return p.ChildTasks.Link.String()
	}
	return views.TaskPath(p.Task.ID)
}

func (p Page) crumbs() []kit.Breadcrumb {
	all := []kit.Breadcrumb{{Text: "Tasks", Href: "/tasks"}}
	if p.Parent != nil {
		all = append(all, kit.Breadcrumb{Text: p.Parent.Title() + " " + p.Parent.SubjectName, Href: views.TaskPath(p.Parent.ID)})
	}
	return all
}

// cancelAction is the action that cancels the task, or the waiting tasks of a bulk task.
func (p Page) cancelAction() kit.ActionButton {
	if !p.Cancel.Allowed {
		return kit.ActionButton{Word: "Cancel", Why: cmp.Or(p.Cancel.Reason, "This is not possible now.")}
	}
	a := kit.ActionButton{Icon: "ban", Word: "Cancel", Post: views.TaskPath(p.Task.ID, "cancel")}
	if p.ChildTasks != nil {
		a.Word = "Cancel waiting tasks"
	}
	return a
}
