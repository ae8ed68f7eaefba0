package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/web/render"
)

// slowRenderer renders a shared response slowly. Each rendering sends the value of state at its start to began, then
// blocks until proceed receives a value.
type slowRenderer struct {
	mu      sync.Mutex
	state   int
	began   chan int
	proceed chan struct{}
}

func (s *slowRenderer) render(context.Context) (*sharedResponse, error) {
	s.mu.Lock()
	seen := s.state
	s.mu.Unlock()
	s.began <- seen
	<-s.proceed
	p := &sharedResponse{status: http.StatusOK}
	fmt.Fprint(p, seen)
	return p, nil
}

func (s *slowRenderer) changeState() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state++
}

// hasWaiting reports whether a request is waiting for the next rendering.
func (n *sharedRenderer) hasWaiting(q sharedRequestKey) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	a := n.queues[q]
	return a != nil && a.next != nil
}

func TestRunningRenderingNotSharedWithLaterRequests(t *testing.T) {
	t.Parallel()
	n := sharedRenderer{queues: map[sharedRequestKey]*renderQueue{}}
	s := &slowRenderer{began: make(chan int), proceed: make(chan struct{})}
	q := sharedRequestKey{path: "/vms"}
	var all sync.WaitGroup
	ask := func(want string) {
		all.Go(func() {
			if p, err := n.render(t.Context(), q, s.render); err != nil || p.html.String() != want {
				t.Errorf("%v, %v, want %s", p, err, want)
			}
		})
	}
	ask("0")
	<-s.began
	s.changeState() // requests arrive after the change, while the old state is still being rendered
	for range 50 {
		ask("1")
	}
	for !n.hasWaiting(q) {
		time.Sleep(time.Millisecond)
	}
	s.proceed <- struct{}{}
	if seen := <-s.began; seen != 1 {
		t.Errorf("the next rendering began with the state %d", seen)
	}
	s.proceed <- struct{}{}
	made := 2
	for done := make(chan struct{}); ; { // requests that arrive after the second rendering began get a third rendering
		go func() { all.Wait(); close(done) }()
		select {
		case <-done:
		case <-s.began:
			made++
			s.proceed <- struct{}{}
			continue
		}
		break
	}
	if made > 3 {
		t.Errorf("%d renderings for 51 clients that asked twice", made)
	}
}

func TestPanicInSharedRenderingRecovered(t *testing.T) {
	t.Parallel()
	n := sharedRenderer{queues: map[sharedRequestKey]*renderQueue{}}
	if _, err := n.render(t.Context(), sharedRequestKey{}, func(context.Context) (*sharedResponse, error) { panic("broken") }); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("a panic of the rendering returns %v", err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	hold := make(chan struct{})
	if _, err := n.render(gone, sharedRequestKey{}, func(ctx context.Context) (*sharedResponse, error) { <-hold; return &sharedResponse{}, ctx.Err() }); !errors.Is(err, context.Canceled) {
		t.Errorf("a client that has disconnected gets %v", err)
	}
	close(hold)
	if _, err := n.render(t.Context(), sharedRequestKey{}, func(context.Context) (*sharedResponse, error) { return &sharedResponse{}, nil }); err != nil {
		t.Errorf("the next client gets %v", err)
	}
	for n.isRendering() {
		time.Sleep(time.Millisecond) // parts without waiting requests are dropped
	}
}

func (n *sharedRenderer) isRendering() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.queues) > 0
}

// The handler renders a shared part without the identity of any user, only with permissions.
func TestSharedResponseRenderedWithoutUserIdentity(t *testing.T) {
	t.Parallel()
	renderer := &render.Renderer{BeforeResponse: releaseRefreshSlot}
	s := &Server{pageEcho: echo.New(), sharedRenderer: sharedRenderer{queues: map[sharedRequestKey]*renderQueue{}}, refreshRate: newRefreshRate()}
	var seen []string
	h := s.coalesceRefreshes(func(c echo.Context, a fleet.Actor) error {
		seen = append(seen, fmt.Sprintf("%+v %+v %v %s", a, actorOf(c), c.Request().Header, c.RealIP()))
		c.SetCookie(&http.Cookie{Name: "quantix-mine", Value: "1"})
		c.Response().Header().Set("HX-Trigger", "mine")
		return renderer.WritePage(c, http.StatusOK, templ.Raw("rows"))
	})
	ask := func(target, trigger string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "/vms?filter=x", nil)
		for name, value := range map[string]string{
			"HX-Request": "true", "HX-Target": target, "HX-Trigger": trigger, "Cookie": "quantix=secret; quantix-tree=hosts",
			"Authorization": "Bearer secret", "HX-Current-URL": "http://portal/vms/secret", "X-Forwarded-For": "10.9.8.7", "Accept-Language": "de",
		} {
			r.Header.Set(name, value)
		}
		to := httptest.NewRecorder()
		c := s.pageEcho.NewContext(r, to)
		c.Set(routeContextKey, route{kind: page})
		a := fleet.Actor{
			UserID: "secret", HostID: "secret", Name: "secret", Role: fleet.RoleViewer, Projects: map[fleet.ProjectID]fleet.Role{"shop": fleet.RoleMember},
			Session: "secret", Token: "secret", KeyHash: "secret", Address: "10.9.8.7", Browser: "secret",
		}
		c.Set(actorContextKey, a)
		if err := h(c, a); err != nil {
			t.Fatal(err)
		}
		return to
	}
	to := ask("vm-rows", "vm-rows")
	if len(seen) != 1 || strings.Contains(seen[0], "secret") || strings.Contains(seen[0], "10.9.8.7") || strings.Contains(seen[0], "quantix") || strings.Contains(seen[0], "de]") {
		t.Errorf("the handler can see the identity: %q", seen)
	}
	if !strings.Contains(seen[0], "shop:member") || !strings.Contains(seen[0], "Role:viewer") {
		t.Errorf("the handler cannot see the permissions: %q", seen)
	}
	if to.Body.String() != "rows" || to.Header().Get("Set-Cookie") != "" || to.Header().Get("HX-Trigger") != "" || to.Header().Get("Vary") == "" {
		t.Errorf("the answer is %q with %v", to.Body, to.Header())
	}
	if ask("vm-rows", "a-button"); !strings.Contains(seen[1], "secret") {
		t.Errorf("a click, which is no refresh, is rendered without the user: %q", seen[1])
	}
}

