package bench

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"quantix/db"
	"quantix/internal/auth"
	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/notify"
	"quantix/internal/testkit"
	"quantix/internal/testkit/tier"
	"quantix/internal/wire"
	"quantix/web"
)

func TestMain(m *testing.M) {
	if runServerProcess() || runCommand() {
		return
	}
	release, err := tier.AcquireGuestSlot()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	testkit.Main(m, stopDurable, func() error { release(); return nil })
}

// rig is a portal with its own database that flushes to disk. It has no listener: startPortal runs the real program on
// the database, and serverProcess runs the servers for comparison.
type rig struct {
	pool    *pgxpool.Pool
	hub     *notify.Hub
	control *control.Control
	web     *web.Server
	hosts   []hostSession
}

type hostSession struct {
	id      fleet.HostID
	session string
	seq     int64
}

const hostHeader = "Bench-Host"

func newRig(b *testing.B) *rig {
	b.Helper()
	return newRigOn(b, durableURL(b, ""))
}

func newRigOn(b *testing.B, database string) *rig {
	b.Helper()
	r := newPortal(b.Context(), b, database, "https://portal.test")
	b.Cleanup(r.pool.Close)
	return r
}

type fataler interface{ Fatal(...any) }

func newPortal(ctx context.Context, b fataler, database, agentURL string) *rig {
	pool, err := db.Open(ctx, database, 20)
	if err != nil {
		b.Fatal(err)
	}
	vault, err := auth.OpenVault(os.Getenv(secretsKeyVar), false)
	if err != nil {
		b.Fatal(err)
	}
	hub := notify.NewHub()
	log := slog.New(slog.DiscardHandler)
	go hub.Listen(ctx, pool.Config().ConnConfig, log)
	r := &rig{pool: pool, hub: hub}
	r.control = control.New(pool, control.Options{Hub: hub, Log: log, AgentURL: agentURL, PairURL: agentURL, Vault: vault})
	r.web = web.New(web.Options{
		Control: r.control, Hub: hub, Sessions: auth.NewSessionManager(pool, false), Log: log, PublicURL: "http://portal.test",
		Version: "bench", Ready: pool.Ping,
	})
	return r
}

// authenticateAsHosts replaces TLS: each request counts as sent by the host that the header hostHeader names.
func authenticateAsHosts(next http.Handler) http.Handler {
	var known sync.Map
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(hostHeader)
		state, ok := known.Load(id)
		if !ok {
			state, _ = known.LoadOrStore(id, tlsStateOf(id))
		}
		r.TLS = state.(*tls.ConnectionState)
		next.ServeHTTP(w, r)
	})
}

func tlsStateOf(id string) *tls.ConnectionState {
	cert := &x509.Certificate{
		Subject: pkix.Name{CommonName: id}, NotAfter: time.Now().Add(time.Hour), RawSubjectPublicKeyInfo: hostKeyInfo(),
		URIs: []*url.URL{{Scheme: "quantix", Host: "host", Path: "/" + id}},
	}
	return &tls.ConnectionState{HandshakeComplete: true, PeerCertificates: []*x509.Certificate{cert}, VerifiedChains: [][]*x509.Certificate{{cert}}}
}

// addHosts adds n hosts and opens their agents' sessions, with one full report for each host.
func (r *rig) addHosts(b *testing.B, n int) {
	b.Helper()
	flushCommits(b, r.pool, false)
	defer flushCommits(b, r.pool, true)
	added := make([]hostSession, n)
	atOnce(n, 8, func(i int) {
		h := &added[i]
		h.id = fleet.NewID[fleet.HostID]()
		_, err := r.pool.Exec(b.Context(), `WITH h AS (INSERT INTO hosts (id, name) VALUES ($1, $2)) INSERT INTO host_sessions (host_id) VALUES ($1)`, h.id, fmt.Sprintf("h%05d", i))
		if err == nil {
			err = r.openSession(b.Context(), h)
		}
		if err != nil {
			b.Error(err)
		}
	})
	if b.Failed() {
		b.FailNow()
	}
	r.hosts = append(r.hosts, added...)
}

// openSession opens the session of a host's agent and sends its first full report.
func (r *rig) openSession(ctx context.Context, h *hostSession) error {
	actor := fleet.Actor{HostID: h.id, Name: "host", KeyHash: string(auth.KeyHash(tlsStateOf(string(h.id)).PeerCertificates[0]))}
	answer, err := r.control.Hello(ctx, actor, wire.Hello{Instance: "bench", Fingerprint: "bench"})
	if err != nil {
		return err
	}
	h.session, h.seq = answer.Session, answer.SeqBase+1
	actor.Session = h.session
	_, err = r.control.Report(ctx, actor, wire.Report{Seq: h.seq, Digest: "d", State: &wire.State{Host: fleet.HostStatus{Connected: true}}})
	return err
}

// call sends a POST request as a host's agent and decodes the answer, if there is one.
func (h hostSession) call(ctx context.Context, client *http.Client, base, path string, in, out any) (int, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(hostHeader, string(h.id))
	req.Header.Set(wire.SessionHeader, h.session)
	res, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if out != nil && res.StatusCode == http.StatusOK {
		return res.StatusCode, json.NewDecoder(res.Body).Decode(out)
	}
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

// flushCommits sets whether commits wait for the disk. Preparations of a benchmark need not wait.
func flushCommits(b *testing.B, pool *pgxpool.Pool, wait bool) {
	b.Helper()
	to := map[bool]string{true: "RESET synchronous_commit", false: "SET synchronous_commit = off"}[wait]
	if _, err := pool.Exec(b.Context(), `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I `+to+`', current_database()); END $$`); err != nil {
		b.Fatal(err)
	}
	pool.Reset() // new connections use the new setting
}

func (r *rig) exec(b *testing.B, sql string, args ...any) {
	b.Helper()
	if _, err := r.pool.Exec(b.Context(), sql, args...); err != nil {
		b.Fatal(err)
	}
}

// parkedCount returns the number of agents whose claims wait for jobs. ok is false while any claim still queries the
// database.
func (r *rig) parkedCount() (n int, ok bool) {
	ask := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	ask.RemoteAddr = "127.0.0.1:1"
	answer := httptest.NewRecorder()
	r.web.Handler().ServeHTTP(answer, ask)
	_, rest, _ := strings.Cut(answer.Body.String(), "\nquantix_claims_parked ")
	_, err := fmt.Sscan(rest, &n)
	return n, err == nil && r.pool.Stat().AcquiredConns() == 0
}

// pollUntil polls until done returns true, for at most a minute.
func pollUntil(b *testing.B, what string, done func() bool) {
	b.Helper()
	for until := time.Now().Add(time.Minute); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			b.Fatalf("%s: not within a minute", what)
		}
	}
}

func newClient() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConns: 0, MaxIdleConnsPerHost: 20000, DisableCompression: true}}
}

// durations are measured times with their percentiles.
type durations []time.Duration

func (s durations) percentile(p float64) time.Duration {
	sorted := slices.Sorted(slices.Values(s))
	return sorted[min(int(float64(len(sorted))*p), len(sorted)-1)]
}

func (s durations) report(b *testing.B, name string) {
	b.ReportMetric(milliseconds(s.percentile(0.50)), name+"-p50-ms")
	b.ReportMetric(milliseconds(s.percentile(0.99)), name+"-p99-ms")
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
