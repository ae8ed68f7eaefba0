package web_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"quantix/internal/agentconn"
	"quantix/internal/auth"
	"quantix/internal/control"
	"quantix/internal/control/storage"
	"quantix/internal/fleet"
	"quantix/internal/notify"
	"quantix/internal/testkit"
	"quantix/internal/wire"
	"quantix/web"
)

// newPortalWithAgents returns a portal with both listeners. Agents dial agentURL over mutual TLS. A new job is sent at
// once to the agent that waits for jobs.
func newPortalWithAgents(t testing.TB) (p *portal, agentURL string) {
	t.Helper()
	return newPortalWithAgentsOn(t, testkit.DB(t))
}

// newPortalWithAgentsOn is newPortalWithAgents on the database of pool, so that two portals can share one database.
// Hosts dial the portal's console relays at agentURL.
func newPortalWithAgentsOn(t testing.TB, pool *pgxpool.Pool) (p *portal, agentURL string) {
	t.Helper()
	p = &portal{t: t, pool: pool, hub: notify.NewHub(), log: &syncBuffer{}, releases: t.TempDir()}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	listened := make(chan struct{})
	go func() {
		defer close(listened)
		p.hub.Listen(ctx, pool.Config().ConnConfig, slog.New(slog.DiscardHandler))
	}()
	t.Cleanup(func() { cancel(); <-listened })

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	agentURL = "https://" + listener.Addr().String()
	p.control = control.New(pool, control.Options{Hub: p.hub, AgentReleases: p.releases, AgentURL: agentURL, PairURL: agentURL, Vault: vaultOfPool(pool)})
	p.server = web.New(web.Options{
		Control: p.control, Hub: p.hub, Sessions: auth.NewSessionManager(pool, false),
		Log: slog.New(slog.NewTextHandler(p.log, &slog.HandlerOptions{Level: slog.LevelDebug})), Ready: func(ctx context.Context) error { return p.control.Ready(ctx, fleet.SystemActor) },
	})
	pages := httptest.NewServer(p.server.Handler())
	p.url = pages.URL

	authority, err := p.control.Authority(t.Context(), fleet.SystemActor)
	if err != nil {
		t.Fatal(err)
	}
	conf, err := authority.ServerTLS([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	lines := agentconn.Listen(listener, conf)
	agents := &http.Server{
		ConnContext: lines.ConnContext,
		Handler:     p.server.AgentHandler(), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	p.agents = agents
	go agents.Serve(lines)
	t.Cleanup(func() {
		cancel() // ends the agents' waiting requests for jobs, and open consoles
		agents.Close()
		pages.CloseClientConnections()
		pages.Close()
	})
	return p, agentURL
}

// simulatedAgent is an agent without a hypervisor, which uses the real protocol.
type simulatedAgent struct {
	secretPool fleet.PoolID // a pool with a secret, assigned to this host

	guestSecretJob fleet.JobID // a job of this host with a secret for a guest
	*wire.Client
	id          fleet.HostID
	credentials wire.Credentials
	seq         int64
}

// joinHost creates a join token, joins a host with it and sends hello.
func (p *portal) joinHost(agentURL, name string) *simulatedAgent {
	p.t.Helper()
	admin := fleet.Actor{UserID: "root", Name: "root", Role: fleet.RoleAdmin}
	token, err := p.control.CreateJoinToken(p.t.Context(), admin, "")
	if err != nil {
		p.t.Fatal(err)
	}
	key, csr := newKeyAndCSR(p.t)
	answer, err := wire.Join(p.t.Context(), agentURL, token.Secret, wire.JoinRequest{Name: name, CSR: csr})
	if err != nil {
		p.t.Fatal(err)
	}
	m := &simulatedAgent{id: answer.HostID, credentials: agentCredentials(p.t, key, answer.Certificate)}
	if m.Client, err = wire.NewClient(agentURL, func() wire.Credentials { return m.credentials }); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(m.Close)
	hello, err := m.Hello(p.t.Context(), wire.Hello{Instance: name, Fingerprint: name, Version: "1"})
	if err != nil {
		p.t.Fatal(err)
	}
	m.seq = hello.SeqBase
	return m
}

// sendReport sends the report of a healthy host with the given VMs.
func (m *simulatedAgent) sendReport(t testing.TB, vms ...wire.VMReport) {
	t.Helper()
	m.seq++
	_, err := m.Report(t.Context(), wire.Report{
		Seq: m.seq, Digest: strconv.FormatInt(m.seq, 10), State: &wire.State{VMs: vms, Host: fleet.HostStatus{
			Connected: true, Inventory: fleet.Inventory{
				MemoryBytes: 64 << 30, CPU: fleet.CPU{Threads: 16}, Firmwares: []fleet.Firmware{fleet.BIOS}, Accelerators: []string{"kvm"},
			},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// claimJob requests jobs until the portal returns one.
func (m *simulatedAgent) claimJob(t testing.TB) wire.Work {
	t.Helper()
	for {
		claim, err := m.Claim(t.Context(), wire.ClaimRequest{Max: 1})
		if err != nil {
			t.Fatal(err)
		}
		if len(claim.Jobs) == 1 {
			return claim.Jobs[0]
		}
	}
}

func newKeyAndCSR(t testing.TB) (*ecdsa.PrivateKey, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key, newCSR(t, key)
}

func newCSR(t testing.TB, key *ecdsa.PrivateKey) string {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

func agentCredentials(t testing.TB, key *ecdsa.PrivateKey, c wire.Certificate) wire.Credentials {
	t.Helper()
	block, _ := pem.Decode([]byte(c.Cert))
	trust := x509.NewCertPool()
	if block == nil || !trust.AppendCertsFromPEM([]byte(c.CA)) {
		t.Fatal("the certificate is not PEM")
	}
	return wire.Credentials{Certificate: tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key}, CA: trust}
}

// The result of a job on a pool with thousands of volumes is long. If the portal refused it, the agent would retry
// forever.
func TestLongJobResultAccepted(t *testing.T) {
	t.Parallel()
	p, agentURL := newPortalWithAgents(t)
	m := p.joinHost(agentURL, "h1")
	m.sendReport(t)
	pool, err := p.control.CreatePool(t.Context(), fleet.SystemActor, storage.CreatePool{
		Name: "big", Spec: fleet.PoolSpec{Kind: fleet.PoolDir, Path: "/srv/big"}, HostIDs: []fleet.HostID{m.id},
	})
	if err != nil {
		t.Fatal(err)
	}
	metrics := func() answer { return p.newBrowser().get("/metrics") }
	metrics().contains(t, `quantix_jobs{state="queued"} 1`, `quantix_jobs{state="running"} 0`)
	w := m.claimJob(t)
	metrics().contains(t, `quantix_jobs{state="queued"} 0`, `quantix_jobs{state="running"} 1`)
	st := fleet.PoolStatus{State: fleet.PoolActive, Volumes: make([]fleet.Volume, 2000)}
	for i := range st.Volumes {
		name := strings.Repeat("v", 200) + strconv.Itoa(i)
		st.Volumes[i] = fleet.Volume{Name: name, Path: "/srv/big/" + name, Format: "raw"}
	}
	m.seq++
	if _, err := m.Finish(t.Context(), w.ID, wire.Finish{Epoch: w.Epoch, Generation: w.Generation, Seq: m.seq, Outcome: wire.Done, Pool: &st}); err != nil {
		t.Fatal(err)
	}
	metrics().contains(t, `quantix_jobs{state="running"} 0`, `quantix_job_seconds_count{kind="pool.apply",outcome="done"} 1`)
	if v, err := p.control.GetPool(t.Context(), fleet.SystemActor, pool.ID); err != nil || v.Hosts[0].State != fleet.PoolActive {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestAgentJoinsReportsAndFinishesJobs(t *testing.T) {
	t.Parallel()
	p, agentURL := newPortalWithAgents(t)
	m := p.joinHost(agentURL, "h1")
	m.sendReport(t)
	admin := p.newAPIClient("ann", fleet.RoleAdmin, nil)
	project := p.addProject("shop")
	work := make(chan wire.Work, 1)
	go func() { work <- m.claimJob(t) }()
	admin.call("POST", "/api/v1/vms", vmBody(project, "web")).requireStatus(t, http.StatusCreated)
	w := <-work
	if w.Kind != fleet.VMApply || w.VM == nil || w.VM.Name != "web" || w.VM.HostID != m.id {
		t.Fatalf("claimed %+v", w)
	}
	if _, err := m.Progress(t.Context(), w.ID, wire.Progress{Epoch: w.Epoch, Percent: 40, Note: "defining"}); err != nil {
		t.Error(err)
	}
	if task, err := admin.Task(t.Context(), fleet.TaskID(w.ID)); err != nil || task.Progress != 40 || task.State != fleet.JobRunning {
		t.Errorf("%+v, %v", task, err)
	}
	m.seq++
	done := wire.Finish{Epoch: w.Epoch, Generation: w.Generation, Seq: m.seq, Outcome: wire.Done, VM: &fleet.VMStatus{Power: fleet.Stopped}}
	if _, err := m.Finish(t.Context(), w.ID, done); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Finish(t.Context(), w.ID, done); wire.StatusOf(err) != http.StatusConflict {
		t.Errorf("the same result sent twice: %v", err)
	}
	if vm, err := admin.VM(t.Context(), w.VM.ID); err != nil || vm.Phase != fleet.PhaseStopped || vm.ObservedGeneration != 1 {
		t.Errorf("%+v, %v", vm, err)
	}
	_, other := newKeyAndCSR(t)
	if _, err := m.Renew(t.Context(), wire.RenewRequest{CSR: other}); wire.StatusOf(err) != http.StatusUnprocessableEntity {
		t.Errorf("a renewal for another key: %v", err)
	}
	key := m.credentials.Certificate.PrivateKey.(*ecdsa.PrivateKey)
	next, err := m.Renew(t.Context(), wire.RenewRequest{CSR: newCSR(t, key)})
	if err != nil {
		t.Fatal(err)
	}
	m.credentials = agentCredentials(t, key, next)
	m.ReloadCredentials()
	m.sendReport(t)
}

func TestAgentCallsWithoutValidCertificateRefused(t *testing.T) {
	t.Parallel()
	p, agentURL := newPortalWithAgents(t)
	m := p.joinHost(agentURL, "h1")
	noCertificate := &tls.Config{RootCAs: m.credentials.CA}
	via := func(conf *tls.Config) *http.Client {
		transport := &http.Transport{TLSClientConfig: conf}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport, Timeout: 10 * time.Second}
	}
	post := func(c *http.Client, path, body string) answer {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, agentURL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer got.Body.Close()
		var text bytes.Buffer
		text.ReadFrom(got.Body)
		return answer{got.StatusCode, got.Header, text.String()}
	}
	for _, path := range []string{wire.PathHello, wire.PathReport, wire.PathClaim, wire.PathRenew, wire.PathJobs + "x/finish", wire.PathJobs + "x/progress"} {
		post(via(noCertificate), path, "{}").requireProblem(t, http.StatusUnauthorized, "")
	}
	post(via(noCertificate), wire.PathJoin, `{"name":"h9"}`).requireProblem(t, http.StatusUnauthorized, "")

	other, err := auth.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	key, csr := newKeyAndCSR(t)
	forged, err := other.IssueHost(m.id, csr)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode([]byte(forged))
	conf := noCertificate.Clone()
	conf.Certificates = []tls.Certificate{{Certificate: [][]byte{block.Bytes}, PrivateKey: key}}
	conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &conf.Certificates[0], nil }
	if _, err := via(conf).Post(agentURL+wire.PathHello, "application/json", strings.NewReader("{}")); err == nil {
		t.Error("the portal accepts the certificate of another CA")
	}

	known := noCertificate.Clone()
	known.Certificates = []tls.Certificate{m.credentials.Certificate}
	host := via(known)
	post(host, wire.PathReport, `{"seq":1,"digest":"x"}`).requireProblem(t, http.StatusConflict, "") // without the agent's session
	post(host, wire.PathClaim, `{`).requireProblem(t, http.StatusBadRequest, "")
	post(host, wire.PathClaim, strings.Repeat(" ", 300<<10)).requireProblem(t, http.StatusRequestEntityTooLarge, "")
	post(host, wire.PathReport, strings.Repeat(" ", 9<<20)).requireProblem(t, http.StatusRequestEntityTooLarge, "")
	post(host, "/agent/v1/nothing", `{}`).requireProblem(t, http.StatusNotFound, "")

	if err := p.control.DeleteHost(t.Context(), fleet.Actor{UserID: "root", Role: fleet.RoleAdmin}, m.id); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Hello(t.Context(), wire.Hello{Instance: "h1"}); wire.StatusOf(err) != http.StatusUnauthorized {
		t.Errorf("hello of a removed host: %v", err)
	}
	if _, err := m.Claim(t.Context(), wire.ClaimRequest{Max: 1}); wire.StatusOf(err) != http.StatusConflict {
		t.Errorf("claim of a removed host: %v", err)
	}
}

func TestJobRequestEndsWhenAgentDisconnects(t *testing.T) {
	t.Parallel()
	p, agentURL := newPortalWithAgents(t)
	m := p.joinHost(agentURL, "h1")
	parked := func(want string) {
		t.Helper()
		for until := time.Now().Add(10 * time.Second); ; {
			if strings.Contains(p.newBrowser().get("/metrics").body, "quantix_claims_parked "+want+"\n") {
				return
			}
			if time.Now().After(until) {
				t.Fatalf("the number of parked claims did not become %s", want)
			}
		}
	}
	ctx, hangUp := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := m.Claim(ctx, wire.ClaimRequest{Max: 1})
		ended <- err
	}()
	parked("1")
	hangUp()
	if err := <-ended; err == nil {
		t.Error("a cancelled claim succeeded")
	}
	parked("0")
}
