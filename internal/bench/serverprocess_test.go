package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/labstack/echo/v4"

	"quantix/internal/cli"
	"quantix/internal/fleet"
	"quantix/internal/reconcile"
	"quantix/internal/wire"
)

const (
	serverKindVar = "QUANTIX_BENCH_PARKING"
	databaseVar   = "QUANTIX_BENCH_DATABASE"
	secretsKeyVar = "BENCH_SECRETS_KEY" // file with the vault's key, which all portals of a run share
	overTLS       = "-mtls"             // suffix of the server kinds that use mutual TLS
)

// serverProcess is a separate process whose memory is measured. Its kinds are "portal" and "echo", and over mutual TLS
// "portal-mtls" and "bare-mtls", which is net/http without the portal.
type serverProcess struct {
	b       *testing.B
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *bufio.Scanner
	address string
}

func startServerProcess(b *testing.B, r *rig, kind string) *serverProcess {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	s := &serverProcess{b: b, cmd: exec.CommandContext(b.Context(), self)}
	s.cmd.Env = append(os.Environ(), serverKindVar+"="+kind, databaseVar+"="+r.pool.Config().ConnString())
	s.cmd.Stderr = os.Stderr
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		b.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	s.answers = bufio.NewScanner(out)
	s.address = s.readLine()
	return s
}

func (s *serverProcess) readLine() string {
	if !s.answers.Scan() {
		s.b.Fatal("the server process ended")
	}
	return s.answers.Text()
}

// sendCommand sends a command to the process and returns its answer. "resident" and "raw" are the bytes of memory after
// and before a garbage collection. "parked" is the number of requests that wait for an answer, or -1 while some
// requests are being handled.
func (s *serverProcess) sendCommand(command string) int64 {
	fmt.Fprintln(s.in, command)
	n, err := strconv.ParseInt(s.readLine(), 10, 64)
	if err != nil {
		s.b.Fatal(err)
	}
	return n
}

func (s *serverProcess) stop() {
	s.in.Close()
	s.cmd.Wait()
}

// runServerProcess runs the server whose kind the environment names. Otherwise it returns false.
func runServerProcess() bool {
	kind := os.Getenv(serverKindVar)
	if kind == "" {
		return false
	}
	cli.TuneGarbageCollector()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		exitOnFatal{}.Fatal(err)
	}
	var peer parkingPeer
	parked := func() int64 { return peer.parked.Load() }
	handler := http.Handler(&peer)
	var r *rig
	if kind != "echo" {
		r = newPortal(ctx, exitOnFatal{}, os.Getenv(databaseVar), "https://portal.test")
	}
	switch name := strings.TrimSuffix(kind, overTLS); name {
	case "portal":
		handler = r.web.AgentHandler()
		if name == kind {
			handler = authenticateAsHosts(handler)
		}
		parked = func() int64 {
			if n, ok := r.parkedCount(); ok {
				return int64(n)
			}
			return -1
		}
	case "tabs": // the complete portal: pages and agent API at one address
		cli.TuneGarbageCollector()
		pages, agents := r.web.Handler(), authenticateAsHosts(r.web.AgentHandler())
		handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if strings.HasPrefix(q.URL.Path, "/agent/") {
				agents.ServeHTTP(w, q)
			} else {
				pages.ServeHTTP(w, q)
			}
		})
		go reconcile.Run(ctx, r.control, r.hub, slog.New(slog.DiscardHandler))
	case "echo":
		e := echo.New()
		e.POST(wire.PathClaim, echo.WrapHandler(&peer))
		handler = e
	}
	if strings.HasSuffix(kind, overTLS) {
		authority, err := r.control.Authority(ctx, fleet.SystemActor)
		if err == nil {
			err = serveMTLS(listener, authority, handler)
		}
		if err != nil {
			exitOnFatal{}.Fatal(err)
		}
	} else {
		go (&http.Server{Handler: handler}).Serve(listener)
	}
	fmt.Println(listener.Addr())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch in.Text() {
		case "parked":
			fmt.Println(parked())
		case "raw":
			fmt.Println(residentBytes())
		default:
			fmt.Println(residentAfterGC())
		}
	}
	return true
}

// parkingPeer leaves requests unanswered until their clients disconnect, and does nothing else.
type parkingPeer struct{ parked atomic.Int64 }

func (p *parkingPeer) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	p.parked.Add(1)
	defer p.parked.Add(-1)
	<-r.Context().Done()
}

type exitOnFatal struct{}

func (exitOnFatal) Fatal(args ...any) { fmt.Fprintln(os.Stderr, args...); os.Exit(1) }

// residentAfterGC returns the process's memory after free memory was returned to the operating system. It collects
// garbage several times, because each collection shrinks stacks only by half.
func residentAfterGC() int64 {
	for range 4 {
		debug.FreeOSMemory()
	}
	return residentBytes()
}

func residentBytes() int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(b))
	n, _ := strconv.ParseInt(fields[1], 10, 64)
	return n * int64(os.Getpagesize())
}
