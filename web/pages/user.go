package pages

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"quantix/internal/auth"
	"quantix/internal/control/identity"
	"quantix/internal/control/query"
	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
	peopleview "quantix/views/people"
	"quantix/views/shell"
	"quantix/web/form"
)

func userPageLayout(u fleet.User) shell.PageLayout { return shell.PageLayout{Title: u.Name} }

type userForm struct {
	Name     string `form:"name"`
	Role     string `form:"role"`
	Disabled string `form:"disabled"`
}

func (in userForm) input() identity.UserInput {
	return identity.UserInput{Name: strings.TrimSpace(in.Name), Role: fleet.Role(in.Role), Disabled: in.Disabled != ""}
}

func (in userForm) view(id fleet.UserID, how form.Display) peopleview.UserForm {
	return peopleview.UserForm{ID: id, Name: in.Name, Role: in.Role, Disabled: in.Disabled != "", Errors: how.Errors}
}

func (s *Site) ShowUserForm(c echo.Context, a fleet.Actor, in userForm, how form.Display) error {
	return s.showNewUser(c, a, how.Status, in.view("", how))
}

func (s *Site) showNewUser(c echo.Context, a fleet.Actor, status int, f peopleview.UserForm) error {
	return s.ShowPageWithStatus(c, status, a, shell.PageLayout{Title: "New user"}, peopleview.NewUserForm(f))
}

// CreateUser answers with the page that shows the one-time password. No other page can show the password.
func (s *Site) CreateUser(c echo.Context, a fleet.Actor, in userForm) (form.Response, error) {
	u, password, err := s.Control.CreateUser(c.Request().Context(), a, in.input())
	return func(c echo.Context) error {
		return s.showNewUser(c, a, http.StatusOK, peopleview.UserForm{ID: u.ID, Name: u.Name, Password: password})
	}, err
}

// UserPage shows a user, with the form that edits the user.
func (s *Site) UserPage(c echo.Context, a fleet.Actor, in userForm, how form.Display) error {
	ctx := c.Request().Context()
	u, err := s.Control.GetUser(ctx, a, fleet.UserID(c.Param("id")))
	if err != nil {
		return err
	}
	p := peopleview.UserPage{User: u, Actor: a, Form: in.view(u.ID, how), Now: time.Now()}
	if !how.WasRefused() {
		p.Form = peopleview.UserForm{ID: u.ID, Name: u.Name, Role: string(u.Role), Disabled: u.Disabled}
	}
	if p.Projects, p.Roles, err = s.projectRolesOfUser(ctx, a, u); err != nil {
		return err
	}
	return s.ShowPageWithStatus(c, how.Status, a, userPageLayout(u), peopleview.UserBody(p))
}

// projectRolesOfUser returns the projects where the user has a role, and the roles by project id. It omits projects
// that the actor may not see.
func (s *Site) projectRolesOfUser(ctx context.Context, a fleet.Actor, u fleet.User) ([]kit.NamedLink, map[string]fleet.Role, error) {
	roles := map[string]fleet.Role{}
	if len(u.Projects) == 0 {
		return nil, roles, nil
	}
	projects, err := query.ReadAllPages(ctx, a, fleet.Query{}, s.Control.ListProjects)
	var out []kit.NamedLink
	for _, p := range projects {
		if role, ok := u.Projects[p.ID]; ok {
			out = append(out, kit.NamedLink{Name: p.Name, Href: views.ProjectPath(p.ID)})
			roles[p.Name] = role
		}
	}
	return out, roles, err
}

func (s *Site) EditUser(c echo.Context, a fleet.Actor, in userForm) (form.Response, error) {
	id := fleet.UserID(c.Param("id"))
	_, err := s.Control.UpdateUser(c.Request().Context(), a, id, in.input())
	return form.RedirectTo(views.UserPath(id)), err
}

func (s *Site) ConfirmResetPassword(c echo.Context, a fleet.Actor, _ form.EmptyForm, how form.Display) error {
	return s.showPasswordReset(c, a, how, "")
}

func (s *Site) showPasswordReset(c echo.Context, a fleet.Actor, how form.Display, password string) error {
	dialog := func(u fleet.User, e kit.Errors) templ.Component {
		return peopleview.ResetPasswordDialog(u, password, e)
	}
	return form.ConfirmDialog(s.Renderer, s.Control.GetUser, userPageLayout, dialog)(c, a, form.EmptyForm{}, how)
}

// ResetPassword answers with the page that shows the new one-time password. No other page can show the password.
func (s *Site) ResetPassword(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	password := auth.NewPassword()
	err := s.Control.SetPassword(c.Request().Context(), a, fleet.UserID(c.Param("id")), password)
	return func(c echo.Context) error { return s.showPasswordReset(c, a, form.FirstDisplay, password) }, err
}

func (s *Site) ConfirmDeleteUser() form.Renderer[form.EmptyForm] {
	return form.ConfirmDialog(s.Renderer, s.Control.GetUser, userPageLayout, peopleview.UserDeleteDialog)
}

func (s *Site) DeleteUser(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	return form.RedirectTo("/users"), s.Control.DeleteUser(c.Request().Context(), a, fleet.UserID(c.Param("id")))
}
