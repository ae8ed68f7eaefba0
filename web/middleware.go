package web

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/web/api"
	"quantix/web/bodylimit"
)

const (
	maxFormBytes = 64 << 10 // bytes of a form

	// bodyDrainTimeout is how long the portal continues to read the body of a refused request, so that the client can
	// read the reason. net/http uses the same time.
	bodyDrainTimeout = 500 * time.Millisecond

	// pageTimeout is how long a page may wait for the database. The error response is sent within 5 s.
	pageTimeout = 4 * time.Second
)

// Keys of values that the middleware stores in echo's context.
const (
	routeContextKey     = "route"
	actorContextKey     = "actor"
	requestIDContextKey = "request"
)

func routeOf(c echo.Context) route {
	r, _ := c.Get(routeContextKey).(route)
	return r
}

// actorOf returns the actor of the request. Before the middleware authenticate has run, it is the zero Actor.
func actorOf(c echo.Context) fleet.Actor {
	a, _ := c.Get(actorContextKey).(fleet.Actor)
	return a
}

// assignRequestID assigns an id to the request, for the log and the response. It ignores any id from the client.
func assignRequestID(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		id := fleet.NewID[string]()
		c.Set(requestIDContextKey, id)
		c.Response().Header().Set("X-Request-Id", id)
		return next(c)
	}
}

// logAccess logs one line per request. It never logs the query or a header: they may hold tickets and tokens.
func (s *Server) logAccess(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		start := time.Now()
		if err := next(c); err != nil {
			c.Error(err)
		}
		level := slog.LevelInfo
		if routeOf(c).kind == unauthenticated {
			level = slog.LevelDebug
		}
		s.Log.LogAttrs(context.Background(), level, "request",
			slog.String("id", fmt.Sprint(c.Get(requestIDContextKey))), slog.String("method", c.Request().Method),
			slog.String("path", c.Request().URL.Path), slog.Int("status", c.Response().Status),
			slog.Int64("bytes", c.Response().Size), slog.Duration("took", time.Since(start)),
			slog.String("who", actorOf(c).Name), slog.String("from", c.RealIP()))
		return nil
	}
}

func recoverPanic(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			switch p := recover(); p {
			case nil:
			case http.ErrAbortHandler:
				panic(p) // net/http drops the connection on this panic
			default:
				err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		return next(c)
	}
}

// unescapeParams decodes the path parameters exactly once. If the client escaped the path differently from Go, as in
// "a%20(b)", echo routes by the raw path and leaves the parameters escaped.
func unescapeParams(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if c.Request().URL.RawPath == "" {
			return next(c)
		}
		values := slices.Clone(c.ParamValues())
		for i, v := range values {
			plain, err := url.PathUnescape(v)
			if err != nil {
				return fleet.Errorf(fleet.Malformed, "The address cannot be read: %q is not valid URL encoding.", v)
			}
			values[i] = plain
		}
		c.SetParamValues(values...)
		return next(c)
	}
}

// findRoute stores the request's row of the table of routes in the context. An unknown route counts as a page without a
// required permission, whose response is 404 or 405.
func (s *Server) findRoute(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r, ok := s.routeTable[c.Request().Method+" "+c.Path()]
		if !ok && isAPIRequest(c) {
			r.kind = apiCall
		}
		if r.kind == apiCall && api.Waits(c) {
			r.kind = apiStream
		}
		c.Set(routeContextKey, r)
		return next(c)
	}
}

const contentSecurityPolicy = "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"worker-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"

// setSecurityHeaders sets the security headers, such as the content security policy.
func (s *Server) setSecurityHeaders(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		h := c.Response().Header()
		h.Set("Content-Security-Policy", contentSecurityPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("X-Frame-Options", "DENY")
		if s.Secure {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		if routeOf(c).kind != unauthenticated {
			h.Set("Cache-Control", "no-store") // a page is specific to one user and one moment
		}
		return next(c)
	}
}

// limitBodySize refuses a body that is too large: by its Content-Length, or while reading if the length is unknown.
func limitBodySize(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		limit := int64(maxFormBytes)
		switch routeOf(c).kind {
		case apiCall:
			limit = api.MaxBodyBytes
		case sessionTransfer, tokenTransfer: // uploads are checked against their announced size
			return next(c)
		}
		whole := c.Request()
		switch {
		case whole.ContentLength == 0:
			return next(c)
		case whole.ContentLength > limit:
			return bodylimit.TooLargeError(limit)
		}
		// The handler receives a copy of the request, because net/http later checks its own request for an unread body.
		r := whole.WithContext(whole.Context())
		r.Body = http.MaxBytesReader(c.Response().Writer, r.Body, limit)
		c.SetRequest(r)
		bodylimit.SetReadDeadline(c.Response(), time.Now().Add(bodylimit.ReadTimeout)) // no reset needed: net/http clears the deadline after the response
		return next(c)
	}
}

// drainBodyAfterRefusal reads the rest of a refused request's body for bodyDrainTimeout if the connection will close,
// as Python's urllib requests it. Otherwise the client would get a TCP reset instead of the reason. On keep-alive
// connections net/http drains the body.
func drainBodyAfterRefusal(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		err := next(c)
		if r.Close && r.ContentLength != 0 && c.Response().Status >= http.StatusBadRequest {
			if http.NewResponseController(c.Response()).Flush() == nil {
				bodylimit.SetReadDeadline(c.Response(), time.Now().Add(bodyDrainTimeout))
				_, _ = io.Copy(io.Discard, r.Body)
			}
		}
		return err
	}
}

// limitRequestTime gives each request except streams a deadline, so that no request waits longer for the database.
func limitRequestTime(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if routeOf(c).kind.isLongLived() {
			return next(c)
		}
		whole := c.Request()
		ctx, cancel := context.WithTimeout(whole.Context(), pageTimeout)
		defer cancel()
		c.SetRequest(whole.WithContext(ctx))
		// writeError, which runs later, detects a disconnected browser by the original context, which has no deadline.
		defer c.SetRequest(whole)
		return next(c)
	}
}

// requireSameOrigin refuses writes that a page of another site makes the browser send (CSRF). Websocket requests pass,
// because they are GETs: their handlers check the origin.
func (s *Server) requireSameOrigin(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := s.origin.Check(c.Request()); err != nil {
			return fleet.Errorf(fleet.Forbidden, "The request came from another site. Open Quantix itself and try again.")
		}
		return next(c)
	}
}
