package pages

import (
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/control/query"
	"quantix/internal/fleet"
	peopleview "quantix/views/people"
	"quantix/views/shell"
)

func (s *Site) ListUsers(c echo.Context, a fleet.Actor) error {
	users, err := query.ReadAllPages(c.Request().Context(), a, fleet.Query{}, s.Control.ListUsers)
	if err != nil {
		return err
	}
	return s.ShowPage(c, a, shell.PageLayout{Title: "Users"}, peopleview.UserList(peopleview.UsersPage{Users: users, Now: time.Now()}))
}
