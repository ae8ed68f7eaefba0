package bench

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/testkit/goals"
	"quantix/internal/wire"
)

const (
	parkedAgents    = 2_000
	connectedAgents = 1_000
)

// BenchmarkAgentConnections measures how much memory of the portal's process each agent over mutual TLS uses. Each
// agent has all its connections, has reported 40 VMs and a heartbeat, and waits for jobs. Limit: 48 KB. The references
// are agents with one connection for claims and another for calls, and a plain net/http server with one unanswered
// request per connection.
func BenchmarkAgentConnections(b *testing.B) {
	for range b.N {
		r := newRig(b)
		r.addHosts(b, connectedAgents)
		one, inUse := measureAgentMemory(b, r, newOneConnAgent)
		b.ReportMetric(one, "KB/agent")
		b.ReportMetric(inUse, "KB/agent-before-GC")
		b.ReportMetric(48, "limit-KB/agent")
		two, _ := measureAgentMemory(b, r, newTwoConnAgent)
		b.ReportMetric(two, "KB/agent-of-two-connections")
		bare := measureParkedMemory(b, r, "bare"+overTLS) * 1024 / 1000
		b.ReportMetric(bare, "KB/bare-net-http-connection")
		goals.AgentRSS.Record(b, one <= 48, fmt.Sprintf("%.0f KB after a collection, %.0f before it", one, inUse),
			fmt.Sprintf("an agent of two connections %.0f KB, one connection of bare net/http %.0f KB", two, bare), one/bare)
	}
}

// agentProtocol is the agent's side of the agent protocol.
type agentProtocol interface {
	Hello(context.Context, wire.Hello) (wire.HelloAnswer, error)
	Report(context.Context, wire.Report) (wire.ReportAnswer, error)
	Claim(context.Context, wire.ClaimRequest) (wire.Claim, error)
}

func newOneConnAgent(portal string, shown wire.Credentials) (agentProtocol, error) {
	return wire.NewClient(portal, func() wire.Credentials { return shown })
}

// twoConnAgent is an agent as in older versions, with one connection for claims and one for all other calls.
type twoConnAgent struct {
	portal        string
	session       string
	calls, claims *http.Client
}

func newTwoConnAgent(portal string, shown wire.Credentials) (agentProtocol, error) {
	conf := &tls.Config{RootCAs: shown.CA, Certificates: []tls.Certificate{shown.Certificate}}
	return &twoConnAgent{portal: portal, calls: &http.Client{Transport: &http.Transport{TLSClientConfig: conf}}, claims: &http.Client{Transport: &http.Transport{TLSClientConfig: conf}}}, nil
}

func (e *twoConnAgent) post(ctx context.Context, client *http.Client, path string, in, out any) error {
	_, err := hostSession{session: e.session}.call(ctx, client, e.portal, path, in, out)
	return err
}

func (e *twoConnAgent) Hello(ctx context.Context, in wire.Hello) (out wire.HelloAnswer, err error) {
	err = e.post(ctx, e.calls, wire.PathHello, in, &out)
	e.session = out.Session
	return out, err
}

func (e *twoConnAgent) Report(ctx context.Context, in wire.Report) (out wire.ReportAnswer, err error) {
	return out, e.post(ctx, e.calls, wire.PathReport, in, &out)
}

func (e *twoConnAgent) Claim(ctx context.Context, in wire.ClaimRequest) (out wire.Claim, err error) {
	return out, e.post(ctx, e.claims, wire.PathClaim, in, &out)
}

// measureAgentMemory returns the memory in KB that an agent uses in the portal's process: held after a garbage
// collection, and inUse before it.
func measureAgentMemory(b *testing.B, r *rig, agent func(portal string, shown wire.Credentials) (agentProtocol, error)) (held, inUse float64) {
	b.Helper()
	s := startServerProcess(b, r, "portal"+overTLS)
	defer s.stop()
	certs := newHostCerts(b, r.control)
	ctx, cancel := context.WithCancel(b.Context())
	var claims sync.WaitGroup
	defer claims.Wait()
	defer cancel()
	work := func(hosts []hostSession) {
		var starting sync.WaitGroup
		turns := make(chan struct{}, 16)
		for _, h := range hosts {
			turns <- struct{}{}
			starting.Go(func() {
				defer func() { <-turns }()
				if err := startAgent(ctx, "https://"+s.address, wire.Credentials{Certificate: certs.certificateOf(b, h.id), CA: certs.authority.Pool()}, agent, &claims); err != nil {
					b.Error(err)
				}
			})
		}
		if starting.Wait(); b.Failed() {
			b.FailNow()
		}
	}
	const warm = 100
	work(r.hosts[:warm])
	before := s.sendCommand("resident")
	work(r.hosts[warm:])
	pollUntil(b, "all agents are parked", func() bool { return s.sendCommand("parked") == int64(len(r.hosts)) })
	each := func(n int64) float64 { return float64(n-before) / 1000 / float64(len(r.hosts)-warm) }
	inUse = each(s.sendCommand("raw"))
	return each(s.sendCommand("resident")), inUse
}

