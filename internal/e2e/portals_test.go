//go:build linux && ordeal

package e2e

import (
	"bytes"
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"quantix/internal/fleet"
	"quantix/internal/testkit/client"
)

const portalCount = 3

// multiPortalSite is the setup in the manual's chapter on several portals: the load balancer, three portals, and a
// PostgreSQL primary with its standby.
type multiPortalSite struct {
	*portal // the balancer, which users reach as if it were one portal
	t       *testing.T
	primary *postgresServer
	standby *postgresServer
	portals []*portal
	via     *http.Transport
}

func newSite(t *testing.T, through balancer) *multiPortalSite {
	t.Helper()
	dir := filepath.Join(root, uniqueName("site"))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := &multiPortalSite{t: t, primary: newPrimary(t, filepath.Join(dir, "pg1"))}
	s.standby = s.primary.startStandby(filepath.Join(dir, "pg2"))
	pages, agents := "127.0.0.2:"+freePort(t), "127.0.0.2:"+freePort(t)
	certificate, trust := selfSigned(t, "127.0.0.2")
	s.via = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trust}}
	t.Cleanup(s.via.CloseIdleConnections)
	s.portal = &portal{program: &program{name: filepath.Base(dir)}, t: t, url: "https://" + pages, agentURL: "https://" + agents, via: s.via}

	writeFile(t, filepath.Join(dir, "balancer.pem"), certificate)
	places := through.replacements(dir, pages, agents)
	database := "postgres://quantix@" + s.primary.address + "," + s.standby.address + "/quantix?target_session_attrs=read-write&sslmode=disable"
	for i := range portalCount {
		host := fmt.Sprintf("127.0.0.1%d", i+1)
		listen, hosts := host+":"+freePort(t), freePort(t)
		places = append(places, fmt.Sprintf("192.0.2.1%d:8080", i+1), listen, fmt.Sprintf("192.0.2.1%d:8444 port 8080", i+1), host+":"+hosts+" port "+listen[len(host)+1:],
			fmt.Sprintf("192.0.2.1%d:8444", i+1), host+":"+hosts)
		p := &portal{t: t, dir: filepath.Join(dir, fmt.Sprint("portal", i+1)), url: "http://" + listen, args: []string{
			"portal", "--listen", listen, "--public-url", s.url, "--trusted-proxies", "127.0.0.0/8",
			// The agent listener accepts connections at all addresses, so only --pair-url makes hosts connect to this
			// very portal.
			"--agent-listen", "0.0.0.0:" + hosts, "--agent-url", s.agentURL, "--pair-url", "https://" + host + ":" + hosts,
			"--database-url", database,
		}}
		p.args = append(p.args, "--data-dir", p.dir)
		if i > 0 { // the first portal has generated the key
			p.args = append(p.args, "--secrets-key", filepath.Join(s.portals[0].dir, "secrets.key"))
		}
		t.Cleanup(func() {
			p.stopPortal()
			if t.Failed() {
				showLogs(t, p.log)
			}
		})
		printed := p.start(filepath.Base(dir) + fmt.Sprint("-portal", i+1))
		if i == 0 {
			eventually(t, stepLimit, "a one-time password", func() (bool, string) {
				_, text, ok := strings.Cut(printed.String(), "one-time password ")
				if ok = ok && strings.Contains(text, "\n"); ok {
					s.password = strings.Fields(text)[0]
				}
				return ok, printed.String()
			})
		}
		s.portals = append(s.portals, p)
	}
	through.run(s, filepath.Join(dir, through.name+".conf"), strings.NewReplacer(places...))
	return s
}

// waitResponse sends requests to the balancer until the response has the status and contains the text. It is signed in
// as administrator if possible.
func (s *multiPortalSite) waitResponse(what, path string, status int, text string) {
	s.t.Helper()
	ask := cmp.Or(s.browser, &http.Client{Transport: s.via, Timeout: httpClient.Timeout})
	eventually(s.t, endLimit, what, func() (bool, string) {
		res, err := ask.Get(s.url + path)
		if err != nil {
			return false, err.Error()
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		return err == nil && res.StatusCode == status && strings.Contains(string(body), text), fmt.Sprintf("%s %.300s", res.Status, body)
	})
}

// checkConsoles opens n consoles through the balancer, and expects a VNC greeting from each of them.
func (s *multiPortalSite) checkConsoles(n int, vm fleet.VMID) {
	s.t.Helper()
	people, err := client.New(s.url, s.token, &http.Client{Transport: s.via, Timeout: stepLimit})
	if err != nil {
		s.t.Fatal(err)
	}
	for i := range n {
		ws, err := people.Console(s.t.Context(), vm)
		if err != nil {
			s.t.Fatalf("console %d: %v", i, err)
		}
		_ = ws.SetReadDeadline(time.Now().Add(stepLimit))
		kind, text, err := ws.ReadMessage()
		if err != nil || kind != websocket.BinaryMessage || !bytes.HasPrefix(text, []byte("RFB ")) {
			s.t.Errorf("console %d sent %q, %v", i, text, err)
		}
		ws.Close()
	}
}

// requestLog records the results of a continuous stream of requests.
type requestLog struct {
	mu       sync.Mutex
	done     map[string]bool // names of created projects
	failures []string        // unexpected responses
	noErrors bool            // whether a 5xx status and a broken connection count as failures
}

func (o *requestLog) expectNoErrors(on bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.noErrors = on
}

// recordResponse adds a response and reports whether the request is complete.
func (o *requestLog) recordResponse(name string, got apiResponse, err error) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if got.status == http.StatusCreated {
		o.done[name] = true
		return true
	}
	if o.noErrors || err == nil && got.status < 500 {
		o.failures = append(o.failures, fmt.Sprintf("%s: %d %s %v", name, got.status, got.body, err))
	}
	return err == nil && got.status < 500
}

