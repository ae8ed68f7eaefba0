package pages

import (
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	peopleview "quantix/views/people"
	"quantix/views/shell"
	"quantix/web/form"
	"quantix/web/render"
)

func (s *Site) AccountPage(c echo.Context, a fleet.Actor) error {
	ctx := c.Request().Context()
	u, err := s.Control.GetUser(ctx, a, a.UserID)
	if err != nil {
		return err
	}
	p := peopleview.AccountPage{
		User: u, Now: time.Now(), Idle: s.Sessions.IdleTimeout, Max: s.Sessions.Lifetime,
		SignedIn: s.SignedInAt(ctx),
	}
	if p.Projects, p.Roles, err = s.projectRolesOfUser(ctx, a, u); err != nil {
		return err
	}
	return s.ShowPage(c, a, shell.PageLayout{Title: "Your account"}, peopleview.AccountBody(p))
}

type passwordForm struct {
	Old       string `form:"old"`
	New       string `form:"new"`
	Again     string `form:"again"`
	EndTokens string `form:"endTokens"`
	Next      string `form:"next"`
}

// PasswordPage shows the form for a new password. After a refusal, it never shows a typed password again; it keeps only
// the address of the page to return to.
func (s *Site) PasswordPage(c echo.Context, a fleet.Actor, in passwordForm, how form.Display) error {
	if !how.WasRefused() {
		in.Next = c.QueryParam("next")
		if !a.MustChangePassword {
			in.EndTokens = "yes"
		}
	}
	return s.WritePage(c, how.Status, peopleview.PasswordFormPage(peopleview.PasswordPage{
		Name: a.Name, MustChange: a.MustChangePassword, EndTokens: in.EndTokens == "yes", Next: render.LocalPathOrRoot(in.Next), Errors: how.Errors,
	}))
}

func (s *Site) ChangePassword(c echo.Context, a fleet.Actor, in passwordForm) (form.Response, error) {
	if in.New != in.Again {
		var checks fleet.Checks
		checks.Add("again", "The two new passwords differ. Type the same one twice.")
		return nil, checks.Err()
	}
	began, err := s.Control.ChangePassword(c.Request().Context(), a, in.Old, in.New, in.EndTokens == "yes")
	if err != nil {
		return nil, err
	}
	// ChangePassword has ended all older sessions of the user, so this browser gets a new session.
	return form.RedirectTo(render.LocalPathOrRoot(in.Next)), s.BeginSession(c, a.UserID, began)
}
