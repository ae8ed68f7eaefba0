package web_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"quantix/internal/fleet"
	"quantix/internal/testkit"
	"quantix/internal/wire"
)

// agentProxy is a TCP proxy to a portal's agent listener. It counts connections (accepted: all so far, open: current)
// and can cut or redirect them.
type agentProxy struct {
	url           string
	target        atomic.Value // string
	acceptedCount atomic.Int32
	openCount     atomic.Int32
	mu            sync.Mutex
	conns         map[net.Conn]bool
}

func newAgentProxy(t *testing.T, agentURL string) *agentProxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	g := &agentProxy{url: "https://" + l.Addr().String(), conns: map[net.Conn]bool{}}
	g.redirectTo(agentURL)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			g.acceptedCount.Add(1)
			go g.forward(c)
		}
	}()
	return g
}

func (g *agentProxy) redirectTo(agentURL string) {
	g.target.Store(strings.TrimPrefix(agentURL, "https://"))
}

func (g *agentProxy) forward(c net.Conn) {
	on, err := net.Dial("tcp", g.target.Load().(string))
	if err != nil {
		c.Close()
		return
	}
	g.openCount.Add(1)
	defer g.openCount.Add(-1)
	g.mu.Lock()
	g.conns[c], g.conns[on] = true, true
	g.mu.Unlock()
	var both sync.WaitGroup
	pour := func(to, from net.Conn) { io.Copy(to, from); to.Close(); from.Close() }
	both.Go(func() { pour(c, on) })
	both.Go(func() { pour(on, c) })
	both.Wait()
}

// closeConnections closes all connections, as a network failure does.
func (g *agentProxy) closeConnections() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.conns {
		c.Close()
	}
}

func (p *portal) awaitParkedClaims(want int) {
	p.t.Helper()
	waitUntil(p.t, fmt.Sprintf("%d parked claims", want), func() bool {
		return strings.Contains(p.newBrowser().get("/metrics").body, fmt.Sprintf("quantix_claims_parked %d\n", want))
	})
}