func (o *requestLog) createdCount() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.done)
}

// sendRequests creates projects and lists VMs in a loop until stop is called.
func (s *multiPortalSite) sendRequests() (o *requestLog, stop func()) {
	o = &requestLog{done: map[string]bool{}, noErrors: true}
	a, end := s.api(), make(chan struct{})
	var all sync.WaitGroup
	for who := range 3 {
		all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-end:
					return
				default:
				}
				name := fmt.Sprintf("order-%d-%d", who, i)
				for ended := false; !ended; {
					got, err := a.withIdempotencyKey(name).send(s.t.Context(), http.MethodPost, "/api/v1/projects", map[string]any{"name": name})
					if ended = o.recordResponse(name, got, err); !ended {
						<-time.After(pollEvery)
					}
					select {
					case <-end:
						return
					default:
					}
				}
				if got, err := a.send(s.t.Context(), http.MethodGet, "/api/v1/vms", nil); err != nil || got.status != http.StatusOK {
					o.recordResponse("a list", got, err)
				}
			}
		})
	}
	return o, sync.OnceFunc(func() { close(end); all.Wait() })
}

// waitMore waits until ten more projects have been created.
func (o *requestLog) waitMore(t *testing.T) {
	t.Helper()
	from := o.createdCount()
	eventually(t, endLimit, "more created projects", func() (bool, string) { return o.createdCount() >= from+10, strconv.Itoa(o.createdCount() - from) })
}

// TestPortalsSurviveRestartAndFailoverBehindHAProxy checks the manual's chapter on several portals: consoles, a rolling
// restart, and failovers of a database that first hangs and then dies.
func TestPortalsSurviveRestartAndFailoverBehindHAProxy(t *testing.T) {
	t.Parallel()
	s := newSite(t, haproxy)
	s.startMockAgent("mock-1")
	a := s.api()
	vm := createRunningVM(t, a)
	s.checkConsoles(20, vm.ID)
	if n := s.primary.sql("quantix", "SELECT count(DISTINCT args->>'portalUrl') FROM jobs WHERE kind = 'console.open'"); n != strconv.Itoa(portalCount) {
		t.Errorf("consoles went to %s portals, not all %d", n, portalCount)
	}

	o, stop := s.sendRequests()
	defer stop()
	o.waitMore(t)
	for _, p := range s.portals { // a rolling restart, as in an upgrade
		if err := p.signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		o.waitMore(t)
		p.start(p.name)
		o.waitMore(t)
	}
	s.waitResponse("all portals behind the balancer", "/readyz", http.StatusOK, "")

	o.expectNoErrors(false)
	s.primary.signal(syscall.SIGSTOP)
	s.waitResponse("the portals' own error page while no portal is ready", "/vms", http.StatusServiceUnavailable, "The database does not answer.")
	s.standby.sql("postgres", "SELECT pg_promote()")
	s.waitResponse("readiness over the promoted standby", "/readyz", http.StatusOK, "")
	o.waitMore(t)
	s.primary.signal(syscall.SIGKILL)
	o.waitMore(t)
	stop()

	for _, bad := range o.failures {
		t.Error(bad)
	}
	for name := range o.done {
		if n := s.standby.sql("quantix", "SELECT count(*) FROM audit WHERE action = 'project.create' AND name = '"+name+"'"); n != "1" {
			t.Errorf("%s was created %s times", name, n)
		}
	}
	requestJSON[fleet.Task](t, a.withIdempotencyKey("stop"), http.StatusAccepted, http.MethodPost, "/api/v1/vms/"+string(vm.ID)+"/actions", map[string]any{"action": "stop"})
	a.waitPhase(t, stepLimit, vm.ID, fleet.PhaseStopped)
	requestJSON[fleet.Task](t, a.withIdempotencyKey("start"), http.StatusAccepted, http.MethodPost, "/api/v1/vms/"+string(vm.ID)+"/actions", map[string]any{"action": "start"})
	a.waitPhase(t, stepLimit, vm.ID, fleet.PhaseRunning)
	s.checkConsoles(6, vm.ID)
}

func freePort(t testing.TB) string {
	t.Helper()
	_, port, err := net.SplitHostPort(freeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// selfSigned returns a certificate and its key in one PEM text, and a pool that trusts the certificate.
func selfSigned(t *testing.T, address string) (file string, trust *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "balancer"}, IPAddresses: []net.IP{net.ParseIP(address)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	trust = x509.NewCertPool()
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	trust.AddCert(cert)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})) + string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})), trust
}
