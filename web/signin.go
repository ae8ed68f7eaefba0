package web

import (
	"net/http"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	peopleview "quantix/views/people"
	"quantix/web/form"
	"quantix/web/problem"
	"quantix/web/render"
)

type signInForm struct {
	Name     string `form:"name"`
	Password string `form:"password"`
	Next     string `form:"next"`
}

// signInPathReturningTo returns the address of the sign-in page. After the sign-in, that page redirects to the address
// of r.
func signInPathReturningTo(r *http.Request) string {
	if r.Method != http.MethodGet || r.URL.Path == "/" {
		return "/sign-in"
	}
	return "/sign-in?next=" + url.QueryEscape(r.URL.RequestURI())
}

func (s *Server) signInPage(c echo.Context, a fleet.Actor) error {
	next := render.LocalPathOrRoot(c.QueryParam("next"))
	if a.UserID != "" {
		return c.Redirect(http.StatusSeeOther, next)
	}
	return s.renderer.WritePage(c, http.StatusOK, peopleview.SignInForm(peopleview.SignInPage{Next: next}))
}

func (s *Server) signIn(c echo.Context, a fleet.Actor) error {
	in, err := form.Decode[signInForm](c)
	if err != nil {
		return err
	}
	next := render.LocalPathOrRoot(in.Next)
	user, err := s.Control.SignIn(c.Request().Context(), fleet.Actor{Address: a.Address, Browser: s.knownBrowserID(c.Request())}, in.Name, in.Password)
	switch fleet.CodeOf(err) {
	case fleet.Unauthorized, fleet.TooMany, fleet.Invalid:
		p := peopleview.SignInPage{Name: in.Name, Next: next, Error: s.refusalFromError(c, err).userMessage()}
		return s.renderer.WritePage(c, problem.StatusByCode[fleet.CodeOf(err)], peopleview.SignInForm(p))
	}
	if err != nil {
		return err
	}
	if err := s.beginSession(c, user.ID, *user.LastSeenAt); err != nil {
		return err
	}
	if err := s.markBrowserKnown(c, user.ID); err != nil {
		return err
	}
	if user.MustChangePassword {
		next = "/account/password?next=" + url.QueryEscape(next)
	}
	return c.Redirect(http.StatusSeeOther, next)
}

// knownBrowserCookieLifetime is how long a browser counts as known after its last sign-in.
const knownBrowserCookieLifetime = 180 * 24 * time.Hour

// knownBrowserCookieName returns the name of the cookie of a known browser, which outlives the session cookie. The
// cookie grants no access. Wrong passwords from other clients delay sign-ins, but not those of a known browser.
func (s *Server) knownBrowserCookieName() string { return s.Sessions.Cookie.Name + "-browser" }

func (s *Server) knownBrowserID(r *http.Request) string {
	cookie, err := r.Cookie(s.knownBrowserCookieName())
	if err != nil {
		return ""
	}
	return cookie.Value
}

// markBrowserKnown sets the cookie that marks the browser as known for the user.
func (s *Server) markBrowserKnown(c echo.Context, user fleet.UserID) error {
	secret, err := s.Control.RememberBrowser(c.Request().Context(), fleet.SystemActor, user, s.knownBrowserID(c.Request()))
	if err != nil {
		return err
	}
	c.SetCookie(&http.Cookie{
		Name: s.knownBrowserCookieName(), Value: secret, Path: "/", MaxAge: int(knownBrowserCookieLifetime / time.Second), HttpOnly: true, Secure: s.Secure, SameSite: http.SameSiteStrictMode,
	})
	return nil
}

func (s *Server) signOut(c echo.Context, a fleet.Actor) error {
	if a.UserID != "" {
		if err := s.endSession(c); err != nil {
			return err
		}
	}
	return c.Redirect(http.StatusSeeOther, "/sign-in")
}
