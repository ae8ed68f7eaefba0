package web_test

import (
	"bufio"
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"quantix/internal/control/identity"
	"quantix/internal/fleet"
)

// stream opens /events and returns a channel with the lines of the stream.
func stream(t *testing.T, b *browser, query string) <-chan string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url+"/events?"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("the stream answers %d %s", got.StatusCode, got.Header.Get("Content-Type"))
	}
	t.Cleanup(func() { got.Body.Close() })
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(got.Body); s.Scan(); {
			lines <- s.Text()
		}
	}()
	expectLine(t, lines, ": open")
	return lines
}

func expectLine(t *testing.T, lines <-chan string, want string) {
	t.Helper()
	limit := time.After(10 * time.Second)
	for {
		select {
		case line, ok := <-lines:
			if line == want {
				return
			}
			if !ok {
				t.Fatalf("the stream ended before %q", want)
			}
			if strings.HasPrefix(line, "event: ") && line != "event: pace" { // each stream begins with a pace event
				t.Fatalf("%q came before %q", line, want)
			}
		case <-limit:
			t.Fatalf("no %q", want)
		}
	}
}

func TestEventStreamSendsOnlySubscribedKeys(t *testing.T) {
	p, _, _, vms := newFleetPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	id := string(vms["web-01"])
	lines := stream(t, b, "key=vm:"+id+"&key=tasks&key=hosts")
	p.hub.Wake("vm:" + id)
	expectLine(t, lines, "event: vm:"+id)
	expectLine(t, lines, "data:")
	p.hub.Wake("vm:" + string(vms["web-02"])) // the stream is not subscribed to this key
	p.hub.Wake("host:one")
	expectLine(t, lines, "event: hosts")
	p.hub.Wake("host:two") // within the same second, so the event is delayed
	p.hub.Wake("tasks")
	expectLine(t, lines, "event: tasks")
	expectLine(t, lines, "event: hosts")
	p.hub.WakeAll()
	expectLine(t, lines, "event: resync")
}

func TestEventsOfOtherProjectsHidden(t *testing.T) {
	p, _, _, vms := newFleetPortal(t)
	b := p.newSignedInBrowser("vera", fleet.RoleNone)
	finance := p.addProject("finance")
	p.execSQL("INSERT INTO project_members (project_id, user_id, role) VALUES ($1, 'vera', 'viewer')", finance)
	lines := stream(t, b, "key=vm:"+string(vms["web-01"])+"&key=tasks&key=vms&key=pools&key=networks&key=projects")
	for _, key := range []string{"vm:" + string(vms["web-01"]), "tasks", "projects", "pool:one", "net:one", "tasks:other", "vms:other", "project:other"} {
		p.hub.Wake(key)
	}
	p.hub.Wake("vms:" + string(finance))
	expectLine(t, lines, "event: vms")
	p.hub.Wake("tasks:" + string(finance))
	expectLine(t, lines, "event: tasks")
}

func TestTooManyEventStreamsRefused(t *testing.T) {
	p, _, _, _ := newFleetPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	for range 40 {
		stream(t, b, "key=tasks")
	}
	b.get("/events?key=tasks").requireStatus(t, http.StatusTooManyRequests)
	p.newBrowser().get("/events?key=tasks", "Accept", "text/event-stream", "HX-Request", "true").requireStatus(t, http.StatusUnauthorized)
}

// expectStreamEnd fails unless the stream ends within 10 s. The periodic permission check comes later, so only a
// wake-up can end the stream in that time.
func expectStreamEnd(t *testing.T, lines <-chan string) {
	t.Helper()
	limit := time.After(10 * time.Second)
	for {
		select {
		case _, ok := <-lines:
			if !ok {
				return
			}
		case <-limit:
			t.Fatal("the stream does not end")
		}
	}
}

func TestEventStreamEndsWhenPermissionsChange(t *testing.T) {
	t.Parallel()
	p, _ := newPortalWithAgents(t)
	shop := p.addProject("shop")
	vm := p.addVM(shop, p.addHost("h1", 0), "web", fleet.Running)
	root := fleet.Actor{UserID: "root", Name: "root", Role: fleet.RoleAdmin}
	user := func(name string, role fleet.Role, disabled bool) {
		t.Helper()
		if _, err := p.control.UpdateUser(t.Context(), root, "mia", identity.UserInput{Name: name, Role: role, Disabled: disabled}); err != nil {
			t.Fatal(err)
		}
	}
	member := func(role fleet.Role) {
		t.Helper()
		if err := p.control.SetMember(t.Context(), root, shop, "mia", role); err != nil {
			t.Fatal(err)
		}
	}
	b := p.newSignedInBrowser("mia", fleet.RoleNone)
	member(fleet.RoleMember)
	query := "key=tasks&key=vm:" + string(vm)

	lines := stream(t, b, query)
	user("maria", fleet.RoleNone, false) // an update without new permissions keeps the stream open
	member(fleet.RoleViewer)             // another role that allows the same keys
	p.execSQL("UPDATE vms SET description = 'poked' WHERE id = $1", vm)
	expectLine(t, lines, "event: vm:"+string(vm))
	member(fleet.RoleNone)
	expectStreamEnd(t, lines)

	member(fleet.RoleMember)
	lines = stream(t, b, query)
	b.post("/sign-out", nil).requireStatus(t, http.StatusSeeOther)
	expectStreamEnd(t, lines)

	b.post("/sign-in", url.Values{"name": {"maria"}, "password": {goodPassword}}).requireStatus(t, http.StatusSeeOther)
	lines = stream(t, b, query)
	user("maria", fleet.RoleNone, true)
	expectStreamEnd(t, lines)
	b.get("/events?"+query, "HX-Request", "true").requireStatus(t, http.StatusUnauthorized)
}

// Under load the stream sends the refresh interval to the page and delays events of lists by the interval. It sends
// events of single objects at once.
func TestEventStreamSendsRefreshInterval(t *testing.T) {
	p, _, _, vms := newFleetPortal(t)
	p.server.SetRefreshLoad(3 * time.Second)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	one := "vm:" + string(vms["web-01"])
	lines := stream(t, b, "key="+one+"&key=hosts")
	expectLine(t, lines, "event: pace")
	expectLine(t, lines, "data: 3")
	began := time.Now()
	for range 50 {
		p.hub.Wake("host:one")
	}
	p.hub.Wake(one)
	expectLine(t, lines, "event: "+one)
	expectLine(t, lines, "event: hosts")
	p.hub.Wake("host:two") // a wake-up after the event causes another event, one interval later
	p.hub.Wake(one)
	expectLine(t, lines, "event: "+one)
	expectLine(t, lines, "event: hosts")
	if took := time.Since(began); took < 3*time.Second {
		t.Errorf("two events of the same list came within %s", took)
	}
	p.server.SetRefreshLoad(0)
	expectLine(t, lines, "data: 1")
}
