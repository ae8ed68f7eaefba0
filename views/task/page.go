// Package task shows tasks: their list, one with its results, and their state on the pages of what they are about.
package task

import (
	"cmp"
	"time"

	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

// Page is one task.
type Page struct {
	Task   fleet.Task
	Parent *fleet.Task // what it is a part of; nil: nothing, or nothing that the reader may see
	Now    time.Time
	Cancel fleet.ActionState // whether it can be taken back
	Steps  *ListPage         // a page of its children; nil: it has none
	Run    *fleet.GuestRun   // the program that it ran in a guest; nil: none
	RunWhy string            // why what that wrote is not shown; empty: it is
	Back   string            // the list that it was asked for in; empty: none
}

// live and href say how the page follows its task.
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

// cancel takes back what nobody has begun.
func (p Page) cancel() kit.Act {
	if !p.Cancel.Allowed {
		return kit.Act{Word: "Cancel", Why: cmp.Or(p.Cancel.Reason, "This is not possible now.")}
	}
	a := kit.Act{Icon: "ban", Word: "Cancel", Post: views.TaskPath(p.Task.ID, "cancel")}
	if p.Steps != nil {
		a.Word = "Cancel what waits"
	}
	return a
}
