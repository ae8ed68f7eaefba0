//go:build linux && ordeal

package e2e

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"quantix/internal/fleet"
)

// TestPortalKilledAfterCommitKeepsVM kills the portal after PostgreSQL has committed a new VM but before the portal has
// the response. The VM must exist, and a retry of the request with the same Idempotency-Key must return it.
func TestPortalKilledAfterCommitKeepsVM(t *testing.T) {
	t.Parallel()
	name := uniqueName("killed")
	pg := newPostgres(t, name+"-pg")
	gate := newGate(t, pg.URL())
	p := newPortal(t, name, "--database-url", gate.url)
	p.startMockAgent("mock-1")
	a := p.api()
	project := requestJSON[fleet.Project](t, a, http.StatusCreated, http.MethodPost, "/api/v1/projects", map[string]any{"name": "kept"})
	order := map[string]any{"name": "only-once", "projectId": project.ID, "spec": map[string]any{"cpus": 1, "memoryMiB": 128}}

	held := gate.holdCommit("only-once")
	unanswered := make(chan error, 1)
	go func() {
		got, err := a.withIdempotencyKey("the same key").send(context.WithoutCancel(t.Context()), http.MethodPost, "/api/v1/vms", order)
		if err == nil {
			t.Errorf("the request was answered with %d before the portal died", got.status)
		}
		unanswered <- err
	}()
	select {
	case <-held:
	case <-t.Context().Done():
		t.Fatal("no commit arrived")
	}
	p.kill()
	<-unanswered
	gate.releaseCommit()

	p.start(name)
	vms := listFirstPage[fleet.VMView](t, a, "/api/v1/vms")
	if len(vms) != 1 || vms[0].Name != "only-once" {
		t.Fatalf("after the crash there are %d VMs, want the one that was committed", len(vms))
	}
	again := requestJSON[fleet.VMView](t, a.withIdempotencyKey("the same key"), http.StatusCreated, http.MethodPost, "/api/v1/vms", order)
	if again.ID != vms[0].ID {
		t.Errorf("the retry returned the VM %s, want %s", again.ID, vms[0].ID)
	}
	if vms = listFirstPage[fleet.VMView](t, a, "/api/v1/vms"); len(vms) != 1 {
		t.Errorf("after the retry there are %d VMs, want 1", len(vms))
	}
	a.waitPhase(t, fleet.Lease+stepLimit, again.ID, fleet.PhaseStopped)
}

// TestPortalUsesPostgreSQLOfKilledPortal kills a portal with SIGKILL. Its private PostgreSQL survives, and the next
// portal must use it.
func TestPortalUsesPostgreSQLOfKilledPortal(t *testing.T) {
	t.Parallel()
	p := newPortal(t, uniqueName("adopted"))
	requestJSON[fleet.Project](t, p.api(), http.StatusCreated, http.MethodPost, "/api/v1/projects", map[string]any{"name": "lasting"})
	before := postmasterPID(t, p.dir)
	p.kill()
	p.start(p.name)
	if after := postmasterPID(t, p.dir); after != before {
		t.Errorf("PostgreSQL is process %s now, was %s: it was not adopted", after, before)
	}
	p.api().projectByName(t, "lasting")
}

// postmasterPID returns the process ID of a portal's private PostgreSQL.
func postmasterPID(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "postgres", "pgdata", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, _, _ := strings.Cut(string(text), "\n")
	return pid
}

// commitGate is a proxy between a portal and PostgreSQL. It can withhold the response to a commit.
type commitGate struct {
	url string // URL at which the portal reaches PostgreSQL

	mu     sync.Mutex
	needle []byte
	held   chan struct{}
	open   chan struct{}
}

func newGate(t *testing.T, postgres string) *commitGate {
	t.Helper()
	u, err := url.Parse(postgres)
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(u.Query().Get("host"), ".s.PGSQL."+u.Query().Get("port"))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	g := &commitGate{url: "postgres://" + u.User.Username() + "@" + l.Addr().String() + u.Path + "?sslmode=disable"}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial("unix", socket)
			if err != nil {
				c.Close()
				continue
			}
			go g.splice(c, s)
		}
	}()
	return g
}

// holdCommit makes the gate withhold the response to a commit, if a statement of the transaction contains the text. The
// returned channel is closed when PostgreSQL has committed.
func (g *commitGate) holdCommit(text string) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.needle, g.held, g.open = []byte(text), make(chan struct{}), make(chan struct{})
	return g.held
}

func (g *commitGate) releaseCommit() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.needle = nil
	close(g.open)
}

func (g *commitGate) splice(client, server net.Conn) {
	defer client.Close()
	defer server.Close()
	var mu sync.Mutex
	marked := false
	go func() {
		defer server.Close()
		copyObserved(server, client, func(chunk []byte) {
			g.mu.Lock()
			defer g.mu.Unlock()
			if g.needle != nil && bytes.Contains(chunk, g.needle) {
				mu.Lock()
				marked = true
				mu.Unlock()
			}
		})
	}()
	copyObserved(client, server, func(chunk []byte) {
		mu.Lock()
		stop := marked && bytes.Contains(chunk, []byte("COMMIT\x00"))
		marked = marked && !stop
		mu.Unlock()
		if stop {
			close(g.held)
			<-g.open
		}
	})
}

// copyObserved copies from one connection to another, and calls look with each chunk before it writes the chunk.
func copyObserved(to io.Writer, from io.Reader, look func([]byte)) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			look(buffer[:n])
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