func TestActorsWithDifferentPermissionsHaveDifferentPermissionTexts(t *testing.T) {
	t.Parallel()
	in := func(roles ...string) (a fleet.Actor) {
		a.Projects = map[fleet.ProjectID]fleet.Role{}
		for i := 0; i < len(roles); i += 2 {
			a.Projects[fleet.ProjectID(roles[i])] = fleet.Role(roles[i+1])
		}
		return a
	}
	seen := map[string]fleet.Actor{}
	for _, a := range []fleet.Actor{
		{},
		{Role: fleet.RoleAdmin},
		{Role: fleet.RoleOperator},
		{Role: fleet.RoleViewer},
		{Role: fleet.RoleViewer, MustChangePassword: true},
		in("a", "member"), in("a", "viewer"), in("b", "member"), in("a", "member", "b", "member"), in("a", "member", "b", "viewer"), in("a", "viewer", "b", "member"),
		in(`a"="member" "b`, "member"), // ids are quoted, so that one id cannot look like two
	} {
		if other, ok := seen[permissionsText(a)]; ok {
			t.Errorf("%+v and %+v have the same key", a, other)
		}
		seen[permissionsText(a)] = a
	}
	if permissionsText(in("a", "member", "b", "viewer")) != permissionsText(in("b", "viewer", "a", "member")) {
		t.Error("the order of the projects changes the key")
	}
}

func TestRefreshIntervalFollowsLoad(t *testing.T) {
	t.Parallel()
	p := &refreshRate{budget: 0.25}
	now := time.Now()
	p.currentInterval(now)
	load := func(cores float64) (gap, spread time.Duration) {
		gap, _ = p.currentInterval(now)
		window := min(gap, loadMeasureWindow)
		now = now.Add(window)
		p.addBusyTime(time.Duration(cores * float64(window)))
		return p.currentInterval(now)
	}
	if gap, spread := load(0.01); gap != minListInterval || spread > 50*time.Millisecond {
		t.Errorf("at low load: every %s, spread over %s", gap, spread)
	}
	// The refreshes of one interval take one CPU second, however long the interval is.
	var gap, spread time.Duration
	for range 20 {
		gap, _ = p.currentInterval(now)
		gap, spread = load(1 / gap.Seconds())
	}
	if gap < 3500*time.Millisecond || gap > 4500*time.Millisecond || spread != gap {
		t.Errorf("one CPU second at a quarter of a processor: every %s, spread over %s", gap, spread)
	}
	for range 20 {
		gap, _ = load(100)
	}
	if gap != maxListInterval {
		t.Errorf("at overload: every %s", gap)
	}
	for range 20 {
		gap, _ = load(0)
	}
	if gap != minListInterval {
		t.Errorf("after the load: every %s", gap)
	}
}

// A client that reads slowly must not delay the refreshes of others.
func TestRefreshSlotFreedBeforeResponseIsRead(t *testing.T) {
	t.Parallel()
	renderer := &render.Renderer{BeforeResponse: releaseRefreshSlot}
	s := &Server{pageEcho: echo.New(), refreshRate: newRefreshRate(), refreshSlots: make(chan struct{}, 1)}
	h := s.limitRefreshes(func(c echo.Context) error {
		if len(s.refreshSlots) != 1 {
			t.Error("a refresh runs without a slot")
		}
		return renderer.WritePage(c, http.StatusOK, templ.Raw("rows"))
	})
	for _, path := range []string{"/tree/:view", "/vms/:id"} {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		for _, name := range []string{"HX-Target", "HX-Trigger"} {
			r.Header.Set(name, "rows")
		}
		r.Header.Set("HX-Request", "true")
		to := &onWriteWriter{ResponseRecorder: httptest.NewRecorder(), do: func() {
			if len(s.refreshSlots) != 0 {
				t.Errorf("%s is written while the refresh holds its slot", path)
			}
		}}
		c := s.pageEcho.NewContext(r, to)
		c.Set(routeContextKey, route{kind: page, path: path})
		if path == "/vms/:id" { // the page of a single object needs no refresh slot
			if err := s.limitRefreshes(func(echo.Context) error { return nil })(c); err != nil || s.refreshRate.busyTime != 0 {
				t.Errorf("%v, %s", err, s.refreshRate.busyTime)
			}
			continue
		}
		if err := h(c); err != nil || s.refreshRate.busyTime == 0 {
			t.Errorf("%v, %s", err, s.refreshRate.busyTime)
		}
		s.refreshRate.busyTime = 0
	}
}

type onWriteWriter struct {
	*httptest.ResponseRecorder
	do func()
}

func (w *onWriteWriter) Write(b []byte) (int, error) {
	w.do()
	return w.ResponseRecorder.Write(b)
}
