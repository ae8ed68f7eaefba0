package web

import (
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	peopleview "quantix/views/people"
	"quantix/views/shell"
)

func (s *Server) accountPage(c echo.Context, a fleet.Actor) error {
	ctx := c.Request().Context()
	u, err := s.Control.GetUser(ctx, a, a.UserID)
	if err != nil {
		return err
	}
	p := peopleview.AccountPage{
		User: u, Now: time.Now(), Idle: s.Sessions.IdleTimeout, Max: s.Sessions.Lifetime,
		SignedIn: time.UnixMicro(s.Sessions.GetInt64(ctx, sessionBeganKey)),
	}
	if p.Projects, p.Roles, err = s.projectRolesOfUser(ctx, a, u); err != nil {
		return err
	}
	return s.showPage(c, a, shell.PageLayout{Title: "Your account"}, peopleview.AccountBody(p))
}

type passwordForm struct {
	Old       string `form:"old"`
	New       string `form:"new"`
	Again     string `form:"again"`
	EndTokens string `form:"endTokens"`
	Next      string `form:"next"`
}

// passwordPage shows the form for a new password. It never repeats a typed password, only the address to return to.
func (s *Server) passwordPage(c echo.Context, a fleet.Actor, in passwordForm, how formDisplay) error {
	if !how.wasRefused() {
		in.Next = c.QueryParam("next")
		if !a.MustChangePassword {
			in.EndTokens = "yes"
		}
	}
	return s.writePage(c, how.status, peopleview.PasswordFormPage(peopleview.PasswordPage{
		Name: a.Name, MustChange: a.MustChangePassword, EndTokens: in.EndTokens == "yes", Next: localPath(in.Next), Errors: how.errors,
	}))
}

func (s *Server) changePassword(c echo.Context, a fleet.Actor, in passwordForm) (formResponse, error) {
	if in.New != in.Again {
		var checks fleet.Checks
		checks.Add("again", "The two new passwords differ. Type the same one twice.")
		return nil, checks.Err()
	}
	began, err := s.Control.ChangePassword(c.Request().Context(), a, in.Old, in.New, in.EndTokens == "yes")
	if err != nil {
		return nil, err
	}
	// ChangePassword has ended all older sessions, so this browser gets a new session token.
	return redirectTo(localPath(in.Next)), s.beginSession(c, a.UserID, began)
}
