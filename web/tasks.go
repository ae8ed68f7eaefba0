package web

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
)

func (s *Server) listTasks(c echo.Context, a fleet.Actor) error {
	link, q := listOf(c)
	tasks, err := s.Control.ListTasks(c.Request().Context(), a, q)
	p := views.TasksPage{
		Link: link, Tasks: tasks.Items, Next: tasks.Next, After: q.After, Now: time.Now(),
		Filter: views.Filter{Link: link, Noun: "tasks", Label: "Filter tasks", Value: q.Filter, Placeholder: "state:failed target:web-01 who:me"},
	}
	status := http.StatusOK
	if p.Filter.Error, err = wrongFilter(err); err != nil {
		return err
	} else if p.Filter.Error != "" {
		status = http.StatusUnprocessableEntity
	}
	return s.showAs(c, status, a, views.Frame{Title: "Tasks", Project: q.Project}, views.Tasks(p))
}

func (s *Server) taskPage(c echo.Context, a fleet.Actor) error {
	job, err := s.Control.GetTask(c.Request().Context(), a, fleet.JobID(c.Param("id")))
	if err != nil {
		return err
	}
	p := views.TaskPage{Task: job, Now: time.Now(), Cancel: cancelState(a, job)}
	return s.show(c, a, views.Frame{Title: job.Title() + " " + job.SubjectName}, views.Task(p))
}

// cancelState says whether the task can be taken back, and why not. control decides; this is what the button says.
func cancelState(a fleet.Actor, job fleet.Job) fleet.ActionState {
	may := policy.May(a, policy.InfraChange, "")
	if job.ProjectID != "" {
		may = policy.May(a, policy.VMUse, job.ProjectID)
	}
	switch {
	case job.State == fleet.JobRunning:
		return fleet.ActionState{Reason: "The host is at work on it already."}
	case job.State.Ended():
		return fleet.ActionState{Reason: "It has ended."}
	case !may:
		return fleet.ActionState{Reason: "You may see this task, not take it back."}
	}
	return fleet.ActionState{Allowed: true}
}

func (s *Server) cancelTask(c echo.Context, a fleet.Actor) error {
	job, err := s.Control.CancelTask(c.Request().Context(), a, fleet.JobID(c.Param("id")))
	if err != nil {
		return err
	}
	return s.stay(c, "/tasks/"+string(job.ID), "The task is cancelled.")
}
