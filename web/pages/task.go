package pages

import (
	"errors"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
	"quantix/views/kit"
	"quantix/views/shell"
	taskview "quantix/views/task"
	"quantix/web/form"
	"quantix/web/render"
)

func (s *Site) TaskPage(c echo.Context, a fleet.Actor) error {
	task, err := s.Control.GetTask(c.Request().Context(), a, fleet.TaskID(c.Param("id")))
	if err != nil {
		return err
	}
	p := taskview.Page{Task: task, Now: time.Now(), Cancel: cancelTaskState(a, task)}
	if given := c.QueryParam("back"); given != "" {
		p.Back = render.LocalPathOrRoot(given)
	}
	f := shell.PageLayout{Title: task.Title() + " " + task.SubjectName}
	if task.Steps != nil {
		return s.childTasksPage(c, a, f, p)
	}
	if task.Parent != "" {
		parent, err := s.Control.GetTask(c.Request().Context(), a, task.Parent)
		if err == nil {
			p.Parent = &parent
		} else if fleet.CodeOf(err) != fleet.NotFound {
			return err
		}
	}
	if task.Kind == fleet.VMExec {
		run, err := s.Control.GuestRun(c.Request().Context(), a, task.ID)
		switch refused, ok := errors.AsType[*fleet.Error](err); {
		case err == nil:
			p.Run = &run
		case ok && (refused.Code == fleet.NotFound || refused.Code == fleet.Forbidden):
			p.RunHidden = refused.Message
		default:
			return err
		}
	}
	return s.ShowPage(c, a, f, taskview.TaskPage(p))
}

// childTasksPage shows a task with the list of its child tasks.
func (s *Site) childTasksPage(c echo.Context, a fleet.Actor, f shell.PageLayout, p taskview.Page) (err error) {
	columns := taskview.ChildTaskColumns
	if !policy.May(a, policy.InfraSee, "") {
		columns = columns.WithoutHost()
	}
	filter := kit.Filter{Type: "tasks", Label: "Filter results", Placeholder: "state:failed target:web-01"}
	p.ChildTasks = &taskview.ListPage{List: s.NewList(c, "tasks/"+string(p.Task.ID), "created", columns, filter)}
	q := render.QueryFromURL(c)
	q.Filter, q.Sort, q.Project = strings.TrimSpace("parent:"+string(p.Task.ID)+" "+q.Filter), "created", ""
	if p.ChildTasks.Tasks, err = render.FillList(c, a, &p.ChildTasks.List, q, s.Control.ListTasks); err != nil {
		return err
	}
	return s.ShowList(c, a, f, p.ChildTasks.List, taskview.TaskPage(p))
}

// cancelTaskState returns whether the actor can cancel the task, and the reason if not. For a finished task that reason
// comes before a missing permission.
func cancelTaskState(a fleet.Actor, task fleet.Task) fleet.ActionState {
	ok, why := task.Allows(fleet.ActCancel)
	if ok && !policy.May(a, policy.CancelPermission(task), task.ProjectID) {
		ok, why = false, "You may see this task, but not cancel it."
	}
	return fleet.ActionState{Action: fleet.ActCancel, Allowed: ok, Reason: why}
}

func (s *Site) CancelTask(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	task, err := s.Control.CancelTask(c.Request().Context(), a, fleet.TaskID(c.Param("id")))
	said := "The task is cancelled."
	if task.Steps != nil {
		said = "The steps that had not started are cancelled."
	}
	return form.StayOnPage(views.TaskPath(task.ID), said), err
}
