package web_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// agentsVar makes the test binary the agents instead, so that the portal's memory is measured without theirs.
const agentsVar = "QUANTIX_BENCH_AGENTS"

// hostHeader names the host in plain HTTP, where no certificate does.
const hostHeader = "Bench-Host"

// identities is what the agents' process is given.
type identities struct {
	Address, CA, Key, Session string
	Hosts, Certs              []string
}

// BenchmarkParkedAgents is what the portal holds for an agent that waits for work, of 10,000: heap and stacks. The limit
// of 24 KiB is for plain HTTP, as the prototype was measured (bare echo: 16.6); what TLS adds to each connection stands beside it.
func BenchmarkParkedAgents(b *testing.B) {
	const agents = 10_000
	for _, kind := range []string{"plain", "tls"} {
		b.Run(kind, func(b *testing.B) {
			p, agentURL := newWhole(b)
			given := p.identities(p.joined(agentURL, "h0"), agents)
			given.Address = strings.TrimPrefix(agentURL, "https://")
			if kind == "plain" {
				given.CA, given.Address = "", p.plainAgents(given)
			}
			for range b.N {
				parked, connected := p.park(b, given)
				b.ReportMetric(float64(parked)/agents/1024, "KiB/parked")
				b.ReportMetric(float64(connected)/agents/1024, "KiB/connected")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// park starts the agents' process and returns what its connections cost before and after they claim.
func (p *portal) park(b *testing.B, given identities) (parked, connected uint64) {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), agentsVar+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	before := held()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	if err := json.NewEncoder(in).Encode(given); err != nil {
		b.Fatal(err)
	}
	bufio.NewScanner(out).Scan() // all have connected
	connected = held() - before
	fmt.Fprintln(in)
	want := fmt.Sprintf("quantix_claims_parked %d\n", len(given.Hosts))
	for until := time.Now().Add(20 * time.Second); !strings.Contains(p.browser().get("/metrics").body, want) || p.pool.Stat().AcquiredConns() > 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(until) {
			b.Fatal("not all agents are parked")
		}
	}
	return held() - before, connected
}

// held is what the process holds for its work. Stacks shrink by half in each collection.
func held() uint64 {
	for range 4 {
		runtime.GC()
	}
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc + s.StackInuse
}

// plainAgents serves the agents' routes without TLS, to hosts that name themselves.
func (p *portal) plainAgents(given identities) string {
	known := map[string]*tls.ConnectionState{}
	for i, pemText := range given.Certs {
		block, _ := pem.Decode([]byte(pemText))
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			p.t.Fatal(err)
		}
		known[given.Hosts[i]] = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}
	}
	inner := p.server.AgentHandler()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.TLS = known[r.Header.Get(hostHeader)]
		inner.ServeHTTP(w, r)
	}))
	p.t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.Listener.Addr().String()
}

// identities makes n hosts that all have m's session and one key.
func (p *portal) identities(m *machine, n int) identities {
	p.t.Helper()
	authority, err := p.control.Authority(p.t.Context(), fleet.SystemActor)
	if err != nil {
		p.t.Fatal(err)
	}
	hello, err := m.Hello(p.t.Context(), wire.Hello{Instance: "h0", Fingerprint: "h0"})
	if err != nil {
		p.t.Fatal(err)
	}
	private, csr := request(p.t)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		p.t.Fatal(err)
	}
	given := identities{
		CA: authority.CertPEM(), Session: hello.Session,
		Key: string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	}
	for i := range n {
		id := fmt.Sprintf("00000000-0000-7000-8000-%012d", i)
		cert, err := authority.IssueHost(fleet.HostID(id), csr)
		if err != nil {
			p.t.Fatal(err)
		}
		given.Hosts, given.Certs = append(given.Hosts, id), append(given.Certs, cert)
	}
	p.exec(`INSERT INTO hosts (id, name) SELECT id, id FROM unnest($1::text[]) id`, given.Hosts)
	p.exec(`INSERT INTO host_sessions (host_id, session) SELECT id, s.session FROM unnest($1::text[]) id, host_sessions s WHERE s.host_id = $2`, given.Hosts, m.id)
	return given
}

// beAgents connects one agent a host, says so, and on the next line of input lets each claim. The end of input ends it.
func beAgents() {
	in := bufio.NewReader(os.Stdin)
	var given identities
	line, err := in.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &given)
	}
	if err != nil {
		panic(err)
	}
	conns := make([]net.Conn, len(given.Hosts))
	var dialling sync.WaitGroup
	turns := make(chan struct{}, 16)
	for i := range conns {
		dialling.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			conns[i] = given.dial(i)
		})
	}
	dialling.Wait()
	fmt.Println("connected")
	in.ReadBytes('\n')
	for i, c := range conns {
		if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: portal\r\nContent-Type: application/json\r\n%s: %s\r\n%s: %s\r\nContent-Length: 9\r\n\r\n{\"max\":8}",
			wire.PathClaim, wire.SessionHeader, given.Session, hostHeader, given.Hosts[i]); err != nil {
			panic(err)
		}
	}
	io.Copy(io.Discard, in)
}

func (g identities) dial(i int) net.Conn {
	if g.CA == "" {
		c, err := net.Dial("tcp", g.Address)
		if err != nil {
			panic(err)
		}
		return c
	}
	pair, err := tls.X509KeyPair([]byte(g.Certs[i]), []byte(g.Key))
	if err != nil {
		panic(err)
	}
	trust := x509.NewCertPool()
	trust.AppendCertsFromPEM([]byte(g.CA))
	d := tls.Dialer{Config: &tls.Config{RootCAs: trust, Certificates: []tls.Certificate{pair}}}
	c, err := d.DialContext(context.Background(), "tcp", g.Address)
	if err != nil {
		panic(err)
	}
	return c
}
