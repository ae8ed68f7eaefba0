package web

import (
	"github.com/labstack/echo/v4"

	"quantix/internal/control/browse"
	"quantix/internal/fleet"
	"quantix/views"
)

func (s *Server) listProjects(c echo.Context, a fleet.Actor) error {
	projects, err := browse.Every(c.Request().Context(), a, fleet.Query{}, s.Control.ListProjects)
	if err != nil {
		return err
	}
	return s.show(c, a, views.Frame{Title: "Projects"}, views.Projects(views.ProjectsPage{Actor: a, Projects: projects}))
}
