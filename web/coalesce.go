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
	"quantix/web/render"
)

// Request coalescing: the pages of many users show the same list and refresh it after the same change. Concurrent
// requests for the same part of a page, by users with the same permissions, share one response. Nothing is cached: a
// response is rendered after its requests arrived, so it includes every change announced before by any portal.

const (
	renderPauseFactor = 9                      // multiple of a part's rendering time to wait before its next rendering
	maxRenderPause    = 250 * time.Millisecond // maximum wait before the next rendering; requests that arrive meanwhile share its response
	maxEncodings      = 4                      // compressed copies of one part; nearly all browsers accept the same encoding
)

// sharedRequestKey identifies a part of a page by everything that determines its content.
type sharedRequestKey struct{ path, query, htmxTarget, permissions string }

// permissionsText returns the actor's permissions as text, equal for all users with the same permissions.
func permissionsText(a fleet.Actor) string {
	parts := make([]string, 0, len(a.Projects)+1)
	for id, role := range a.Projects {
		parts = append(parts, fmt.Sprintf("%q=%q", id, role))
	}
	slices.Sort(parts)
	return fmt.Sprintf("%q %t %s", a.Role, a.MustChangePassword, strings.Join(parts, " "))
}

// anonymousActor returns an actor with a's permissions but without a user, so that a shared response contains no user's
// data.
func anonymousActor(a fleet.Actor) fleet.Actor {
	return fleet.Actor{UserID: "somebody", Name: "somebody", Role: a.Role, Projects: a.Projects, MustChangePassword: a.MustChangePassword}
}

// coalesceRefreshes wraps h so that concurrent automatic refreshes of the same part share one response. The response of
// h must depend only on the address and the permissions, because h then gets neither the user nor a cookie.
func (s *Server) coalesceRefreshes(h handler) handler {
	return func(c echo.Context, a fleet.Actor) error {
		id := render.HTMXTarget(c)
		if id == "" || !isAutomaticRefresh(c) {
			return h(c, a)
		}
		r, a := c.Request(), anonymousActor(a)
		asked := sharedRequestKey{r.URL.Path, r.URL.RawQuery, id, permissionsText(a)}
		// A shared rendering may outlive the request that started it, so it gets a copy of the request.
		plain := &http.Request{
			Method: http.MethodGet, URL: &url.URL{Path: asked.path, RawQuery: asked.query}, Host: r.Host, Proto: r.Proto, ProtoMajor: r.ProtoMajor, ProtoMinor: r.ProtoMinor,
			Header: http.Header{"Hx-Request": {"true"}, "Hx-Target": {id}, "Hx-Trigger": {id}}, Body: http.NoBody,
		}
		route, path := routeOf(c), c.Path()
		releaseRefreshSlot(c)
		began := time.Now()
		p, err := s.sharedRenderer.render(r.Context(), asked, func(ctx context.Context) (*sharedResponse, error) {
			began := time.Now()
			defer func() { s.refreshRate.addBusyTime(time.Since(began)) }()
			p := &sharedResponse{}
			alone := s.pageEcho.NewContext(plain.WithContext(ctx), p)
			alone.SetPath(path)
			alone.Set(routeContextKey, route)
			alone.Set(actorContextKey, a)
			return p, h(alone, a)
		})
		addIdleTime(c, time.Since(began))
		if err != nil {
			return err
		}
		return p.writeTo(c)
	}
}

// sharedRenderer renders responses that several requests share, and queues the requests that wait for such a response.
// It is safe for concurrent use.
type sharedRenderer struct {
	mu     sync.Mutex
	queues map[sharedRequestKey]*renderQueue
}

// renderQueue holds the next rendering of a part, which all waiting requests share; next is nil if no request waits.
type renderQueue struct{ next *rendering }

type rendering struct {
	do       func(context.Context) (*sharedResponse, error)
	done     chan struct{}
	response *sharedResponse
	err      error
}

// render returns the result of a rendering that started after this call. Requests that wait for the same part share one
// call of do.
func (n *sharedRenderer) render(ctx context.Context, q sharedRequestKey, do func(context.Context) (*sharedResponse, error)) (*sharedResponse, error) {
	n.mu.Lock()
	a, busy := n.queues[q]
	if !busy {
		a = &renderQueue{}
		n.queues[q] = a
	}
	if a.next == nil {
		a.next = &rendering{do: do, done: make(chan struct{})}
	}
	m := a.next
	n.mu.Unlock()
	if !busy {
		go n.renderLoop(q, a)
	}
	select {
	case <-m.done:
		return m.response, m.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// renderLoop renders the part again and again until no request waits. It runs in a separate goroutine, because the
// request that started it may end before the others.
func (n *sharedRenderer) renderLoop(q sharedRequestKey, a *renderQueue) {
	for {
		n.mu.Lock()
		m := a.next
		a.next = nil
		if m == nil {
			delete(n.queues, q)
			n.mu.Unlock()
			return
		}
		n.mu.Unlock()
		began := time.Now()
		m.renderOnce()
		close(m.done)
		time.Sleep(min(renderPauseFactor*time.Since(began), maxRenderPause))
	}
}

func (m *rendering) renderOnce() {
	ctx, cancel := context.WithTimeout(context.Background(), pageTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil { // a panic in this goroutine would end the portal
			m.err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	m.response, m.err = m.do(ctx)
}

// sharedResponse is a response shared by many requests: its status and HTML. It implements http.ResponseWriter for the
// handler.
type sharedResponse struct {
	status int
	html   bytes.Buffer
	header http.Header

	mu        sync.Mutex
	encodings map[string]*sharedResponse // compressed copies of the response, by encoding
}

// Header implements http.ResponseWriter.
func (p *sharedResponse) Header() http.Header {
	if p.header == nil {
		p.header = http.Header{}
	}
	return p.header
}

// WriteHeader implements http.ResponseWriter.
func (p *sharedResponse) WriteHeader(status int) { p.status = status }

// Write implements http.ResponseWriter.
func (p *sharedResponse) Write(b []byte) (int, error) { return p.html.Write(b) }

// writeTo sends the part to one client, with only its content type and encoding headers: other headers may belong to
// one user.
func (p *sharedResponse) writeTo(c echo.Context) error {
	f, err := p.inAcceptedEncoding(c.Request())
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

// inAcceptedEncoding returns the part in an encoding that the browser accepts, and keeps the compressed copy for the
// other requests.
func (p *sharedResponse) inAcceptedEncoding(r *http.Request) (*sharedResponse, error) {
	takes := strings.Join(r.Header.Values("Accept-Encoding"), ",")
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.encodings[takes]; f != nil {
		return f, nil
	}
	f := &sharedResponse{}
	if err := render.WriteCompressed(f, r, p.status, p.html.Bytes()); err != nil {
		return nil, err
	}
	if p.encodings == nil {
		p.encodings = map[string]*sharedResponse{}
	}
	if len(p.encodings) < maxEncodings {
		p.encodings[takes] = f
	}
	return f, nil
}
