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

// Many pages of many people follow the same list and ask for the same part of it, all of them when it changes. Those who ask for the
// same with the same rights at the same time are answered together. Nothing is kept: what is given to somebody was read after they
// asked, so that no change that they were told of can be missing in it, whichever portal told them.

const (
	restTimes = 9                      // after a part was made, nobody makes the same anew for so many times as long,
	mostRest  = 250 * time.Millisecond // or for this long: whoever comes in between waits, and is answered with the others
	mostForms = 4                      // of one part: by what browsers take, which is the same for nearly all
)

// question is all that a part of a page hangs on.
type question struct{ path, query, target, rights string }

// rightsOf is the same for all people who may do the same.
func rightsOf(a fleet.Actor) string {
	parts := make([]string, 0, len(a.Projects)+1)
	for id, role := range a.Projects {
		parts = append(parts, fmt.Sprintf("%q=%q", id, role))
	}
	slices.Sort(parts)
	return fmt.Sprintf("%q %t %s", a.Role, a.MustChange, strings.Join(parts, " "))
}

// somebody has the actor's rights and nothing else of them: what is made for somebody holds nothing of a person.
func somebody(a fleet.Actor) fleet.Actor {
	return fleet.Actor{UserID: "somebody", Name: "somebody", Role: a.Role, Projects: a.Projects, MustChange: a.MustChange}
}

// together has what a page asks by itself, to stay live, answered once for all who ask for it at the same time. It is for pages that
// hang on the address and the rights alone: the handler is given neither a person nor a cookie.
func (s *Server) together(h handler) handler {
	return func(c echo.Context, a fleet.Actor) error {
		id := target(c)
		if id == "" || !isRefresh(c) {
			return h(c, a)
		}
		r, a := c.Request(), somebody(a)
		asked := question{r.URL.Path, r.URL.RawQuery, id, rightsOf(a)}
		// What is kept of the request outlives it.
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

// parts are those that are being made, or were just now.
type parts struct {
	mu    sync.Mutex
	asked map[question]*askers
}

// askers are those who wait for the next time that a part is made; nil: nobody does.
type askers struct{ next *making }

type making struct {
	do   func(context.Context) (*part, error)
	done chan struct{}
	part *part
	err  error
}

// ask waits for the part, which do begins to make after ask was called. One do serves all who wait.
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

// serve makes the part until nobody waits for it. It outlives the request that began it, for others wait on it.
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
		time.Sleep(min(restTimes*time.Since(began), mostRest))
	}
}

func (m *making) run() {
	ctx, cancel := context.WithTimeout(context.Background(), pageLimit)
	defer cancel()
	defer func() {
		if p := recover(); p != nil { // here it would end the portal
			m.err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	m.part, m.err = m.do(ctx)
}

// part is an answer that is given to many: its status and HTML. It takes what a handler writes.
type part struct {
	status int
	html   bytes.Buffer
	header http.Header

	mu    sync.Mutex
	forms map[string]*part // by what the browser takes
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

// give answers one of them. Of the headers only those are given that say how to read it: nothing else is for everybody.
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

// form is the part as the browser takes it, packed or not.
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
	if len(p.forms) < mostForms {
		p.forms[takes] = f
	}
	return f, nil
}
