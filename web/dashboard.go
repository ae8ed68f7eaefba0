package web

import (
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/views/home"
	"quantix/views/shell"
)

func (s *Server) dashboard(c echo.Context, a fleet.Actor) error {
	all, err := s.Control.Overview(c.Request().Context(), a)
	if err != nil {
		return err
	}
	return s.show(c, a, shell.Frame{Title: "Dashboard"}, home.Dashboard(home.DashboardPage{Overview: all, Actor: a, Now: time.Now()}))
}
