package pages

import (
	"github.com/labstack/echo/v4"

	"quantix/internal/control/query"
	"quantix/internal/fleet"
	peopleview "quantix/views/people"
	"quantix/views/shell"
)

func (s *Site) ListProjects(c echo.Context, a fleet.Actor) error {
	projects, err := query.ReadAllPages(c.Request().Context(), a, fleet.Query{}, s.Control.ListProjects)
	if err != nil {
		return err
	}
	return s.ShowPage(c, a, shell.PageLayout{Title: "Projects"}, peopleview.ProjectList(peopleview.ProjectsPage{Actor: a, Projects: projects}))
}
