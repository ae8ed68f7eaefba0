package bench

import (
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"quantix/internal/testkit/goals"
	"quantix/internal/wire"
)

const parkedAgents = 10_000

// BenchmarkParkedAgents measures what ten thousand parked claims cost the portal's process. Limit: 24 KiB each over plain HTTP;
// beside it the same number of requests parked in a plain echo handler. What mutual TLS adds to each connection is net/http's
// and TLS's own: beside that figure stands a bare net/http server with the same certificates.
func BenchmarkParkedAgents(b *testing.B) {
	for range b.N {
		r := newRig(b)
		r.addHosts(b, parkedAgents)
		plain, echo := parkedKiB(b, r, "portal"), parkedKiB(b, r, "echo")
		b.ReportMetric(plain, "KiB/parked-agent")
		b.ReportMetric(24, "limit-KiB/parked-agent")
		b.ReportMetric(echo, "KiB/parked-plain-echo")
		goals.ParkedHTTP.Tell(b, plain <= 24, fmt.Sprintf("%.1f KiB", plain), fmt.Sprintf("a plain echo handler %.1f KiB", echo))
		b.ReportMetric(parkedKiB(b, r, "portal"+overTLS), "KiB/parked-agent-mtls")
		b.ReportMetric(parkedKiB(b, r, "bare"+overTLS), "KiB/parked-bare-mtls")
	}
}

// parkedKiB starts a server process, parks all agents at it, and divides by their number what its memory has grown.
func parkedKiB(b *testing.B, r *rig, kind string) float64 {
	b.Helper()
	s := startParking(b, r, kind)
	defer s.stop()
	dial := func(hostSession) net.Conn { return dialTCP(b, s.address) }
	if strings.HasSuffix(kind, overTLS) {
		made := newPasses(b, r.control)
		conf := &tls.Config{RootCAs: made.authority.Pool()}
		dial = func(h hostSession) net.Conn {
			own := conf.Clone()
			own.Certificates, own.ServerName = []tls.Certificate{made.of(b, h.id)}, "127.0.0.1"
			c := tls.Client(dialTCP(b, s.address), own)
			if err := c.Handshake(); err != nil {
				b.Error(err)
			}
			return c
		}
	} else if kind == "portal" {
		meetHosts(b, s.address, r.hosts)
	}
	leave := park(b, s, r.hosts[:100], dial) // the first ones warm the process
	leave()
	await(b, "the first agents have left", func() bool { return s.ask("parked") == 0 })
	before := s.ask("resident")
	defer park(b, s, r.hosts, dial)()
	return float64(s.ask("resident")-before) / 1024 / float64(len(r.hosts))
}

func dialTCP(b *testing.B, address string) net.Conn {
	c, err := net.Dial("tcp", address)
	if err != nil {
		b.Error(err)
	}
	return c
}

// meetHosts lets the process make every host's certificate, which stands for TLS and is no cost of parking.
func meetHosts(b *testing.B, address string, hosts []hostSession) {
	b.Helper()
	client := newClient()
	for _, h := range hosts {
		if _, err := h.call(b.Context(), client, "http://"+address, wire.PathReport, wire.Report{Seq: h.seq + 1, Digest: "d"}, nil); err != nil {
			b.Fatal(err)
		}
	}
	client.CloseIdleConnections()
}

// park sends a claim on a connection of its own for each host, reads nothing, and returns when all are parked. No claim has an
// answer before wire.ClaimWait has passed.
func park(b *testing.B, s *parking, hosts []hostSession, dial func(hostSession) net.Conn) (leave func()) {
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
	await(b, "all agents are parked", func() bool { return s.ask("parked") == int64(len(hosts)) })
	return func() {
		for _, c := range conns {
			c.Close()
		}
	}
}
