package relay

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// splicerVar names the environment variable that makes the test binary run as a splicer process. The benchmarks read
// that process's CPU time and memory from /proc, so they do not include the load generator.
const splicerVar = "QUANTIX_BENCH_SPLICER"

func TestMain(m *testing.M) {
	if kind := os.Getenv(splicerVar); kind != "" {
		runSplicer(kind)
		return
	}
	os.Exit(m.Run())
}

// splicer is a process that splices the connections of a browser and a host.
type splicer struct {
	b       *testing.B
	pid     int
	browser string       // address for browsers
	host    string       // address for hosts; empty: the splicer connects to the hosts
	hosts   net.Listener // where the splicer connects to the hosts
	kind    string
	ws      bool // browsers use websocket
}

// Suffixes of splicer kinds: TLS only between splicer and host, as always in production, or on both sides.
const (
	hostTLS = "-host-tls"
	bothTLS = "-tls"
)

func (s *splicer) hostsUseTLS() bool { return strings.HasSuffix(s.kind, bothTLS) }
func (s *splicer) browsersUseTLS() bool {
	return s.hostsUseTLS() && !strings.HasSuffix(s.kind, hostTLS)
}

// startSplicer starts "broker", "tcp" (two sockets and io.Copy) or "websockify", each with or without TLS.
func startSplicer(b *testing.B, kind string) *splicer {
	b.Helper()
	s := &splicer{b: b, kind: kind, ws: !strings.HasPrefix(kind, "tcp")}
	var cmd *exec.Cmd
	if strings.HasPrefix(kind, "websockify") {
		path, err := exec.LookPath("websockify")
		if err != nil {
			b.Fatal("the peer is not installed: quantix doctor bench --install")
		}
		s.listenHosts()
		s.browser = freeAddress(b)
		args := []string{s.browser, s.hosts.Addr().String()}
		if s.hostsUseTLS() {
			args = append(args, "--ssl-target")
		}
		if s.browsersUseTLS() {
			args = append(args, "--ssl-only", "--cert", certificateFile(b))
		}
		cmd = exec.Command(path, args...)
	} else {
		cmd = exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), splicerVar+"="+kind)
		if !s.ws {
			s.listenHosts()
			cmd.Env = append(cmd.Env, splicerVar+"_TO="+s.hosts.Addr().String())
		}
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	in, err := cmd.StdinPipe() // closing this pipe stops the splicer, even if this process is killed
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	s.pid = cmd.Process.Pid
	b.Cleanup(func() {
		in.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	if !strings.HasPrefix(kind, "websockify") {
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			b.Fatal(err)
		}
		s.browser, s.host, _ = strings.Cut(strings.TrimSpace(line), " ")
		return s
	}
	for until := time.Now().Add(20 * time.Second); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		if c, err := net.Dial("tcp", s.browser); err == nil {
			c.Close()
			return s
		}
	}
	b.Fatal("websockify does not listen")
	return nil
}

func (s *splicer) listenHosts() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.b.Fatal(err)
	}
	s.b.Cleanup(func() { l.Close() })
	if s.hosts = l; s.hostsUseTLS() {
		s.hosts = tls.NewListener(l, serverTLS())
	}
}

func freeAddress(b *testing.B) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// openSession opens one session. Data that write sends arrives at read.
func (s *splicer) openSession(id int) (write func([]byte) error, read func([]byte) (int, error)) {
	s.b.Helper()
	scheme := map[bool]string{false: "ws://", true: "wss://"}
	if s.host != "" {
		host := s.websocket(scheme[s.hostsUseTLS()]+s.host+"/answerer/"+strconv.Itoa(id), 64<<10)
		write = func(p []byte) error { return host.WriteMessage(websocket.BinaryMessage, p) }
	}
	if s.ws {
		read = (&stream{ws: s.websocket(scheme[s.browsersUseTLS()]+s.browser+"/asker/"+strconv.Itoa(id), 64<<10)}).Read
	} else {
		c, err := net.Dial("tcp", s.browser)
		if err != nil {
			s.b.Fatal(err)
		}
		if s.browsersUseTLS() {
			c = tls.Client(c, anyTLS)
		}
		s.b.Cleanup(func() { c.Close() })
		read = c.Read
	}
	if write == nil {
		c, err := s.hosts.Accept()
		if err != nil {
			s.b.Fatal(err)
		}
		s.b.Cleanup(func() { c.Close() })
		write = func(p []byte) error { _, err := c.Write(p); return err }
	}
	return write, read
}

