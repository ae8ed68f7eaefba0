package pages

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	hostview "quantix/views/host"
	"quantix/views/shell"
	"quantix/web/form"
)

// JoinPage shows the join tokens. With ?token= it also shows the state of one token, and with ?host= the steps to join
// that host again.
func (s *Site) JoinPage(c echo.Context, a fleet.Actor) error {
	p, err := s.readJoinPage(c, a, fleet.JoinTokenID(c.QueryParam("token")))
	if err != nil {
		return err
	}
	if id := fleet.HostID(c.QueryParam("host")); id != "" {
		h, err := s.Control.GetHost(c.Request().Context(), a, id)
		if err != nil {
			return err
		}
		p.RejoiningHost = &h
	}
	return s.showJoinPage(c, a, p)
}

type joinTokenForm struct {
	Host fleet.HostID `form:"host"` // host that joins again; empty: a new host
}

// CreateJoinToken answers with the page that shows the secret. The secret is not stored, so no page can show it again.
func (s *Site) CreateJoinToken(c echo.Context, a fleet.Actor, in joinTokenForm) (form.Response, error) {
	made, err := s.Control.CreateJoinToken(c.Request().Context(), a, in.Host)
	return func(c echo.Context) error {
		p, err := s.readJoinPage(c, a, made.ID)
		if err != nil {
			return err
		}
		p.Created = &made
		return s.showJoinPage(c, a, p)
	}, err
}

func (s *Site) showJoinPage(c echo.Context, a fleet.Actor, p hostview.JoinPage) error {
	return s.ShowPageWithStatus(c, http.StatusOK, a, shell.PageLayout{Title: p.Title()}, hostview.Join(p))
}

// maxShownJoinTokens is the maximum number of join tokens that the page shows, newest first.
const maxShownJoinTokens = 200

// readJoinPage reads the join tokens and, for the watched token, the host that joined with it.
func (s *Site) readJoinPage(c echo.Context, a fleet.Actor, watched fleet.JoinTokenID) (hostview.JoinPage, error) {
	ctx := c.Request().Context()
	p := hostview.JoinPage{Now: time.Now()}
	tokens, err := s.Control.ListJoinTokens(ctx, a, fleet.Query{Limit: maxShownJoinTokens})
	if p.Tokens = tokens.Items; err != nil || watched == "" {
		return p, err
	}
	i := slices.IndexFunc(p.Tokens, func(t fleet.JoinToken) bool { return t.ID == watched })
	if i < 0 {
		return p, fleet.Errorf(fleet.NotFound, "There is no such join token.")
	}
	p.Watched = &p.Tokens[i]
	p.Host, err = s.hostByName(ctx, a, p.Watched.UsedBy)
	return p, err
}

// hostByName returns the host with that name, or nil.
func (s *Site) hostByName(ctx context.Context, a fleet.Actor, name string) (*fleet.HostView, error) {
	if name == "" {
		return nil, nil
	}
	hosts, err := s.Control.ListHosts(ctx, a, fleet.Query{Filter: "name:" + strconv.Quote(name), Limit: 1})
	if err != nil || len(hosts.Items) == 0 {
		return nil, err
	}
	return &hosts.Items[0], nil
}

func (s *Site) RevokeJoinToken(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	return form.RedirectTo("/hosts/join"), s.Control.RevokeJoinToken(c.Request().Context(), a, fleet.JoinTokenID(c.Param("id")))
}
