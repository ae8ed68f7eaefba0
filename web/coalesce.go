package web

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
)

// Request coalescing: the pages of many users show the same part of a list and refresh the part after the same change.
// Concurrent requests for the same part with the same permissions share one response. Nothing is cached: a response is
// rendered after its requests arrived, so it includes every change announced before by any portal.

const (
	restTimes    = 9                      // multiple of a part's rendering time to wait before its next rendering
	maxRest      = 250 * time.Millisecond // maximum of this wait; requests that arrive meanwhile share the next response
	maxEncodings = 4                      // compressed copies of one part; nearly all browsers accept the same encoding
)

// question identifies a part of a page by everything that its content depends on.
type question struct{ path, query, target, rights string }

// permissionsOf returns the actor's permissions as text, equal for all users with the same permissions.
func permissionsOf(a fleet.Actor) string {
	parts := make([]string, 0, len(a.Projects)+1)
	for id, role := range a.Projects {
		parts = append(parts, fmt.Sprintf("%q=%q", id, role))
	}
	slices.Sort(parts)
	return fmt.Sprintf("%q %t %s", a.Role, a.MustChange, strings.Join(parts, " "))
}

// somebody returns an actor with a's permissions but without identity, so that a shared response contains no data of
// one user.
func somebody(a fleet.Actor) fleet.Actor {
	return fleet.Actor{UserID: "somebody", Name: "somebody", Role: a.Role, Projects: a.Projects, MustChange: a.MustChange}
}

// coalesce wraps h so that concurrent automatic refreshes of the same part share one response. h must depend only on
// the address and the permissions: for such requests it gets neither the user nor a cookie.
func (s *Server) coalesce(h handler) handler {
	return func(c echo.Context, a fleet.Actor) error {
		id := target(c)
		if id == "" || !isRefresh(c) {
			return h(c, a)
		}
		r, a := c.Request(), somebody(a)
		asked := question{r.URL.Path, r.URL.RawQuery, id, permissionsOf(a)}
		// A shared rendering may outlive the request, so it gets a copy.
		plain := &http.Request{
			Method: http.MethodGet, URL: &url.URL{Path: asked.path, RawQuery: asked.query}, Host: r.Host, Proto: r.Proto, ProtoMajor: r.ProtoMajor, ProtoMinor: r.ProtoMinor,
			Header: http.Header{"Hx-Request": {"true"}, "Hx-Target": {id}, "Hx-Trigger": {id}}, Body: http.NoBody,
		}
		route, path := routeOf(c), c.Path()
		idle(c)
		began := time.Now()
		p, err := s.parts.ask(r.Context(), asked, func(ctx context.Context) (*part, error) {
			began := time.Now()
			defer func() { s.pace.spent(time.Since(began)) }()
			p := &part{}
			alone := s.pages.NewContext(plain.WithContext(ctx), p)
			alone.SetPath(path)
			alone.Set(keyRoute, route)
			alone.Set(keyActor, a)
			return p, h(alone, a)
		})
		waited(c, time.Since(began))
		if err != nil {
			return err
		}
		return p.give(c)
	}
}

// parts renders shared responses and holds the requests that wait for them. It is safe for concurrent use.
type parts struct {
	mu    sync.Mutex
	asked map[question]*askers
}

// askers holds the next rendering of a part, which waiting requests share; nil: no request waits.
type askers struct{ next *making }

type making struct {
	do   func(context.Context) (*part, error)
	done chan struct{}
	part *part
	err  error
}

// ask returns a rendering that started after this call. One call of do serves all waiting requests.
func (n *parts) ask(ctx context.Context, q question, do func(context.Context) (*part, error)) (*part, error) {
	n.mu.Lock()
	a, busy := n.asked[q]
	if !busy {
		a = &askers{}
		n.asked[q] = a
	}
	if a.next == nil {
		a.next = &making{do: do, done: make(chan struct{})}
	}
	m := a.next
	n.mu.Unlock()
	if !busy {
		go n.serve(q, a)
	}
	select {
	case <-m.done:
		return m.part, m.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// serve renders the part again and again until no request waits. It runs in its own goroutine, because other requests
// may wait longer than the first one.
func (n *parts) serve(q question, a *askers) {
	for {
		n.mu.Lock()
		m := a.next
		a.next = nil
		if m == nil {
			delete(n.asked, q)
			n.mu.Unlock()
			return
		}
		n.mu.Unlock()
		began := time.Now()
		m.run()
		close(m.done)
		time.Sleep(min(restTimes*time.Since(began), maxRest))
	}
}

func (m *making) run() {
	ctx, cancel := context.WithTimeout(context.Background(), pageLimit)
	defer cancel()
	defer func() {
		if p := recover(); p != nil { // a panic in this goroutine would end the portal
			m.err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	m.part, m.err = m.do(ctx)
}

// part is a response shared by many requests: its status and HTML. It implements http.ResponseWriter for the handler.
type part struct {
	status int
	html   bytes.Buffer
	header http.Header

	mu    sync.Mutex
	forms map[string]*part // by the encoding that the browser accepts
}

// Header implements http.ResponseWriter.
func (p *part) Header() http.Header {
	if p.header == nil {
		p.header = http.Header{}
	}
	return p.header
}

// WriteHeader implements http.ResponseWriter.
func (p *part) WriteHeader(status int) { p.status = status }

// Write implements http.ResponseWriter.
func (p *part) Write(b []byte) (int, error) { return p.html.Write(b) }

// give sends the part to one client, with only its content type and encoding headers: other headers may belong to one
// user.
func (p *part) give(c echo.Context) error {
	f, err := p.form(c.Request())
	if err != nil {
		return err
	}
	h := c.Response().Header()
	for _, name := range []string{echo.HeaderContentType, echo.HeaderContentEncoding, echo.HeaderVary} {
		if values := f.header.Values(name); len(values) > 0 {
			h[http.CanonicalHeaderKey(name)] = values
		}
	}
	h.Set(echo.HeaderContentLength, strconv.Itoa(f.html.Len()))
	c.Response().WriteHeader(p.status)
	_, err = c.Response().Write(f.html.Bytes())
	return err
}

// form returns the part in an encoding that the browser accepts, and keeps the compressed copy for other requests.
func (p *part) form(r *http.Request) (*part, error) {
	takes := strings.Join(r.Header.Values("Accept-Encoding"), ",")
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.forms[takes]; f != nil {
		return f, nil
	}
	f := &part{}
	if err := sendTo(f, r, p.status, p.html.Bytes()); err != nil {
		return nil, err
	}
	if p.forms == nil {
		p.forms = map[string]*part{}
	}
	if len(p.forms) < maxEncodings {
		p.forms[takes] = f
	}
	return f, nil
}
