package web_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/internal/event"
	"quantix/internal/fleet"
	"quantix/internal/testkit"
)

// A client changes portals and loses its connection again and again, while transactions end in another order than they
// began.
func TestEventsSurviveCutsAndChangesOfPortal(t *testing.T) {
	t.Parallel()
	pool := testkit.DB(t)
	portals := []*portal{newPortalOn(t, pool).listen(), newPortalOn(t, pool).listen()}
	ann := portals[0].newAPIClient("ann", fleet.RoleAdmin, nil)
	c := ann.openEvents(t, portals[0].url, "type=cluster,alarm", "")
	c.want("resync new")
	const writers, each = 5, 200
	failed := make(chan error, writers)
	for w := range writers {
		go func() {
			failed <- func() error {
				for n := range each {
					err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
						if _, err := tx.Exec(t.Context(), `INSERT INTO clusters (id, name) VALUES ($1, $1)`, fmt.Sprintf("w%d-%03d", w, n)); err != nil {
							return err
						}
						time.Sleep(time.Duration(rand.IntN(6)) * time.Millisecond)
						return nil
					})
					if err != nil {
						return err
					}
				}
				return nil
			}()
		}()
	}
	var got []string
	seen := map[string]bool{}
	cuts := 0
	for len(got) < writers*each {
		for range 1 + rand.IntN(60) {
			if len(got) == writers*each {
				break
			}
			e := c.next()
			if seen[e.id] {
				t.Fatalf("event %s (%s) came twice", e.id, e)
			}
			seen[e.id] = true
			got = append(got, e.String())
		}
		c.cut()
		cuts++
		c = ann.openEvents(t, portals[cuts%2].url, "type=cluster,alarm", c.lastID)
	}
	for range writers {
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
	}
	for w := range writers {
		var want []string
		for n := range each {
			want = append(want, fmt.Sprintf("cluster created w%d-%03d", w, n))
		}
		if of := slices.DeleteFunc(slices.Clone(got), func(s string) bool { return !strings.Contains(s, want[0][16:19]) }); !slices.Equal(of, want) {
			t.Errorf("events of writer %d: %d, %q", w, len(of), of)
		}
	}
	portals[0].execSQL(`INSERT INTO clusters (id, name) VALUES ('last', 'last')`)
	c.want("cluster created last")
	t.Logf("%d events over %d connections", len(got), cuts)
}

func TestEventStreamResyncsUnknownAndOldPositions(t *testing.T) {
	t.Parallel()
	p := newPortal(t).listen()
	ann := p.newAPIClient("ann", fleet.RoleAdmin, nil)
	p.execSQL(`INSERT INTO clusters (id, name) VALUES ('c1', 'one')`)
	p.settleEvents()
	first := ann.openEvents(t, p.url, "", "")
	first.want("resync new")
	old := first.lastID
	p.execSQL(`INSERT INTO clusters (id, name) VALUES ('c2', 'two')`)
	first.want("cluster created two")

	c := ann.openEvents(t, p.url, "after="+old, "")
	c.want("cluster created two")
	c = ann.openEvents(t, p.url, "after="+first.lastID, old) // the header has priority
	c.want("cluster created two")

	p.execSQL(`DELETE FROM events WHERE name = 'one'`) // as an old event
	for _, after := range []string{fleet.NewID[string](), "7", old} {
		c = ann.openEvents(t, p.url, "", after)
		c.want("resync unknown")
		if c.lastID != first.lastID {
			t.Errorf("resync at %q, want %q", c.lastID, first.lastID)
		}
	}
	p.execSQL(`INSERT INTO clusters (id, name) VALUES ('c3', 'three')`)
	c.want("cluster created three")
	c = ann.openEvents(t, p.url, "", c.lastID)
	p.execSQL(`INSERT INTO clusters (id, name) VALUES ('c4', 'four')`)
	c.want("cluster created four")
}

// settleEvents waits until all written events are readable. Transactions of other tests delay them.
func (p *portal) settleEvents() {
	p.t.Helper()
	waitUntil(p.t, "all events are readable", func() bool {
		b, err := p.control.ReadEvents(p.t.Context(), fleet.SystemActor, event.Query{})
		return err == nil && !b.Pending
	})
}

