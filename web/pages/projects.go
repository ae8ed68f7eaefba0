package pages

import (
	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/views/kit"
	peopleview "quantix/views/people"
	"quantix/views/shell"
	"quantix/web/render"
)

func (s *Site) ListProjects(c echo.Context, a fleet.Actor) error {
	q := fleet.Query{After: c.QueryParam("after"), Before: c.QueryParam("before")}
	page, err := s.Control.ListProjects(c.Request().Context(), a, q)
	if err != nil {
		return err
	}
	link := render.LinkToCurrentPage(c)
	return s.ShowPage(c, a, shell.PageLayout{Title: "Projects"}, peopleview.ProjectList(peopleview.ProjectsPage{
		Actor: a, Projects: page.Items, Link: link, Pager: kit.NewPager(link, len(page.Items), "project", page.Prev, page.Next),
	}))
}
