package web

import (
	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views/kit"
	"quantix/views/shell"
	taskview "quantix/views/task"
)

func (s *Server) listTasks(c echo.Context, a fleet.Actor) (err error) {
	q := queryFromURL(c)
	f := kit.Filter{Label: "Filter tasks", Placeholder: "state:failed target:web-01 who:me"}
	columns := taskview.Columns
	if !policy.May(a, policy.InfraSee, "") {
		columns = columns.WithoutHost()
	}
	p := &taskview.ListPage{List: s.newList(c, "tasks", "-created", columns, f)}
	if p.Tasks, err = fillList(c, a, &p.List, q, s.Control.ListTasks); err != nil {
		return err
	}
	return s.showList(c, a, shell.PageLayout{Title: "Tasks", Project: q.Project}, p.List, taskview.List(p))
}

func (s *Server) exportTasks(c echo.Context, _ fleet.Actor) error {
	return exportCSV(s, c, "tasks.csv", queryFromURL(c), s.Control.ListTasks, taskview.CSV)
}