func TestEventStreamFiltersAndHidesOtherProjects(t *testing.T) {
	t.Parallel()
	p := newPortal(t).listen()
	shop, bank, host := p.addProject("shop"), p.addProject("bank"), p.addHost("h1", 0)
	admin, tenant := p.newAPIClient("ann", fleet.RoleAdmin, nil), p.newAPIClient("tom", fleet.RoleNone, map[fleet.ProjectID]fleet.Role{shop: fleet.RoleMember})
	p.settleEvents() // of the preparations above
	all := admin.openEvents(t, p.url, "type=vm,task", "")
	ofBank := admin.openEvents(t, p.url, "project="+string(bank), "")
	own := tenant.openEvents(t, p.url, "", "")
	for _, c := range []*eventClient{all, ofBank, own} {
		c.want("resync new")
	}
	p.addVM(bank, host, "bank-vm", fleet.Running)
	vm := p.addVM(shop, host, "shop-vm", fleet.Running)
	p.execSQL(`UPDATE hosts SET name = 'h2' WHERE id = $1`, host)
	p.execSQL(`INSERT INTO tasks (id, kind, subject, subject_name, project_id, created_by) VALUES ('t1', 'vm.start', $1, 'shop-vm', $2, 'x')`, "vm:"+string(vm), shop)
	all.want("vm created bank-vm", "vm created shop-vm", "task created shop-vm queued")
	ofBank.want("vm created bank-vm")
	var visible []string
	for e := (streamedEvent{}); e.Type != "task"; {
		e = own.next()
		visible = append(visible, e.String())
	}
	if want := []string{"vm created shop-vm", "task created shop-vm queued"}; !slices.Equal(visible, want) {
		t.Errorf("a tenant gets %q, want %q", visible, want)
	}

	p.execSQL(`DELETE FROM project_members WHERE user_id = 'tom'`)
	own.wantEnd()
	for query, status := range map[string]int{"type=host": http.StatusForbidden, "project=" + string(bank): http.StatusNotFound, "type=teapot": http.StatusUnprocessableEntity, "kind=vm": http.StatusUnprocessableEntity} {
		p.execSQL(`INSERT INTO project_members (project_id, user_id, role) VALUES ($1, 'tom', 'viewer') ON CONFLICT DO NOTHING`, shop)
		tenant.call(http.MethodGet, "/api/v1/events?"+query, "").requireStatus(t, status)
	}
	p.newBrowser().get("/api/v1/events").requireStatus(t, http.StatusUnauthorized)
}

func TestEventStreamEndsWithItsToken(t *testing.T) {
	t.Parallel()
	p := newPortal(t).listen()
	ann, bob := p.newAPIClient("ann", fleet.RoleAdmin, nil), p.newAPIClient("bob", fleet.RoleViewer, nil)
	stays, ends := bob.openEvents(t, p.url, "type=cluster", ""), ann.openEvents(t, p.url, "type=cluster", "")
	stays.want("resync new")
	ends.want("resync new")
	p.execSQL(`DELETE FROM tokens WHERE user_id = 'ann'`)
	ends.wantEnd()
	p.execSQL(`INSERT INTO clusters (id, name) VALUES ('c1', 'one')`)
	stays.want("cluster created one")
	p.execSQL(`UPDATE users SET disabled = true WHERE id = 'bob'`)
	stays.wantEnd()
}

// Without wake-ups the stream polls, and no event comes after the end of the token.
func TestRevokedTokenGetsNoEventsWithoutWakeUps(t *testing.T) {
	t.Parallel()
	p := newPortal(t) // its hub is not connected
	ann := p.newAPIClient("ann", fleet.RoleAdmin, nil)
	c := ann.openEvents(t, p.url, "type=cluster", "")
	c.want("resync new")
	p.execSQL(`INSERT INTO clusters (id, name) VALUES ('c1', 'one')`)
	c.want("cluster created one")
	p.execSQL(`DELETE FROM tokens WHERE user_id = 'ann'`)
	p.execSQL(`INSERT INTO clusters (id, name) VALUES ('c2', 'two')`)
	c.wantEnd()
}

func TestTooManyStreamsOfEventsRefused(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	ann := p.newAPIClient("ann", fleet.RoleAdmin, nil)
	for range 9 {
		ann.openEvents(t, p.url, "type=cluster", "")
	}
	last := ann.openEvents(t, p.url, "type=cluster", "")
	ann.call(http.MethodGet, "/api/v1/events", "").requireStatus(t, http.StatusTooManyRequests)
	last.cut()
	for until := time.Now().Add(10 * time.Second); p.server.EventStreams() == 10 && time.Now().Before(until); {
		time.Sleep(10 * time.Millisecond)
	}
	ann.openEvents(t, p.url, "type=cluster", "").want("resync new")
}

