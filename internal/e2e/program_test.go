//go:build linux

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// program is a running process of the quantix binary.
type program struct {
	name string
	log  string // file with its standard error
	cmd  *exec.Cmd
	out  io.Reader
	gone chan struct{} // closed when the process has ended
	err  error         // how it ended; valid once gone is closed
}

// launch starts the program with the given arguments and without the machine's QUANTIX_ variables. The process dies
// with the test process.
func launch(name string, env []string, args ...string) (*program, error) {
	path, err := binary()
	if err != nil {
		return nil, err
	}
	return launchProgram(path, name, env, args...)
}

// launchProgram is launch with another program.
func launchProgram(path, name string, env []string, args ...string) (*program, error) {
	var err error
	p := &program{name: name, log: filepath.Join(root, name+".log"), gone: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	p.cmd = exec.Command(path, args...)
	p.cmd.Env = append(cleanEnv(), env...)
	p.cmd.Stderr = log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if p.out, err = p.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	started := make(chan error)
	// The kernel sends Pdeathsig to the child when the thread that started the child ends, so this thread must not end
	// before the child.
	onOwnThread(func() {
		err := p.cmd.Start()
		started <- err
		if err == nil {
			<-p.gone
		}
	})
	if err := <-started; err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return p, nil
}

// reap waits until the process has ended. It must be called after the standard output was read.
func (p *program) reap() {
	p.err = p.cmd.Wait()
	close(p.gone)
}

func cleanEnv() (env []string) {
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "QUANTIX_") {
			env = append(env, e)
		}
	}
	return env
}

// signal sends a signal that ends the process, and returns how the process ended.
func (p *program) signal(s os.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.gone:
		return p.err
	case <-time.After(endLimit):
		_ = p.cmd.Process.Kill()
		return fmt.Errorf("%s did not end within %s after %s", p.name, endLimit, s)
	}
}

// lastLinesOfFile returns the last lines of a file.
func lastLinesOfFile(path string, lines int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// readyLine is the JSON line that demo and lab print for scripts.
type readyLine struct {
	URL      string      `json:"url"`
	User     string      `json:"user"`
	Password string      `json:"password"`
	APIToken string      `json:"apiToken"`
	Hosts    []readyHost `json:"hosts"`
}

type readyHost struct {
	Name       string `json:"name"`
	LibvirtURI string `json:"libvirtUri"`
}

// playground is a running demo or lab, with its portal's address and password.
type playground struct {
	*program
	readyLine
	line string // the ready line as printed

	mu       sync.Mutex // protects password, which the first sign-in changes
	password string
	changed  bool
}

// startPlayground starts a demo or a lab, and returns when it prints its ready line.
func startPlayground(name string, env []string, args ...string) (*playground, error) {
	p, err := launch(name, env, args...)
	if err != nil {
		return nil, err
	}
	type read struct {
		line string
		err  error
	}
	first := make(chan read, 1)
	go func() {
		r := bufio.NewReader(p.out)
		line, err := r.ReadString('\n')
		first <- read{line, err}
		_, _ = io.Copy(io.Discard, r)
		p.reap()
	}()
	fail := func(err error) (*playground, error) {
		_ = p.signal(syscall.SIGTERM)
		return nil, fmt.Errorf("start %s: %w; the end of its log:\n%s", name, err, lastLinesOfFile(p.log, 40))
	}
	select {
	case got := <-first:
		if got.err != nil {
			return fail(got.err)
		}
		s := &playground{program: p, line: got.line}
		if err := json.Unmarshal([]byte(got.line), &s.readyLine); err != nil {
			return fail(err)
		}
		s.password = s.Password
		return s, nil
	case <-time.After(readyLimit):
		return fail(fmt.Errorf("not ready within %s", readyLimit))
	}
}

// sharedProgram is a demo or lab that several tests use. It starts when a test first needs it, and ends after the last
// test.
type sharedProgram struct {
	name  string
	env   func() []string
	args  func() []string
	files func() string // a directory that must be empty after the end

	once       sync.Once
	playground *playground
	err        error
	bridges    []labBridge
}

var (
	// The lab stores its data in a given directory. The demo uses a temporary directory, which it must remove.
	labProgram = &sharedProgram{
		name: "lab", args: func() []string { return []string{"--data-dir", labDir()} }, env: labHealthEnv,
	}
	demoProgram = &sharedProgram{
		name: "demo", env: func() []string { return []string{"TMPDIR=" + demoTemp()} }, files: demoTemp,
	}
)

func labDir() string { return filepath.Join(root, "lab") }

func demoTemp() string {
	dir := filepath.Join(root, "t")
	_ = os.MkdirAll(dir, 0o755)
	return dir
}

// get returns the shared program, and starts it if necessary. If the test fails, get prints the end of the program's
// logs.
func (s *sharedProgram) get(t *testing.T) *playground {
	t.Helper()
	s.once.Do(func() {
		args := []string{s.name, "--json", "--listen", "127.0.0.1:0"}
		var env []string
		if s.args != nil {
			args = append(args, s.args()...)
		}
		if s.env != nil {
			env = s.env()
		}
		if s.playground, s.err = startPlayground(s.name, env, args...); s.err == nil && s.name == "lab" {
			s.bridges = bridgesOfHosts(hostDir(0), hostDir(1))
		}
	})
	if s.err != nil {
		t.Fatal(s.err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			showLogs(t, s.playground.log)
			if s.name == "lab" {
				showLogs(t, filepath.Join(hostDir(0), "agent.log"), filepath.Join(hostDir(1), "agent.log"))
			}
		}
	})
	return s.playground
}

func showLogs(t *testing.T, files ...string) {
	for _, file := range files {
		t.Logf("the end of %s:\n%s", file, lastLinesOfFile(file, 30))
	}
}

// hostDir returns the directory of the lab's first or second host.
func hostDir(i int) string { return filepath.Join(labDir(), fmt.Sprintf("h%d", i+1)) }

// end stops the shared program by SIGTERM, and returns an error that names what it left behind.
func (s *sharedProgram) end() error {
	if s.playground == nil {
		return nil
	}
	var errs []error
	if err := s.playground.signal(syscall.SIGTERM); err != nil {
		errs = append(errs, fmt.Errorf("%s ended badly: %w; the end of its log:\n%s", s.name, err, lastLinesOfFile(s.playground.log, 30)))
	}
	for _, b := range s.bridges {
		if b.stillExists() {
			errs = append(errs, fmt.Errorf("the bridge %s is still there", b.name))
		}
	}
	if s.files != nil {
		entries, err := os.ReadDir(s.files())
		for _, e := range entries {
			err = errors.Join(err, fmt.Errorf("%s is still there", filepath.Join(s.files(), e.Name())))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// cleanCommand returns a command without QUANTIX_ variables in its environment.
func cleanCommand(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = cleanEnv()
	return cmd
}

// lockedBuffer is a buffer that may be read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