func (s *splicer) websocket(url string, buffer int) *websocket.Conn {
	d := websocket.Dialer{
		Subprotocols: []string{"binary"}, ReadBufferSize: buffer, WriteBufferSize: buffer,
		TLSClientConfig: anyTLS,
	}
	ws, _, err := d.Dial(url, nil)
	if err != nil {
		s.b.Fatal(err)
	}
	s.b.Cleanup(func() { ws.Close() })
	return ws
}

// stream reads websocket messages as a byte stream.
type stream struct {
	ws  *websocket.Conn
	now io.Reader
}

func (s *stream) Read(p []byte) (int, error) {
	for {
		if s.now == nil {
			_, r, err := s.ws.NextReader()
			if err != nil {
				return 0, err
			}
			s.now = r
		}
		n, err := s.now.Read(p)
		if err == io.EOF {
			s.now = nil
		}
		if n > 0 || err != nil && err != io.EOF {
			return n, nil
		}
	}
}

// processes returns the splicer's processes, with those forked for its sessions.
func (s *splicer) processes() []int {
	pids := []int{s.pid}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, f := range stats {
		if fields := statFields(f); len(fields) > 1 && fields[1] == strconv.Itoa(s.pid) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// statFields returns the fields of a /proc/*/stat file that follow the process name in parentheses, from the state on.
func statFields(file string) []string {
	data, _ := os.ReadFile(file)
	_, rest, _ := strings.Cut(string(data), ") ")
	return strings.Fields(rest)
}

// cpuTime returns the splicer's user and system time so far.
func (s *splicer) cpuTime() time.Duration {
	var ticks int
	for _, pid := range s.processes() {
		if f := statFields(fmt.Sprintf("/proc/%d/stat", pid)); len(f) > 12 {
			user, _ := strconv.Atoi(f[11])
			system, _ := strconv.Atoi(f[12])
			ticks += user + system
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// memory returns the splicer's proportional set size in bytes.
func (s *splicer) memory() (bytes int) {
	for _, pid := range s.processes() {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			s.b.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(data), "\nPss:")
		kib, _ := strconv.Atoi(strings.Fields(rest)[0])
		bytes += kib << 10
	}
	return bytes
}

// anyTLS skips certificate verification.
var anyTLS = &tls.Config{InsecureSkipVerify: true}

func runSplicer(kind string) {
	debug.SetGCPercent(100)
	s := &splicer{kind: kind}
	listen := func(overTLS bool) net.Listener {
		if overTLS {
			return tls.NewListener(mustListen(), serverTLS())
		}
		return mustListen()
	}
	switch {
	case strings.HasPrefix(kind, "tcp"):
		l := listen(s.browsersUseTLS())
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				h, err := net.Dial("tcp", os.Getenv(splicerVar+"_TO"))
				if err != nil {
					panic(err)
				}
				if s.hostsUseTLS() {
					h = tls.Client(h, anyTLS)
				}
				go plainCopy(c, h)
				go plainCopy(h, c)
			}
		}()
		fmt.Println(l.Addr())
	default:
		p := &portal{Broker: NewBroker(use), results: make(chan error)}
		go func() {
			for range p.results {
			}
		}()
		browsers, hosts := listen(s.browsersUseTLS()), listen(s.hostsUseTLS())
		server := &http.Server{Handler: p.handler(context.Background())}
		go server.Serve(browsers)
		go server.Serve(hosts)
		fmt.Println(browsers.Addr(), hosts.Addr())
	}
	io.Copy(io.Discard, os.Stdin)
}

// plainCopy copies with one buffer, read and write, the simplest splice. It avoids the kernel's splice(2), which no
// websocket connection can use.
func plainCopy(to io.Writer, from io.Reader) {
	buf := make([]byte, chunkSize)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

func mustListen() net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	return l
}

// certificateFile writes a certificate with its key in one file, the format of websockify.
func certificateFile(b *testing.B) string {
	made := serverTLS().Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(made.PrivateKey)
	if err != nil {
		b.Fatal(err)
	}
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made.Certificate[0]}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...)
	file := filepath.Join(b.TempDir(), "browsers.pem")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		b.Fatal(err)
	}
	return file
}

func serverTLS() *tls.Config {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}}}
}
