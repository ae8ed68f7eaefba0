package web_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

func TestDoubleSlashPathCausesNoExternalLink(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	b.get("//elsewhere.example/vms").requireStatus(t, http.StatusNotFound).excludes(t, `"//elsewhere.example`)
	p.execSQL("ALTER TABLE users RENAME COLUMN role TO oops")
	b.get("//elsewhere.example/vms").requireStatus(t, http.StatusInternalServerError).excludes(t, `"//elsewhere.example`)
}

func TestNULByteInURLCausesNoServerError(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	for _, path := range []string{"/projects/%00", "/users/%00", "/vms?project=%00", "/tasks?project=%00", "/hosts?filter=name:%00", "/tree/vms?project=%00"} {
		if a := b.get(path); a.status >= 500 {
			t.Errorf("%s: %d", path, a.status)
		}
	}
}

// readDeadlineRecorder is a response recorder that records each read deadline of the connection.
type readDeadlineRecorder struct {
	*httptest.ResponseRecorder
	set []time.Time
}

func (d *readDeadlineRecorder) SetReadDeadline(t time.Time) error {
	d.set = append(d.set, t)
	return nil
}

func TestSlowBodyTimesOut(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	send := func(to http.Handler, path string) *readDeadlineRecorder {
		w := &readDeadlineRecorder{ResponseRecorder: httptest.NewRecorder()}
		to.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader("name=mara")))
		return w
	}
	soon := func(at time.Time) bool { return time.Until(at) > 0 && time.Until(at) < time.Minute }
	if w := send(p.server.Handler(), "/sign-in"); len(w.set) == 0 || !soon(w.set[0]) {
		t.Errorf("a form's read deadlines are %v", w.set)
	}
	// A request for jobs waits longer than the read deadline, so the handler must clear the deadline once it has read
	// the body.
	if w := send(p.server.AgentHandler(), wire.PathJoin); len(w.set) != 2 || !soon(w.set[0]) || !w.set[1].IsZero() {
		t.Errorf("an agent request's read deadlines are %v", w.set)
	}
}
