package web

import (
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/control/browse"
	"quantix/internal/fleet"
	"quantix/views"
)

func (s *Server) listUsers(c echo.Context, a fleet.Actor) error {
	users, err := browse.Every(c.Request().Context(), a, fleet.Query{}, s.Control.ListUsers)
	if err != nil {
		return err
	}
	return s.show(c, a, views.Frame{Title: "Users"}, views.Users(views.UsersPage{Users: users, Now: time.Now()}))
}
