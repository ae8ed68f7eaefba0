package web

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/control/browse"
	"quantix/internal/fleet"
	"quantix/views"
)

func (s *Server) accountPage(c echo.Context, a fleet.Actor) error {
	ctx := c.Request().Context()
	u, err := s.Control.GetUser(ctx, a, a.UserID)
	if err != nil {
		return err
	}
	p := views.AccountPage{
		User: u, Now: time.Now(), Idle: s.Sessions.IdleTimeout, Max: s.Sessions.Lifetime,
		SignedIn: time.UnixMicro(s.Sessions.GetInt64(ctx, sessionBegan)),
	}
	if p.Projects, p.Roles, err = s.rolesOf(ctx, a, u); err != nil {
		return err
	}
	return s.show(c, a, views.Frame{Title: "Your account"}, views.Account(p))
}

// firstLife is the lifetime that a new token's form begins with, in hours.
const firstLife = "2160"

// mostHours is more than any token may live, and few enough to be counted in nanoseconds.
const mostHours = 1_000_000

func (s *Server) tokensPage(c echo.Context, a fleet.Actor) error {
	return s.showTokens(c, a, http.StatusOK, nil, views.TokenForm{Life: firstLife})
}

func (s *Server) showTokens(c echo.Context, a fleet.Actor, status int, made *fleet.Token, f views.TokenForm) error {
	tokens, err := browse.Every(c.Request().Context(), a, fleet.Query{Sort: "-created"}, s.Control.ListTokens)
	if err != nil {
		return err
	}
	p := views.TokensPage{Name: a.Name, Tokens: tokens, Made: made, Form: f, Now: time.Now()}
	return s.showAs(c, status, a, views.Frame{Title: "API tokens"}, views.Tokens(p))
}

type tokenForm struct {
	Name string `form:"name"`
	Life string `form:"life"` // hours; 0 for ever
}

// createToken answers with the page that holds the secret, which no other address shows.
func (s *Server) createToken(c echo.Context, a fleet.Actor) error {
	in, err := decode[tokenForm](c)
	if err != nil {
		return err
	}
	var checks fleet.Checks
	hours := min(read(&checks, "ttl", in.Life, wholeOf), mostHours)
	var made fleet.Token
	if err = checks.Err(); err == nil {
		made, err = s.Control.CreateToken(c.Request().Context(), a, strings.TrimSpace(in.Name), time.Duration(hours)*time.Hour)
	}
	if e, status, ok := formErrors(err); ok {
		return s.showTokens(c, a, formStatus(c, status), nil, views.TokenForm{Name: in.Name, Life: in.Life, Errors: e})
	}
	if err != nil {
		return err
	}
	return s.showTokens(c, a, http.StatusOK, &made, views.TokenForm{Life: firstLife})
}

func (s *Server) deleteTokenPage(c echo.Context, a fleet.Actor) error {
	t, err := s.tokenNamed(c.Request().Context(), a, fleet.TokenID(c.Param("id")))
	if err != nil {
		return err
	}
	return s.show(c, a, views.Frame{Title: "API tokens"}, views.TokenDelete(t, views.Errors{}))
}

func (s *Server) deleteToken(c echo.Context, a fleet.Actor) error {
	if err := s.Control.DeleteToken(c.Request().Context(), a, fleet.TokenID(c.Param("id"))); err != nil {
		return err
	}
	return s.leave(c, "/account/tokens")
}

// tokenNamed is the actor's own token of that id.
func (s *Server) tokenNamed(ctx context.Context, a fleet.Actor, id fleet.TokenID) (fleet.Token, error) {
	tokens, err := browse.Every(ctx, a, fleet.Query{}, s.Control.ListTokens)
	if err != nil {
		return fleet.Token{}, err
	}
	i := slices.IndexFunc(tokens, func(t fleet.Token) bool { return t.ID == id })
	if i < 0 {
		return fleet.Token{}, fleet.Errorf(fleet.NotFound, "There is no such API token.")
	}
	return tokens[i], nil
}