func waitUntil(t testing.TB, what string, so func() bool) {
	t.Helper()
	for until := time.Now().Add(20 * time.Second); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// claimInBackground requests jobs in the background and returns a channel that receives the host's next job.
func (m *simulatedAgent) claimInBackground(t *testing.T) <-chan wire.Work {
	work := make(chan wire.Work, 1)
	go func() {
		for t.Context().Err() == nil {
			claim, err := m.Claim(t.Context(), wire.ClaimRequest{Max: 1})
			if err != nil {
				t.Errorf("claim: %v", err)
				return
			}
			if len(claim.Jobs) > 0 {
				work <- claim.Jobs[0]
				return
			}
		}
	}()
	return work
}

func (m *simulatedAgent) finishJobAsDone(t *testing.T, w wire.Work) {
	t.Helper()
	m.seq++
	if _, err := m.Finish(t.Context(), w.ID, wire.Finish{Epoch: w.Epoch, Generation: w.Generation, Seq: m.seq, Outcome: wire.Done}); err != nil {
		t.Error(err)
	}
}

// awaitSingleConnection waits until only one connection is open, and resets the count of accepted connections to 1.
func (g *agentProxy) awaitSingleConnection(t *testing.T, m *simulatedAgent) {
	t.Helper()
	waitUntil(t, "the connection that the join used is closed", func() bool { return g.openCount.Load() == 1 })
	g.acceptedCount.Store(1)
}

func TestAgentUsesOneConnection(t *testing.T) {
	t.Parallel()
	s := &consoleHost{}
	var agentURL string
	s.portal, agentURL = newPortalWithAgents(t)
	g := newAgentProxy(t, agentURL)
	s.host = s.joinHost(g.url, "h1")
	s.vm = s.addVM(s.addProject("shop"), s.host.id, "web", fleet.Running)
	running := wire.VMReport{ID: s.vm, Name: "web", Generation: 1, Status: fleet.VMStatus{Power: fleet.Running, CPUs: 2, MemoryMiB: 4096}}
	s.host.sendReport(t, running)
	g.awaitSingleConnection(t, s.host)
	ann := s.newSignedInBrowser("ann", fleet.RoleAdmin)

	for range 3 {
		work := s.host.claimInBackground(t)
		s.awaitParkedClaims(1)
		s.host.sendReport(t, running) // sent while the request for jobs waits, so the portal must end that request first
		s.awaitParkedClaims(1)        // the agent has requested jobs again
		k := s.requestTicket(ann)
		var browser *websocket.Conn
		var opened sync.WaitGroup
		opened.Go(func() { browser, _ = s.openConsole(ann, k) })
		w := <-work
		if w.Kind != fleet.ConsoleOpen {
			t.Fatalf("claimed %+v", w)
		}
		next := s.host.claimInBackground(t)
		if _, err := s.host.Progress(t.Context(), w.ID, wire.Progress{Epoch: w.Epoch, Percent: 50}); err != nil {
			t.Error(err)
		}
		ws, err := s.host.DialRelay(t.Context(), w.Args.PortalURL, w.Args.Console) // a direct connection, which the proxy does not count
		if err != nil {
			t.Fatal(err)
		}
		defer ws.Close()
		s.host.finishJobAsDone(t, w)
		opened.Wait()
		go ws.WriteMessage(websocket.BinaryMessage, make([]byte, 1<<19))
		if got, err := receiveBytes(browser, 1<<19); err != nil {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		testkit.TaskWithJob{Host: s.host.id, Kind: fleet.PoolApply, Subject: "pool:x"}.Add(t, s.pool)
		s.host.finishJobAsDone(t, <-next)
		s.execSQL(`DELETE FROM jobs`)
		s.execSQL(`DELETE FROM console_tickets`)
	}
	// More than 20 calls share one connection. The limit of 3 allows for a slow machine, where the client dials another
	// connection after 250 ms without a response.
	if n := g.acceptedCount.Load(); n > 3 {
		t.Errorf("%d connections", n)
	}
}

func TestWaitingJobRequestSurvivesPortalRestart(t *testing.T) {
	t.Parallel()
	p, agentURL := newPortalWithAgents(t)
	_, otherURL := newPortalWithAgentsOn(t, p.pool)
	g := newAgentProxy(t, agentURL)
	m := p.joinHost(g.url, "h1")
	m.sendReport(t)
	ended := make(chan error)
	claim := func() {
		_, err := m.Claim(t.Context(), wire.ClaimRequest{Max: 1})
		ended <- err
	}
	go claim()
	p.awaitParkedClaims(1)
	g.redirectTo(otherURL)
	g.closeConnections()
	if err := <-ended; err == nil {
		t.Error("a claim succeeded although its portal has stopped")
	}
	p.awaitParkedClaims(0)
	work := m.claimInBackground(t)
	m.sendReport(t)
	testkit.TaskWithJob{Host: m.id, Kind: fleet.PoolApply, Subject: "pool:x"}.Add(t, p.pool)
	m.finishJobAsDone(t, <-work)
}

func TestStoppingPortalAnswersWaitingJobRequests(t *testing.T) {
	t.Parallel()
	p, agentURL := newPortalWithAgents(t)
	m := p.joinHost(agentURL, "h1")
	m.sendReport(t)
	ended := make(chan error)
	go func() {
		_, err := m.Claim(t.Context(), wire.ClaimRequest{Max: 1})
		ended <- err
	}()
	p.awaitParkedClaims(1)
	limit, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := p.agents.Shutdown(limit); err != nil {
		t.Error(err)
	}
	if err := <-ended; wire.StatusOf(err) != http.StatusServiceUnavailable {
		t.Errorf("the parked claim: %v", err)
	}
}

func TestNewCertificateUsedWhileJobRequestWaits(t *testing.T) {
	t.Parallel()
	p, agentURL := newPortalWithAgents(t)
	g := newAgentProxy(t, agentURL)
	m := p.joinHost(g.url, "h1")
	m.sendReport(t)
	g.awaitSingleConnection(t, m)
	work := m.claimInBackground(t)
	p.awaitParkedClaims(1)
	next, err := m.Renew(t.Context(), wire.RenewRequest{CSR: newCSR(t, m.credentials.Certificate.PrivateKey.(*ecdsa.PrivateKey))})
	if err != nil {
		t.Fatal(err)
	}
	p.awaitParkedClaims(1)
	m.credentials = agentCredentials(t, m.credentials.Certificate.PrivateKey.(*ecdsa.PrivateKey), next)
	m.ReloadCredentials()
	m.sendReport(t)
	if n := g.openCount.Load(); n != 2 {
		t.Errorf("%d connections, including that of the claim", n)
	}
	testkit.TaskWithJob{Host: m.id, Kind: fleet.PoolApply, Subject: "pool:x"}.Add(t, p.pool)
	m.finishJobAsDone(t, <-work)
	waitUntil(t, "the old certificate's connection is closed", func() bool { return g.openCount.Load() == 1 })
}

// Older agents use two connections: one to request jobs, and one for all other calls.
func TestAgentWithTwoConnectionsServed(t *testing.T) {
	t.Parallel()
	p, agentURL := newPortalWithAgents(t)
	m := p.joinHost(agentURL, "h1")
	m.sendReport(t)
	session, err := m.Hello(t.Context(), wire.Hello{Instance: "h1", Fingerprint: "h1"})
	if err != nil {
		t.Fatal(err)
	}
	conf := &tls.Config{RootCAs: m.credentials.CA, Certificates: []tls.Certificate{m.credentials.Certificate}}
	reused := map[string]bool{}
	post := func(c *http.Client, path, body string) (int, string) {
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused[path] = i.Reused }})
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, agentURL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(wire.SessionHeader, session.Session)
		got, err := c.Do(r)
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		defer got.Body.Close()
		text, _ := io.ReadAll(got.Body)
		return got.StatusCode, string(text)
	}
	claims, calls := &http.Client{Transport: &http.Transport{TLSClientConfig: conf}}, &http.Client{Transport: &http.Transport{TLSClientConfig: conf}}
	for i := range 3 {
		var claimed sync.WaitGroup
		claimed.Go(func() {
			if status, text := post(claims, wire.PathClaim, `{"max":1}`); status != http.StatusOK || !strings.Contains(text, `"pool.apply"`) {
				t.Errorf("claim: %d %s", status, text)
			}
		})
		p.awaitParkedClaims(1)
		report := fmt.Sprintf(`{"seq":%d,"digest":"x","state":{"host":{"connected":true}}}`, session.SeqBase+1+int64(i))
		if status, text := post(calls, wire.PathReport, report); status != http.StatusOK {
			t.Errorf("report: %d %s", status, text)
		}
		p.awaitParkedClaims(1)
		testkit.TaskWithJob{Host: m.id, Kind: fleet.PoolApply, Subject: "pool:x"}.Add(t, p.pool)
		claimed.Wait()
		p.execSQL(`DELETE FROM jobs`)
	}
	if !reused[wire.PathClaim] || !reused[wire.PathReport] {
		t.Errorf("connections reused: %v", reused)
	}
}

