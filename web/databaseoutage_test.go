package web_test

import (
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/testkit"
	"quantix/internal/wire"
)

// stallingProxy is a TCP proxy to the database that can stall: it stops forwarding but keeps all connections open.
type stallingProxy struct {
	mu      sync.Mutex
	stalled chan struct{} // closed on release; nil: not stalled
}

func (l *stallingProxy) stall() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stalled = make(chan struct{})
}

func (l *stallingProxy) resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.stalled)
	l.stalled = nil
}

func (l *stallingProxy) forward(to io.Writer, from io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		l.mu.Lock()
		held := l.stalled
		l.mu.Unlock()
		if held != nil {
			<-held
		}
		if err != nil {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// newStallingProxy starts a proxy to the test's database and returns the database URL through the proxy.
func newStallingProxy(t *testing.T) (*stallingProxy, string) {
	t.Helper()
	behind, err := url.Parse(testkit.DatabaseURL(t))
	if err != nil {
		t.Fatal(err)
	}
	socket := behind.Query().Get("host") + "/.s.PGSQL." + behind.Query().Get("port")
	line, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { line.Close() })
	l := &stallingProxy{}
	go func() {
		for {
			in, err := line.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("unix", socket)
			if err != nil {
				in.Close()
				continue
			}
			for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
				go func() {
					l.forward(way[0], way[1])
					in.Close()
					out.Close()
				}()
			}
		}
	}()
	through := url.URL{Scheme: "postgres", User: behind.User, Host: line.Addr().String(), Path: behind.Path, RawQuery: "sslmode=disable"}
	return l, through.String()
}

// getUntil repeats a request until the response has the given status. It fails after a time limit.
func (b *browser) getUntil(t *testing.T, path string, status int) {
	t.Helper()
	for late := time.Now().Add(30 * time.Second); b.get(path).status != status; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("%s never answers %d", path, status)
		}
	}
}

// If the database accepts connections but never answers, users, API clients, agents and load balancers get status 503.
func TestHungDatabaseReportedUnavailable(t *testing.T) {
	t.Parallel()
	line, through := newStallingProxy(t)
	pool, err := db.Open(t.Context(), through, 10)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	p, agentURL := newPortalWithAgentsOn(t, pool)
	host := p.joinHost(agentURL, "h1")
	host.sendReport(t)
	ann, admin := p.newSignedInBrowser("ann", fleet.RoleAdmin), p.newAPIClient("bob", fleet.RoleAdmin, nil)
	ann.get("/readyz").requireStatus(t, http.StatusOK)

	line.stall()
	var all sync.WaitGroup
	all.Go(func() { ann.getUntil(t, "/readyz", http.StatusServiceUnavailable) })
	all.Go(func() {
		ann.get("/vms").requireStatus(t, http.StatusServiceUnavailable).contains(t, "The database does not answer.")
	})
	all.Go(func() {
		ann.get("/events?key=tasks", "HX-Request", "true").requireStatus(t, http.StatusServiceUnavailable)
	})
	all.Go(func() {
		admin.call("POST", "/api/v1/projects", `{"name":"shop"}`, "Idempotency-Key", "k").requireProblem(t, http.StatusServiceUnavailable, "")
	})
	all.Go(func() {
		if _, err := host.Report(t.Context(), wire.Report{Seq: 99, Digest: "x", State: &wire.State{}}); wire.StatusOf(err) != http.StatusServiceUnavailable {
			t.Errorf("an agent's report: %v", err)
		}
	})
	all.Go(func() {
		if _, err := host.Claim(t.Context(), wire.ClaimRequest{Max: 1}); wire.StatusOf(err) != http.StatusServiceUnavailable {
			t.Errorf("an agent's claim: %v", err)
		}
	})
	all.Wait()
	ann.get("/healthz").requireStatus(t, http.StatusOK)

	line.resume()
	ann.getUntil(t, "/readyz", http.StatusOK)
	admin.call("POST", "/api/v1/projects", `{"name":"shop"}`, "Idempotency-Key", "k").requireStatus(t, http.StatusCreated)
}

// A database server that became a standby refuses writes, so the portal must not report itself as ready.
func TestReadOnlyDatabaseReportedUnavailable(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	ann, admin := p.newSignedInBrowser("ann", fleet.RoleAdmin), p.newAPIClient("bob", fleet.RoleAdmin, nil)
	var name string
	if err := p.pool.QueryRow(t.Context(), "SELECT current_database()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	p.execSQL("ALTER DATABASE " + name + " SET default_transaction_read_only = on")
	for _, conn := range p.pool.AcquireAllIdle(t.Context()) {
		if _, err := conn.Exec(t.Context(), "SET default_transaction_read_only = on"); err != nil {
			t.Fatal(err)
		}
		conn.Release()
	}
	admin.call("POST", "/api/v1/projects", `{"name":"shop"}`).requireProblem(t, http.StatusServiceUnavailable, "")
	ann.get("/readyz").requireStatus(t, http.StatusServiceUnavailable)
	ann.get("/vms").requireStatus(t, http.StatusServiceUnavailable).contains(t, "The database does not answer.")
}
