package web

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// minSessionWriteInterval is the minimum interval between two writes of a session's last use. Without it, every page
// would write to the database.
const minSessionWriteInterval = time.Minute

// Keys of the values in a browser session.
const (
	sessionUserKey  = "user"  // fleet.UserID
	sessionBeganKey = "began" // sign-in time, in microseconds of the database's time
	sessionUsedKey  = "used"  // last recorded use of the session, in Unix seconds
)

// authenticate is the middleware that authenticates the request. An invalid token or session is an error only on routes
// that require a permission.
func (s *Server) authenticate(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := routeOf(c)
		nobody := fleet.Actor{Address: c.RealIP()}
		c.Set(actorContextKey, nobody)
		var a fleet.Actor
		var err error
		switch {
		case r.kind == unauthenticated:
			return next(c)
		case r.kind.requiresToken():
			a, err = s.actorOfBearerToken(c, nobody)
		default:
			a, err = s.loadSession(c)
		}
		switch {
		case err == nil:
			c.Set(actorContextKey, a)
		case fleet.CodeOf(err) != fleet.Unauthorized || r.kind.requiresToken() && r.permission != noPermission:
			return err
		}
		return next(c)
	}
}

// checkPermission is the middleware that checks the route's permission. control checks again for the specific object.
func (s *Server) checkPermission(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := routeOf(c)
		if r.permission == noPermission {
			return next(c)
		}
		if err := policy.Check(actorOf(c), r.permission, ""); err != nil {
			return err
		}
		return next(c)
	}
}

func (s *Server) actorOfBearerToken(c echo.Context, nobody fleet.Actor) (fleet.Actor, error) {
	scheme, secret, _ := strings.Cut(c.Request().Header.Get(echo.HeaderAuthorization), " ")
	if !strings.EqualFold(scheme, "Bearer") || secret == "" {
		return nobody, fleet.Errorf(fleet.Unauthorized, "Send an API token: \"Authorization: Bearer qx_…\".")
	}
	return s.Control.ActorOfToken(c.Request().Context(), nobody, strings.TrimSpace(secret))
}

// loadSession loads the browser's session into the request's context, where handlers can change the session, and
// returns the signed-in user.
func (s *Server) loadSession(c echo.Context) (fleet.Actor, error) {
	r := c.Request()
	var token string
	if cookie, err := r.Cookie(s.Sessions.Cookie.Name); err == nil {
		token = cookie.Value
	}
	ctx, err := s.Sessions.Load(r.Context(), token)
	if err != nil {
		return fleet.Actor{}, sessionsUnavailableError(err)
	}
	c.SetRequest(r.WithContext(ctx))
	a, err := s.actorOfLoadedSession(ctx, c.RealIP())
	if err != nil || isAutomaticRefresh(c) {
		return a, err
	}
	return a, s.recordSessionUse(ctx)
}

// actorOfLoadedSession returns the user of the loaded session, with current permissions.
func (s *Server) actorOfLoadedSession(ctx context.Context, address string) (fleet.Actor, error) {
	id := fleet.UserID(s.Sessions.GetString(ctx, sessionUserKey))
	if id == "" {
		return fleet.Actor{}, fleet.Errorf(fleet.Unauthorized, "Sign in first.")
	}
	a, err := s.Control.ActorOfSession(ctx, fleet.SystemActor, id, s.signedInAt(ctx))
	if err != nil {
		return fleet.Actor{}, err
	}
	sum := sha256.Sum256([]byte(s.Sessions.Token(ctx))) // the database stores and announces sessions by this hash
	a.Session, a.Address = base64.RawURLEncoding.EncodeToString(sum[:]), address
	return a, nil
}

// currentActor reads the request's browser session and the user's permissions from the database again. ctx must not be
// the request's context, which contains an earlier copy of the session.
func (s *Server) currentActor(ctx context.Context, r *http.Request) (fleet.Actor, error) {
	cookie, err := r.Cookie(s.Sessions.Cookie.Name)
	if err != nil {
		return fleet.Actor{}, fleet.Errorf(fleet.Unauthorized, "Sign in first.")
	}
	if ctx, err = s.Sessions.Load(ctx, cookie.Value); err != nil {
		return fleet.Actor{}, sessionsUnavailableError(err)
	}
	return s.actorOfLoadedSession(ctx, "")
}

// isLostPermission reports whether err means a lost permission or session. It is false for an unavailable database.
func isLostPermission(err error) bool {
	switch fleet.CodeOf(err) {
	case fleet.Unauthorized, fleet.Forbidden, fleet.NotFound:
		return true
	}
	return false
}

// recordSessionUse records the use of the session in ctx, which postpones the session's idle timeout.
func (s *Server) recordSessionUse(ctx context.Context) error {
	now := time.Now().Unix()
	if now-s.Sessions.GetInt64(ctx, sessionUsedKey) < int64(minSessionWriteInterval/time.Second) {
		return nil
	}
	s.Sessions.Put(ctx, sessionUsedKey, now)
	if _, _, err := s.Sessions.Commit(ctx); err != nil {
		return sessionsUnavailableError(err)
	}
	return nil
}

// beginSession gives the browser a new session for the user and invalidates its old session token. began is the
// session's start, as returned by control.
func (s *Server) beginSession(c echo.Context, user fleet.UserID, began time.Time) error {
	ctx := c.Request().Context()
	if err := s.Sessions.RenewToken(ctx); err != nil {
		return sessionsUnavailableError(err)
	}
	s.Sessions.Put(ctx, sessionUserKey, string(user))
	s.Sessions.Put(ctx, sessionBeganKey, began.UnixMicro())
	s.Sessions.Put(ctx, sessionUsedKey, time.Now().Unix())
	token, expiry, err := s.Sessions.Commit(ctx)
	if err != nil {
		return sessionsUnavailableError(err)
	}
	s.Sessions.WriteSessionCookie(ctx, c.Response(), token, expiry)
	return nil
}

// endSession deletes the session. The database announces the deletion, and all portals close the session's streams at
// once.
func (s *Server) endSession(c echo.Context) error {
	ctx := c.Request().Context()
	if err := s.Sessions.Destroy(ctx); err != nil {
		return sessionsUnavailableError(err)
	}
	s.Sessions.WriteSessionCookie(ctx, c.Response(), "", time.Time{})
	return nil
}

func sessionsUnavailableError(err error) error {
	return fmt.Errorf("session store: %w (%w)",
		fleet.Errorf(fleet.Unavailable, "The database does not answer. VMs keep running; try again in a moment."), err)
}

// signedInAt returns the sign-in time of the session in ctx.
func (s *Server) signedInAt(ctx context.Context) time.Time {
	return time.UnixMicro(s.Sessions.GetInt64(ctx, sessionBeganKey))
}
