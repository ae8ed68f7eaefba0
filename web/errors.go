package web

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views/shell"
	"quantix/web/bodylimit"
	"quantix/web/problem"
	"quantix/web/render"
)

// refusal is an error response: a status and a sentence. logReference is set if only the log has the details.
type refusal struct {
	status       int
	message      string
	logReference string
	fields       []fleet.FieldError
}

// writeError writes the response for a request that failed with err. All other functions return their errors to this
// one, which maps them to statuses and logs them.
func (s *Server) writeError(err error, c echo.Context) {
	if c.Response().Committed || errors.Is(c.Request().Context().Err(), context.Canceled) {
		s.Log.Debug("request ended early", "path", c.Request().URL.Path, "error", err)
		return
	}
	r := s.refusalFromError(c, bodylimit.ConvertMaxBytesError(err))
	if r.status == http.StatusTooManyRequests || r.status == http.StatusServiceUnavailable {
		c.Response().Header().Set("Retry-After", "5")
	}
	var sent error
	switch {
	case expectsJSONError(c):
		sent = problem.Write(c, r.problem())
	case render.IsHTMXRequest(c):
		c.Response().Header().Set("X-Quantix-Message", url.PathEscape(r.userMessage()))
		sent = c.NoContent(r.status)
	case routeOf(c).kind == unauthenticated: // for programs, such as load balancers and Prometheus
		if r.status == http.StatusUnauthorized {
			c.Response().Header().Set("WWW-Authenticate", "Bearer")
		}
		sent = c.String(r.status, r.userMessage()+"\n")
	case r.status == http.StatusUnauthorized:
		sent = c.Redirect(http.StatusSeeOther, signInPathReturningTo(c.Request()))
	case actorOf(c).MustChangePassword && r.status == http.StatusForbidden:
		sent = c.Redirect(http.StatusSeeOther, "/account/password")
	default:
		sent = s.writeErrorPage(c, r)
	}
	if sent != nil {
		s.Log.Debug("write an error response", "error", sent)
	}
}

// refusalFromError converts err to a refusal. For an unknown error, the refusal and the log line contain the same
// random reference.
func (s *Server) refusalFromError(c echo.Context, err error) refusal {
	var known *fleet.Error
	if errors.As(err, &known) && problem.StatusByCode[known.Code] != 0 {
		r := refusal{status: problem.StatusByCode[known.Code], message: known.Error(), fields: known.Fields}
		s.auditRefusal(c, known)
		if known.Code == fleet.Unavailable {
			s.Log.Warn("unavailable", "request", c.Get(requestIDContextKey), "path", c.Request().URL.Path, "error", err)
		}
		return r
	}
	var ofEcho *echo.HTTPError
	if errors.As(err, &ofEcho) && ofEcho.Code < 500 {
		return refusal{status: ofEcho.Code, message: textsByHTTPStatus[ofEcho.Code]}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		s.Log.Warn("too slow", "request", c.Get(requestIDContextKey), "path", c.Request().URL.Path, "error", err)
		return refusal{status: http.StatusServiceUnavailable, message: "The portal could not answer in time. Try again in a moment."}
	}
	ref := rand.Text()[:10]
	s.Log.LogAttrs(context.Background(), slog.LevelError, "unexpected error", slog.String("reference", ref),
		slog.Any("request", c.Get(requestIDContextKey)), slog.String("path", c.Request().URL.Path), slog.String("error", err.Error()))
	return refusal{
		status: http.StatusInternalServerError, logReference: ref,
		message: "Something went wrong in the portal. Try again. If the error remains, give an administrator the reference below: the log has the details.",
	}
}

// apiProblem converts err to an error response of the API, with the same statuses and texts as the error pages.
func (s *Server) apiProblem(c echo.Context, err error) *problem.Body {
	if errors.Is(c.Request().Context().Err(), context.Canceled) { // the client has disconnected
		return refusal{status: http.StatusServiceUnavailable, message: "The client disconnected. Send the request again."}.problem()
	}
	r := s.refusalFromError(c, bodylimit.ConvertMaxBytesError(err))
	if r.status == http.StatusTooManyRequests || r.status == http.StatusServiceUnavailable {
		c.Response().Header().Set("Retry-After", "5")
	}
	return r.problem()
}

// agentProblem converts err to an error response for an agent, with the same statuses and texts as the error pages.
func (s *Server) agentProblem(c echo.Context, err error) *problem.Body {
	return s.refusalFromError(c, bodylimit.ConvertMaxBytesError(err)).problem()
}

// auditRefusal writes the user and the route of a refused request to the audit log. It omits the request's address,
// which may contain secrets.
func (s *Server) auditRefusal(c echo.Context, e *fleet.Error) {
	a := actorOf(c)
	if e.Code != fleet.Forbidden && e.Code != fleet.TooMany || a.MustChangePassword {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second) // the request's own context may have ended
	defer cancel()
	if err := s.Control.AuditRefusal(ctx, fleet.SystemActor, a, c.Request().Method+" "+c.Path(), e); err != nil {
		s.Log.Warn("write a refusal to the audit log", "request", c.Get(requestIDContextKey), "error", err)
	}
}

var textsByHTTPStatus = map[int]string{
	http.StatusNotFound:         "There is no such page.",
	http.StatusMethodNotAllowed: "This address does not accept this HTTP method.",
	http.StatusBadRequest:       "The request cannot be read.",
}

func (r refusal) userMessage() string {
	switch {
	case r.logReference != "":
		return "Something went wrong in the portal. Reference " + r.logReference + "."
	case r.message == "":
		return http.StatusText(r.status) + "."
	}
	return r.message
}

// problem returns the response in the format of RFC 9457.
func (r refusal) problem() *problem.Body {
	p := problem.New(r.status, r.userMessage())
	p.Reference = r.logReference
	for _, f := range r.fields {
		p.Errors = append(p.Errors, problem.Field{Location: f.Field, Message: f.Message})
	}
	return p
}

// writeErrorPage renders an error page without any further database query, because the database may be the cause.
func (s *Server) writeErrorPage(c echo.Context, r refusal) error {
	p := shell.ErrorPage{Status: r.status, Message: r.message, Reference: r.logReference, Path: currentPathForRetry(c.Request())}
	if p.Message == "" {
		p.Message = r.userMessage()
	}
	if a := actorOf(c); a.UserID != "" && !a.MustChangePassword && r.status != http.StatusServiceUnavailable {
		p.NoRole = r.status == http.StatusForbidden && !policy.May(a, policy.VMSee, "")
		f := shell.PageLayout{Title: p.Title(), Actor: a}
		s.renderer.FillPageLayout(c, &f)
		return s.renderer.WritePage(c, r.status, shell.Layout(f, shell.ErrorInLayout(p)))
	}
	return s.renderer.WritePage(c, r.status, shell.ErrorWithoutLayout(p))
}

func currentPathForRetry(r *http.Request) string {
	if r.Method == http.MethodGet {
		return render.LocalPathOrRoot(r.URL.RequestURI()) // "//elsewhere.example" is a path here, but another site in a link
	}
	return "/"
}

func isAPIRequest(c echo.Context) bool { return strings.HasPrefix(c.Request().URL.Path, "/api/") }

func expectsJSONError(c echo.Context) bool {
	return routeOf(c).kind == apiCall || routeOf(c).kind == sessionTransfer || isAPIRequest(c) || c.IsWebSocket() || strings.HasPrefix(c.Request().Header.Get("Accept"), "application/json")
}
