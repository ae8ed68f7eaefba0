package pages

import (
	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views/kit"
	"quantix/views/shell"
	taskview "quantix/views/task"
	"quantix/web/render"
)

func (s *Site) ListTasks(c echo.Context, a fleet.Actor) (err error) {
	q := render.QueryFromURL(c)
	f := kit.Filter{Label: "Filter tasks", Placeholder: "state:failed target:web-01 who:me"}
	columns := taskview.Columns
	if !policy.May(a, policy.InfraSee, "") {
		columns = columns.WithoutHost()
	}
	p := &taskview.ListPage{List: s.NewList(c, "tasks", "-created", columns, f)}
	if p.Tasks, err = render.FillList(c, a, &p.List, q, s.Control.ListTasks); err != nil {
		return err
	}
	return s.ShowList(c, a, shell.PageLayout{Title: "Tasks", Project: q.Project}, p.List, taskview.List(p))
}

func (s *Site) ExportTasksCSV(c echo.Context, a fleet.Actor) error {
	return render.ExportCSV(s.Renderer, c, a, "tasks.csv", render.QueryFromURL(c), s.Control.ListTasks, taskview.CSV)
}
