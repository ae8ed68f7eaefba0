package pages

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/control/query"
	"quantix/internal/fleet"
	peopleview "quantix/views/people"
	"quantix/views/shell"
	"quantix/web/form"
)

// defaultTokenHours is the default lifetime of a new token in its form, in hours.
const defaultTokenHours = "2160"

// maxTokenHours is the maximum typed lifetime. It is longer than control allows, and short enough for a time.Duration.
const maxTokenHours = 1_000_000

func tokenPageLayout(fleet.Token) shell.PageLayout { return shell.PageLayout{Title: "API tokens"} }

type tokenForm struct {
	Name string `form:"name"`
	Life string `form:"life"` // hours; 0: forever
}

// TokensPage shows the tokens, with the form of a new one.
func (s *Site) TokensPage(c echo.Context, a fleet.Actor, in tokenForm, how form.Display) error {
	if !how.WasRefused() {
		in.Life = defaultTokenHours
	}
	return s.showTokens(c, a, how.Status, nil, peopleview.TokenForm{Name: in.Name, Life: in.Life, Errors: how.Errors})
}

func (s *Site) showTokens(c echo.Context, a fleet.Actor, status int, made *fleet.Token, f peopleview.TokenForm) error {
	tokens, err := query.ReadAllPages(c.Request().Context(), a, fleet.Query{Sort: "-created"}, s.Control.ListTokens)
	if err != nil {
		return err
	}
	p := peopleview.TokensPage{Name: a.Name, Tokens: tokens, Created: made, Form: f, Now: time.Now()}
	return s.ShowPageWithStatus(c, status, a, tokenPageLayout(fleet.Token{}), peopleview.TokenList(p))
}

// CreateToken answers with the page that shows the secret. No other page can show the secret.
func (s *Site) CreateToken(c echo.Context, a fleet.Actor, in tokenForm) (form.Response, error) {
	var checks fleet.Checks
	hours := min(form.ParseField(&checks, "ttl", in.Life, form.ParseNumber), maxTokenHours)
	if err := checks.Err(); err != nil {
		return nil, err
	}
	made, err := s.Control.CreateToken(c.Request().Context(), a, strings.TrimSpace(in.Name), time.Duration(hours)*time.Hour)
	return func(c echo.Context) error {
		return s.showTokens(c, a, http.StatusOK, &made, peopleview.TokenForm{Life: defaultTokenHours})
	}, err
}

func (s *Site) ConfirmDeleteToken() form.Renderer[form.EmptyForm] {
	return form.ConfirmDialog(s.Renderer, s.ownToken, tokenPageLayout, peopleview.TokenDeleteDialog)
}

func (s *Site) DeleteToken(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	return form.RedirectTo("/account/tokens"), s.Control.DeleteToken(c.Request().Context(), a, fleet.TokenID(c.Param("id")))
}

// ownToken returns the actor's own token with that id.
func (s *Site) ownToken(ctx context.Context, a fleet.Actor, id fleet.TokenID) (fleet.Token, error) {
	tokens, err := query.ReadAllPages(ctx, a, fleet.Query{}, s.Control.ListTokens)
	if err != nil {
		return fleet.Token{}, err
	}
	i := slices.IndexFunc(tokens, func(t fleet.Token) bool { return t.ID == id })
	if i < 0 {
		return fleet.Token{}, fleet.Errorf(fleet.NotFound, "There is no such API token.")
	}
	return tokens[i], nil
}