func TestStuckReportDoesNotDelayConsole(t *testing.T) {
	t.Parallel()
	p, agentURL := newPortalWithAgents(t)
	g := newAgentProxy(t, agentURL)
	m := p.joinHost(g.url, "h1")
	m.sendReport(t)
	g.awaitSingleConnection(t, m)
	work := m.claimInBackground(t)
	p.awaitParkedClaims(1)
	tx, err := p.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	if _, err := tx.Exec(t.Context(), `SELECT FROM hosts WHERE id = $1 FOR NO KEY UPDATE`, m.id); err != nil {
		t.Fatal(err)
	}
	reported := make(chan error, 1)
	go func() {
		_, err := m.Report(t.Context(), wire.Report{Seq: m.seq + 1, Digest: "new", State: &wire.State{Host: fleet.HostStatus{Connected: true, Error: "new"}}})
		reported <- err
	}()
	waitUntil(t, "the report is stuck, and the claim elsewhere", func() bool { return g.acceptedCount.Load() == 2 })
	testkit.TaskWithJob{Host: m.id, Kind: fleet.ConsoleOpen, Subject: "vm:x"}.Add(t, p.pool)
	select {
	case <-work:
	case err := <-reported:
		t.Errorf("the report ended before the console opened: %v", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-reported; err != nil {
		t.Error(err)
	}
	waitUntil(t, "there is one connection again", func() bool { return g.openCount.Load() == 1 })
}

// The next request may arrive in the same TLS record as a request for jobs, before the portal lets that request wait.
func TestPipelinedRequestsAnsweredInOrder(t *testing.T) {
	t.Parallel()
	p, agentURL := newPortalWithAgents(t)
	m := p.joinHost(agentURL, "h1")
	session, err := m.Hello(t.Context(), wire.Hello{Instance: "h1", Fingerprint: "h1"})
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(agentURL)
	if err != nil {
		t.Fatal(err)
	}
	c, err := tls.Dial("tcp", at.Host, &tls.Config{RootCAs: m.credentials.CA, Certificates: []tls.Certificate{m.credentials.Certificate}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	request := func(path, body, more string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: portal\r\nContent-Length: %d\r\n%s: %s\r\n%s\r\n%s", path, len(body), wire.SessionHeader, session.Session, more, body)
	}
	claim := request(wire.PathClaim, `{"max":1}`, "")
	report := func(seq int64) string {
		return request(wire.PathReport, fmt.Sprintf(`{"seq":%d,"digest":"x","state":{"host":{"connected":true}}}`, session.SeqBase+seq), "")
	}
	last := request(wire.PathReport, `{`, "Connection: close\r\n")
	go io.WriteString(c, claim+claim+report(1)+claim+report(2)+last)
	c.SetReadDeadline(time.Now().Add(20 * time.Second))
	all, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(all)) {
		if strings.HasPrefix(line, "HTTP/1.1 ") {
			got = append(got, strings.Fields(line)[1])
		}
	}
	if want := "204 204 200 204 200 400"; strings.Join(got, " ") != want {
		t.Errorf("answered %v, not %s:\n%s", got, want, all)
	}
	p.awaitParkedClaims(0)
}