// A client that does not read is disconnected, and continues after the last event that it processed.
func TestSlowReaderOfEventsIsDisconnected(t *testing.T) {
	t.Parallel()
	p := newPortal(t).listen()
	ann := p.newAPIClient("ann", fleet.RoleAdmin, nil)
	start := ann.openEvents(t, p.url, "type=cluster", "")
	start.want("resync new")
	start.cut()
	at, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", at.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const rows = 40_000 // far more than the buffers of the connection
	p.execSQL(`INSERT INTO events (type, object_id, name) SELECT 'cluster', n::text, repeat('x', 400) || n FROM generate_series(1, $1) n`, rows)
	if _, err := fmt.Fprintf(conn, "GET /api/v1/events?type=cluster HTTP/1.1\r\nHost: portal\r\nAuthorization: Bearer %s\r\nLast-Event-ID: %s\r\n\r\n", ann.token, start.lastID); err != nil {
		t.Fatal(err)
	}
	waitFor := func(n int) {
		t.Helper()
		for until := time.Now().Add(30 * time.Second); p.server.EventStreams() != n; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(until) {
				t.Fatalf("%d open streams, want %d", p.server.EventStreams(), n)
			}
		}
	}
	waitFor(1)
	waitFor(0)
	var lastID string
	received := 0
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	s := bufio.NewScanner(conn)
	for s.Scan() {
		if id, ok := strings.CutPrefix(s.Text(), "id: "); ok {
			lastID = id
		} else if s.Text() == "" && lastID != "" {
			received++
		}
	}
	if received == 0 || received >= rows {
		t.Fatalf("%d events of %d came before the disconnection", received, rows)
	}
	c := ann.openEvents(t, p.url, "type=cluster", start.lastID)
	for n := range 1000 {
		if e := c.next(); e.ObjectID != strconv.Itoa(n+1) {
			t.Fatalf("event %d is of object %s", n+1, e.ObjectID)
		}
	}
}

func TestTaskRequestWaitsForTheEnd(t *testing.T) {
	t.Parallel()
	p := newPortal(t).listen()
	ann := p.newAPIClient("ann", fleet.RoleAdmin, nil)
	id := string(fleet.NewID[fleet.TaskID]())
	p.execSQL(`INSERT INTO tasks (id, kind, subject, subject_name, created_by, state) VALUES ($1, 'vm.start', 'vm:1', 'web', 'x', 'running')`, id)
	path := "/api/v1/tasks/" + id

	began := time.Now()
	ann.call(http.MethodGet, path+"?wait=1s", "").requireStatus(t, http.StatusOK).contains(t, `"state":"running"`)
	if took := time.Since(began); took < time.Second {
		t.Errorf("without an end, the answer came after %s", took)
	}
	answers := make(chan answer, 1)
	go func() { answers <- ann.call(http.MethodGet, path+"?wait=60", "") }()
	time.Sleep(5 * time.Second) // beyond the deadline of other requests
	p.execSQL(`UPDATE tasks SET state = 'done', ended_at = now() WHERE id = $1`, id)
	(<-answers).requireStatus(t, http.StatusOK).contains(t, `"state":"done"`)
	began = time.Now()
	ann.call(http.MethodGet, path+"?wait=60s", "").requireStatus(t, http.StatusOK)
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("for an ended task, the answer came after %s", took)
	}
	for _, wait := range []string{"61s", "-1s", "soon", "2h"} {
		ann.call(http.MethodGet, path+"?wait="+wait, "").requireStatus(t, http.StatusUnprocessableEntity).contains(t, "from 0s to 60s")
	}
	ann.call(http.MethodGet, "/api/v1/tasks/"+fleet.NewID[string]()+"?wait=60s", "").requireStatus(t, http.StatusNotFound)
}

func TestEventStreamEndsWithThePortal(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	ann := p.newAPIClient("ann", fleet.RoleAdmin, nil)
	base, stop := context.WithCancel(context.Background())
	defer stop()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: p.server.Handler(), BaseContext: func(net.Listener) context.Context { return base }, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	c := ann.openEvents(t, "http://"+l.Addr().String(), "", "")
	c.want("resync new")
	stop() // as at the end of the grace period
	c.wantEnd()
	limit, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := server.Shutdown(limit); err != nil || p.server.EventStreams() != 0 {
		t.Errorf("%v; %d streams are open", err, p.server.EventStreams())
	}
}
