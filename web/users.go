package web

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/auth"
	"quantix/internal/control/browse"
	"quantix/internal/control/people"
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

type userForm struct {
	Name     string `form:"name"`
	Role     string `form:"role"`
	Disabled string `form:"disabled"`
}

func (in userForm) input() people.UserInput {
	return people.UserInput{Name: strings.TrimSpace(in.Name), Role: fleet.Role(in.Role), Disabled: in.Disabled != ""}
}

func (in userForm) again(id fleet.UserID, e views.Errors) views.UserForm {
	return views.UserForm{ID: id, Name: in.Name, Role: in.Role, Disabled: in.Disabled != "", Errors: e}
}

func (s *Server) newUser(c echo.Context, a fleet.Actor) error {
	return s.show(c, a, views.Frame{Title: "New user"}, views.NewUser(views.UserForm{}))
}

// createUser answers with the one-time password, which no other address shows.
func (s *Server) createUser(c echo.Context, a fleet.Actor) error {
	in, err := decode[userForm](c)
	if err != nil {
		return err
	}
	f := views.Frame{Title: "New user"}
	u, password, err := s.Control.CreateUser(c.Request().Context(), a, in.input())
	if e, status, ok := formErrors(err); ok {
		return s.showAs(c, formStatus(c, status), a, f, views.NewUser(in.again("", e)))
	}
	if err != nil {
		return err
	}
	return s.showAs(c, http.StatusOK, a, f, views.NewUser(views.UserForm{ID: u.ID, Name: u.Name, Password: password}))
}

func (s *Server) userPage(c echo.Context, a fleet.Actor) error {
	u, err := s.Control.GetUser(c.Request().Context(), a, fleet.UserID(c.Param("id")))
	if err != nil {
		return err
	}
	return s.showUser(c, a, http.StatusOK, u, views.UserForm{ID: u.ID, Name: u.Name, Role: string(u.Role), Disabled: u.Disabled})
}

func (s *Server) showUser(c echo.Context, a fleet.Actor, status int, u fleet.User, f views.UserForm) error {
	p := views.UserPage{User: u, Actor: a, Form: f, Now: time.Now()}
	var err error
	if p.Projects, p.Roles, err = s.rolesOf(c.Request().Context(), a, u); err != nil {
		return err
	}
	return s.showAs(c, status, a, views.Frame{Title: u.Name}, views.User(p))
}

// rolesOf names the projects in which the user has a role, as far as the actor sees them.
func (s *Server) rolesOf(ctx context.Context, a fleet.Actor, u fleet.User) ([]views.Named, map[string]fleet.Role, error) {
	roles := map[string]fleet.Role{}
	if len(u.Projects) == 0 {
		return nil, roles, nil
	}
	projects, err := browse.Every(ctx, a, fleet.Query{}, s.Control.ListProjects)
	var out []views.Named
	for _, p := range projects {
		if role, ok := u.Projects[p.ID]; ok {
			out = append(out, views.Named{Name: p.Name, Href: views.ProjectPath(p.ID)})
			roles[p.Name] = role
		}
	}
	return out, roles, err
}

func (s *Server) editUser(c echo.Context, a fleet.Actor) error {
	in, err := decode[userForm](c)
	if err != nil {
		return err
	}
	ctx, id := c.Request().Context(), fleet.UserID(c.Param("id"))
	_, err = s.Control.UpdateUser(ctx, a, id, in.input())
	if e, status, ok := formErrors(err); ok {
		u, err := s.Control.GetUser(ctx, a, id)
		if err != nil {
			return err
		}
		return s.showUser(c, a, formStatus(c, status), u, in.again(id, e))
	}
	if err != nil {
		return err
	}
	return s.leave(c, views.UserPath(id))
}

func (s *Server) resetPasswordPage(c echo.Context, a fleet.Actor) error {
	return s.askReset(c, a, http.StatusOK, "", views.Errors{})
}

func (s *Server) askReset(c echo.Context, a fleet.Actor, status int, password string, e views.Errors) error {
	u, err := s.Control.GetUser(c.Request().Context(), a, fleet.UserID(c.Param("id")))
	if err != nil {
		return err
	}
	return s.showAs(c, status, a, views.Frame{Title: u.Name}, views.UserPassword(u, password, e))
}

// resetPassword answers with the new one-time password, which no other address shows.
func (s *Server) resetPassword(c echo.Context, a fleet.Actor) error {
	password := auth.NewPassword()
	err := s.Control.SetPassword(c.Request().Context(), a, fleet.UserID(c.Param("id")), password)
	if e, status, ok := formErrors(err); ok {
		return s.askReset(c, a, formStatus(c, status), "", e)
	}
	if err != nil {
		return err
	}
	return s.askReset(c, a, http.StatusOK, password, views.Errors{})
}

func (s *Server) deleteUserPage(c echo.Context, a fleet.Actor) error {
	return s.askDeleteUser(c, a, http.StatusOK, views.Errors{})
}

func (s *Server) askDeleteUser(c echo.Context, a fleet.Actor, status int, e views.Errors) error {
	u, err := s.Control.GetUser(c.Request().Context(), a, fleet.UserID(c.Param("id")))
	if err != nil {
		return err
	}
	return s.showAs(c, status, a, views.Frame{Title: u.Name}, views.UserDelete(u, e))
}

func (s *Server) deleteUser(c echo.Context, a fleet.Actor) error {
	err := s.Control.DeleteUser(c.Request().Context(), a, fleet.UserID(c.Param("id")))
	if e, status, ok := formErrors(err); ok {
		return s.askDeleteUser(c, a, formStatus(c, status), e)
	}
	if err != nil {
		return err
	}
	return s.leave(c, "/users")
}
