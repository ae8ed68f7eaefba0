package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/wire"
)

const parkedAgents = 10_000

// BenchmarkParkedAgents measures what ten thousand parked claims cost the portal's process. Limit: 24 KiB each. Beside it: the
// same number of requests parked in a plain echo handler.
func BenchmarkParkedAgents(b *testing.B) {
	for range b.N {
		r := newRig(b)
		r.addHosts(b, parkedAgents)
		b.ReportMetric(parkedKiB(b, "portal", r), "KiB/parked-agent")
		b.ReportMetric(24, "limit-KiB/parked-agent")
		b.ReportMetric(parkedKiB(b, "echo", r), "KiB/parked-plain-echo")
	}
}

// parkedKiB starts a server process, parks all agents at it, and divides by their number what its memory has grown.
func parkedKiB(b *testing.B, kind string, r *rig) float64 {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.CommandContext(b.Context(), self)
	cmd.Env = append(os.Environ(), "QUANTIX_TEST_PARKED="+kind, "QUANTIX_TEST_DATABASE_URL="+r.pool.Config().ConnString())
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	lines := bufio.NewScanner(out)
	ask := func(word string) int64 {
		fmt.Fprintln(in, word)
		if !lines.Scan() {
			b.Fatal("the server process ended")
		}
		n, _ := strconv.ParseInt(lines.Text(), 10, 64)
		return n
	}
	if !lines.Scan() {
		b.Fatal("the server process did not start")
	}
	address := lines.Text()
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	warm := park(b, address, r.hosts[:100])
	defer func() {
		for _, c := range warm {
			c.Close()
		}
	}()
	if kind == "portal" {
		meetHosts(b, address, r.hosts)
	}
	time.Sleep(time.Second)
	before := ask("rss")
	conns = park(b, address, r.hosts[100:])
	time.Sleep(5 * time.Second) // all are parked: none has an answer yet, and none will for 25 s
	return float64(ask("rss")-before) / 1024 / float64(len(conns))
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

// park sends a claim on a connection of its own for each host, and reads nothing.
func park(b *testing.B, address string, hosts []hostSession) []net.Conn {
	b.Helper()
	conns := make([]net.Conn, 0, len(hosts))
	for _, h := range hosts {
		c, err := net.Dial("tcp", address)
		if err != nil {
			b.Fatal(err)
		}
		conns = append(conns, c)
		body := `{"max":4}`
		_, err = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: portal.test\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s: %s\r\n%s: %s\r\n\r\n%s",
			wire.PathClaim, len(body), hostHeader, h.id, wire.SessionHeader, h.session, body)
		if err != nil {
			b.Fatal(err)
		}
	}
	return conns
}

// parkedServer is the server process: it answers "rss" on its standard input with the bytes it holds.
func parkedServer() bool {
	kind := os.Getenv("QUANTIX_TEST_PARKED")
	if kind == "" {
		return false
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var handler http.Handler
	if kind == "echo" {
		e := echo.New()
		e.POST(wire.PathClaim, func(c echo.Context) error {
			io.Copy(io.Discard, c.Request().Body)
			<-c.Request().Context().Done()
			return nil
		})
		handler = e
	} else {
		handler = asHosts(newPortal(ctx, exitOnFatal{}, os.Getenv("QUANTIX_TEST_DATABASE_URL")).web.AgentHandler())
	}
	server := httptest.NewServer(handler)
	fmt.Println(strings.TrimPrefix(server.URL, "http://"))
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println(resident())
	}
	return true
}

type exitOnFatal struct{}

func (exitOnFatal) Fatal(args ...any) { fmt.Fprintln(os.Stderr, args...); os.Exit(1) }

func resident() int64 {
	debug.FreeOSMemory()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(b))
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}
