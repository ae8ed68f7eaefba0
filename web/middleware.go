package web

import (
	"context"
	"errors"
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
)

const (
	formLimit = 64 << 10 // bytes of a form
	apiLimit  = 1 << 20  // bytes of an API request

	// bodyTime is how long a body may take to arrive: one that trickles in for ever would hold its connection for ever.
	bodyTime = 15 * time.Second
	// hearOutTime is how long the sender of a refused body has for reading why: as long as net/http gives others.
	hearOutTime = 500 * time.Millisecond

	// pageLimit is how long a page may wait for the database; the answer that says so is out within 5 s.
	pageLimit = 4 * time.Second
)

// What the middleware leaves in echo's context.
const (
	keyRoute = "route"
	keyActor = "actor"
	keyID    = "request"
)

func routeOf(c echo.Context) route {
	r, _ := c.Get(keyRoute).(route)
	return r
}

// actorOf is who asks. Before identify has run, it is nobody.
func actorOf(c echo.Context) fleet.Actor {
	a, _ := c.Get(keyActor).(fleet.Actor)
	return a
}

// requestID names the request in the log and to the caller; the caller's own name for it is not believed.
func requestID(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		id := fleet.NewID[string]()
		c.Set(keyID, id)
		c.Response().Header().Set("X-Request-Id", id)
		return next(c)
	}
}

// logAccess writes one line a request. It never writes the query or a header: tickets and tokens travel there.
func (s *Server) logAccess(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		start := time.Now()
		if err := next(c); err != nil {
			c.Error(err)
		}
		level := slog.LevelInfo
		if routeOf(c).kind == plain {
			level = slog.LevelDebug
		}
		s.Log.LogAttrs(context.Background(), level, "request",
			slog.String("id", fmt.Sprint(c.Get(keyID))), slog.String("method", c.Request().Method),
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
				panic(p) // net/http's own way to drop a connection
			default:
				err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		return next(c)
	}
}

// plainParams decodes the parameters of the path, once, whatever the client escaped. echo routes by the path as it was sent where Go would
// have escaped another one, as in "a%20(b)", and leaves its parameters so.
func plainParams(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if c.Request().URL.RawPath == "" {
			return next(c)
		}
		values := slices.Clone(c.ParamValues())
		for i, v := range values {
			plain, err := url.PathUnescape(v)
			if err != nil {
				return fleet.Errorf(fleet.Malformed, "The address cannot be read: %q is escaped in no way that is known.", v)
			}
			values[i] = plain
		}
		c.SetParamValues(values...)
		return next(c)
	}
}

// find looks the route up in the table. What is not there is treated as a page that asks for no right: it answers 404 or 405.
func (s *Server) find(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r, ok := s.table[c.Request().Method+" "+c.Path()]
		if !ok && isAPI(c) {
			r.kind = api
		}
		c.Set(keyRoute, r)
		return next(c)
	}
}

const contentPolicy = "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"worker-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"

// secure sets the headers that tell browsers what this site never does.
func (s *Server) secure(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		h := c.Response().Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("X-Frame-Options", "DENY")
		if s.Secure {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		if routeOf(c).kind != plain {
			h.Set("Cache-Control", "no-store") // pages are of one person and one moment
		}
		return next(c)
	}
}

// limitBody refuses what is too large before it is read, and while it is read where its length was not said.
func limitBody(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		limit := int64(formLimit)
		switch routeOf(c).kind {
		case api:
			limit = apiLimit
		case inflow, tokenInflow: // how much comes is judged by what was announced
			return next(c)
		}
		whole := c.Request()
		switch {
		case whole.ContentLength == 0:
			return next(c)
		case whole.ContentLength > limit:
			return tooLarge(limit)
		}
		r := whole.WithContext(whole.Context()) // net/http looks at its own request for what was left unread
		r.Body = http.MaxBytesReader(c.Response().Writer, r.Body, limit)
		c.SetRequest(r)
		readUntil(c, time.Now().Add(bodyTime)) // net/http takes it back after the answer
		return next(c)
	}
}

// hearOut reads on for a moment after a refusal of a request that ends its connection, such as Python's urllib sends: closed in the
// middle of what it sends, its sender would meet a reset in place of the reason. Where connections are kept, net/http does so itself.
func hearOut(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		err := next(c)
		if r.Close && r.ContentLength != 0 && c.Response().Status >= http.StatusBadRequest {
			if http.NewResponseController(c.Response()).Flush() == nil {
				readUntil(c, time.Now().Add(hearOutTime))
				_, _ = io.Copy(io.Discard, r.Body)
			}
		}
		return err
	}
}

// readUntil bounds reading from the connection; zero: no bound. One without deadlines (a test's recorder) has none.
func readUntil(c echo.Context, t time.Time) {
	_ = http.NewResponseController(c.Response()).SetReadDeadline(t)
}

func tooLarge(limit int64) error {
	return fleet.Errorf(fleet.TooLarge, "The request is larger than %d KiB. Send less at once.", limit>>10)
}

// limitTime gives each request but streams a deadline, which ends waiting for the database.
func limitTime(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if routeOf(c).kind.lasts() {
			return next(c)
		}
		whole := c.Request()
		ctx, cancel := context.WithTimeout(whole.Context(), pageLimit)
		defer cancel()
		c.SetRequest(whole.WithContext(ctx))
		defer c.SetRequest(whole) // the error page comes after this, and tells a browser that has gone by its context
		return next(c)
	}
}

// sameOrigin refuses changes that another site's page makes the browser send. Websockets are GETs and check their origin themselves.
func (s *Server) sameOrigin(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := s.origin.Check(c.Request()); err != nil {
			return fleet.Errorf(fleet.Forbidden, "The request came from another site. Open Quantix itself and try again.")
		}
		return next(c)
	}
}

// asTooLarge recognises a body that went over limitBody's bound while it was read.
func asTooLarge(err error) error {
	if e, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge(e.Limit)
	}
	return err
}
