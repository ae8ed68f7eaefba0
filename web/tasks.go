package web

import (
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views"
)

func (s *Server) listTasks(c echo.Context, a fleet.Actor) (err error) {
	q := queryOf(c)
	f := views.Filter{Label: "Filter tasks", Placeholder: "state:failed target:web-01 who:me"}
	columns := views.TaskColumns
	if !policy.May(a, policy.InfraSee, "") {
		columns = columns.Hostless()
	}
	p := &views.TasksPage{List: s.listOf(c, "tasks", "-created", columns, f)}
	if p.Tasks, err = fill(c, a, &p.List, q, s.Control.ListTasks); err != nil {
		return err
	}
	return s.showList(c, a, views.Frame{Title: "Tasks", Project: q.Project}, p.List, views.Tasks(p))
}

var taskHead = []string{"id", "task", "kind", "target", "state", "who", "host", "created", "started", "ended", "progress", "error"}

func taskRow(j fleet.Job) []string {
	return []string{
		string(j.ID), j.Title(), string(j.Kind), j.SubjectName, string(j.State), j.CreatedBy, j.HostName,
		j.CreatedAt.UTC().Format(time.RFC3339), moment(j.StartedAt), moment(j.EndedAt), strconv.Itoa(j.Progress), j.Error,
	}
}

func (s *Server) exportTasks(c echo.Context, a fleet.Actor) error {
	return export(s, c, a, "tasks.csv", queryOf(c), s.Control.ListTasks, taskHead, taskRow)
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
	return s.stay(c, views.TaskPath(job.ID), "The task is cancelled.")
}