func startAgent(ctx context.Context, portal string, shown wire.Credentials, agent func(string, wire.Credentials) (agentProtocol, error), claims *sync.WaitGroup) error {
	a, err := agent(portal, shown)
	if err != nil {
		return err
	}
	hello, err := a.Hello(ctx, wire.Hello{Instance: "bench", Fingerprint: "bench"})
	if err != nil {
		return err
	}
	state := &wire.State{Host: fleet.HostStatus{Connected: true}}
	meters := make([]wire.Meter, 40)
	for i := range 40 {
		meters[i] = wire.Meter{ID: fleet.NewID[fleet.VMID](), CPUNanos: 1e12, MemoryBytes: 2 << 30, ReadBytes: 1 << 33, WriteBytes: 1 << 33}
		state.VMs = append(state.VMs, wire.VMReport{ID: meters[i].ID, Name: fmt.Sprintf("vm-%d", i), Generation: 1, Status: fleet.VMStatus{
			Power: fleet.Running, CPUs: 2, MemoryMiB: 2048, Disks: make([]fleet.DiskState, 2), NICs: make([]fleet.NICState, 2),
		}})
	}
	if _, err := a.Report(ctx, wire.Report{Seq: hello.SeqBase + 1, Digest: "full", State: state, Meters: meters}); err != nil {
		return err
	}
	claims.Go(func() {
		for err := error(nil); err == nil; {
			_, err = a.Claim(ctx, wire.ClaimRequest{Max: 4})
		}
	})
	_, err = a.Report(ctx, wire.Report{Seq: hello.SeqBase + 2, Digest: "full", Meters: meters})
	return err
}

// BenchmarkParkedAgents measures the memory of 2,000 parked claims in the portal's process. Limit: 24 KiB each, over
// plain HTTP. The reference is the same number of requests parked in a plain echo handler. For mutual TLS, see
// BenchmarkAgentConnections.
func BenchmarkParkedAgents(b *testing.B) {
	for range b.N {
		r := newRig(b)
		r.addHosts(b, parkedAgents)
		plain, echo := measureParkedMemory(b, r, "portal"), measureParkedMemory(b, r, "echo")
		b.ReportMetric(plain, "KiB/parked-agent")
		b.ReportMetric(24, "limit-KiB/parked-agent")
		b.ReportMetric(echo, "KiB/parked-plain-echo")
		goals.ParkedHTTP.Record(b, plain <= 24, fmt.Sprintf("%.1f KiB", plain), fmt.Sprintf("a plain echo handler %.1f KiB", echo), plain/echo)
	}
}

// measureParkedMemory starts a server process, lets all agents wait at it for jobs, and returns how much memory the
// process gained per agent.
func measureParkedMemory(b *testing.B, r *rig, kind string) float64 {
	b.Helper()
	s := startServerProcess(b, r, kind)
	defer s.stop()
	dial := func(hostSession) net.Conn { return dialTCP(b, s.address) }
	if strings.HasSuffix(kind, overTLS) {
		certs := newHostCerts(b, r.control)
		conf := &tls.Config{RootCAs: certs.authority.Pool()}
		dial = func(h hostSession) net.Conn {
			own := conf.Clone()
			own.Certificates, own.ServerName = []tls.Certificate{certs.certificateOf(b, h.id)}, "127.0.0.1"
			c := tls.Client(dialTCP(b, s.address), own)
			if err := c.Handshake(); err != nil {
				b.Error(err)
			}
			return c
		}
	} else if kind == "portal" {
		issueCerts(b, s.address, r.hosts)
	}
	leave := parkClaims(b, s, r.hosts[:100], dial) // the first agents warm up the server process
	leave()
	pollUntil(b, "the first agents have left", func() bool { return s.sendCommand("parked") == 0 })
	before := s.sendCommand("resident")
	defer parkClaims(b, s, r.hosts, dial)()
	return float64(s.sendCommand("resident")-before) / 1024 / float64(len(r.hosts))
}

func dialTCP(b *testing.B, address string) net.Conn {
	c, err := net.Dial("tcp", address)
	if err != nil {
		b.Error(err)
	}
	return c
}

// issueCerts makes the process create every host's certificate in advance. The certificates replace TLS here and are no
// cost of a waiting claim.
func issueCerts(b *testing.B, address string, hosts []hostSession) {
	b.Helper()
	client := newClient()
	for _, h := range hosts {
		if _, err := h.call(b.Context(), client, "http://"+address, wire.PathReport, wire.Report{Seq: h.seq + 1, Digest: "d"}, nil); err != nil {
			b.Fatal(err)
		}
	}
	client.CloseIdleConnections()
}

// parkClaims sends a claim for each host on its own connection, and returns when the server holds all claims. It reads
// no answers, because the portal answers no claim before wire.ClaimWait has passed.
func parkClaims(b *testing.B, s *serverProcess, hosts []hostSession, dial func(hostSession) net.Conn) (leave func()) {
	b.Helper()
	conns := make([]net.Conn, len(hosts))
	var dialling sync.WaitGroup
	turns := make(chan struct{}, 16)
	for i, h := range hosts {
		turns <- struct{}{}
		dialling.Go(func() {
			defer func() { <-turns }()
			conns[i] = dial(h)
		})
	}
	dialling.Wait()
	if b.Failed() {
		b.FailNow()
	}
	for i, h := range hosts {
		body := `{"max":4}`
		_, err := fmt.Fprintf(conns[i], "POST %s HTTP/1.1\r\nHost: portal.test\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s: %s\r\n%s: %s\r\n\r\n%s",
			wire.PathClaim, len(body), hostHeader, h.id, wire.SessionHeader, h.session, body)
		if err != nil {
			b.Fatal(err)
		}
	}
	pollUntil(b, "all agents are parked", func() bool { return s.sendCommand("parked") == int64(len(hosts)) })
	return func() {
		for _, c := range conns {
			c.Close()
		}
	}
}
