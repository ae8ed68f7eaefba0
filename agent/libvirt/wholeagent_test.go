//go:build linux && ordeal

package libvirt_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"quantix/agent"
	"quantix/agent/libvirt"
	"quantix/agent/state"
	"quantix/internal/auth"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// childDir is the environment variable with the agent's directory. A copy of the test program with this variable runs a
// complete agent.
const childDir = "QUANTIX_TEST_AGENT_DIR"

// runAgent runs the agent in the copy of the test program until the test kills the agent.
func runAgent(socket, dir string) error {
	id, err := agent.OpenIdentity(dir)
	if err != nil {
		return err
	}
	client, err := id.Client("")
	if err != nil {
		return err
	}
	known, err := state.OpenPoolRecords(filepath.Join(dir, "pools"))
	if err != nil {
		return err
	}
	ctx := context.Background()
	hv, err := libvirt.Open(ctx, libvirt.Options{Socket: socket, Log: slog.New(slog.DiscardHandler), PoolRoots: tempDirRoots, PoolBook: known})
	if err != nil {
		return err
	}
	a, err := agent.New(agent.Options{
		Identity: id, Client: client, Hypervisor: hv, Version: "1.0",
		Inventory: func(context.Context) (fleet.Inventory, error) { return fleet.Inventory{}, nil },
		NICs:      func() []fleet.HostNIC { return nil },
		Load:      func(context.Context) (fleet.HostLoad, error) { return fleet.HostLoad{}, nil },
	})
	if err != nil {
		return err
	}
	return a.Run(ctx)
}

// testPortal is a test portal for one agent. Like a real portal, it gives the agent one job at a time, and repeats the
// job until the job has ended.
type testPortal struct {
	t       *testing.T
	ca      *auth.Authority
	dir     string // the agent's directory
	results chan wire.Finish

	mu      sync.Mutex
	changed chan struct{} // closed and replaced with each change
	session int64
	claims  int
	order   *wire.Work // the unfinished job; nil: none
	jobSent bool       // the current session of the agent has received the job
	secret  string
	onStep  func(what string) bool // called at each interruptible step; false closes the connection
}

func newTestPortal(t *testing.T, p *libvirtProxy) *testPortal {
	t.Helper()
	// The agent reads the guests' start times from this directory.
	if err := os.Symlink("/run/libvirt/qemu", filepath.Join(filepath.Dir(p.socket), "qemu")); err != nil {
		t.Fatal(err)
	}
	d := &testPortal{t: t, ca: must(auth.NewAuthority()), dir: filepath.Join(t.TempDir(), "agent"), results: make(chan wire.Finish, 1), changed: make(chan struct{})}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(d.serve))
	srv.TLS = must(d.ca.ServerTLS([]string{"127.0.0.1"}))
	// The certificate is set, because httptest otherwise adds its own certificate.
	srv.TLS.Certificates = []tls.Certificate{must(d.ca.IssueServer([]string{"127.0.0.1"}))}
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // killed agents would fill the log
	srv.StartTLS()
	t.Cleanup(srv.Close)
	_, err := agent.Join(t.Context(), agent.JoinOptions{Portal: srv.URL, Token: wire.NewJoinToken(d.ca.Certificate().Raw), Name: "host-1", HostUUID: "uuid-1", DataDir: d.dir})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *testPortal) update(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
	close(d.changed)
	d.changed = make(chan struct{})
}

// reachStep calls onStep for the step and reports whether the agent continues.
func (d *testPortal) reachStep(what string) bool {
	d.mu.Lock()
	onStep := d.onStep
	d.mu.Unlock()
	return onStep == nil || onStep(what)
}

func (d *testPortal) serve(w http.ResponseWriter, r *http.Request) {
	switch out := d.answer(r).(type) {
	case nil:
		w.WriteHeader(http.StatusNoContent)
	case int:
		w.WriteHeader(out)
	default:
		_ = json.NewEncoder(w).Encode(out) // a killed agent closes the connection
	}
}

func read[T any](r *http.Request) (in T) {
	_ = json.NewDecoder(r.Body).Decode(&in) // a killed agent closes the connection
	return in
}

// answer returns the body of the response, or a status code.
func (d *testPortal) answer(r *http.Request) any {
	path := r.URL.Path
	id, verb, _ := strings.Cut(strings.TrimPrefix(path, wire.PathJobs), "/")
	switch {
	case path == wire.PathJoin:
		return wire.JoinAnswer{HostID: "host-1", Name: "host-1", Certificate: wire.Certificate{Cert: must(d.ca.IssueHost("host-1", read[wire.JoinRequest](r).CSR)), CA: d.ca.CertPEM()}}
	case path == wire.PathHello:
		var session int64
		d.update(func() { d.session, d.jobSent = d.session+1, false; session = d.session })
		return wire.HelloAnswer{Session: strconv.FormatInt(session, 10), SeqBase: session << 32}
	case path == wire.PathReport:
		return wire.ReportAnswer{}
	case path == wire.PathClaim:
		return d.claim(r)
	case verb == "secret":
		if !d.reachStep("before the agent receives the secret of the job") {
			panic(http.ErrAbortHandler)
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		return wire.GuestSecret{Secret: d.secret}
	case verb == "progress":
		return nil
	case verb == "finish":
		return d.finish(fleet.JobID(id), read[wire.Finish](r))
	case path == wire.PathResults:
		var out wire.ResultsAnswer
		for _, in := range read[wire.Results](r).Results {
			var a wire.ResultAnswer
			if status, refused := d.finish(in.Job, in.Finish).(int); refused {
				a.Status = status
			}
			out.Answers = append(out.Answers, a)
		}
		return out
	}
	return http.StatusNotFound
}

// claim waits for a job that the agent's session has not received yet. A newer claim replaces an older one.
func (d *testPortal) claim(r *http.Request) any {
	_, _ = io.Copy(io.Discard, r.Body) // a server notices a closed connection only after it has read the body
	var number int
	d.update(func() { d.claims++; number = d.claims })
	for {
		d.mu.Lock()
		if number != d.claims {
			d.mu.Unlock()
			return nil
		}
		moved, order := d.changed, d.order
		mine := order != nil && !d.jobSent && r.Header.Get(wire.SessionHeader) == strconv.FormatInt(d.session, 10)
		if mine {
			d.jobSent = true
			order.Epoch++
			order.Attempt++
		}
		d.mu.Unlock()
		if mine {
			return wire.Claim{Jobs: []wire.Work{*order}}
		}
		select {
		case <-moved:
		case <-r.Context().Done():
			return nil
		}
	}
}

// finish accepts the result of the job, unless the job must be retried.
func (d *testPortal) finish(id fleet.JobID, in wire.Finish) any {
	mine := func() (order *wire.Work, ok bool) {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.order, d.order != nil && d.order.ID == id && d.order.Epoch == in.Epoch && d.jobSent
	}
	if _, ok := mine(); ok && !d.reachStep("before the portal accepts the result") {
		panic(http.ErrAbortHandler)
	}
	order, ok := mine()
	if !ok {
		return http.StatusConflict
	}
	if in.Outcome == wire.Failed && in.Retry && !order.Kind.IsSingleShot(order.Args) {
		d.update(func() { d.jobSent = false })
		return wire.FinishAnswer{}
	}
	d.update(func() { d.order = nil })
	if !d.reachStep("after the portal accepted the result") {
		d.results <- in
		panic(http.ErrAbortHandler)
	}
	d.results <- in
	return wire.FinishAnswer{}
}

// startAgent starts an agent and returns once the agent has said hello.
func (d *testPortal) startAgent(socket string) *childRun {
	d.t.Helper()
	d.mu.Lock()
	before := d.session
	d.mu.Unlock()
	cmd := exec.CommandContext(d.t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childSocketEnv+"="+socket, childDir+"="+d.dir)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	r := &childRun{cmd: cmd, lines: make(chan string)}
	go func() {
		defer close(r.lines)
		_ = cmd.Wait() // killed
	}()
	waitFor(d.t, "the agent says hello", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.session > before
	})
	return r
}

// interruptJob gives an agent the job and interrupts the agent at its nth step; 0 interrupts nothing. If the agent
// dies, interruptJob starts another one. It calls passed at each step. It returns the job's result and the interrupted
// step, which is empty if the job has fewer steps.
func (d *testPortal) interruptJob(c *faultRunner, w wire.Work, n int, f injectedFault, passed func(what string)) (where string, end wire.Finish) {
	d.t.Helper()
	asks, over := make(chan pausedCall), make(chan struct{})
	defer close(over)
	at := func(what string) bool {
		a := pausedCall{step: what, decision: make(chan bool, 1)}
		select {
		case asks <- a:
			return <-a.decision
		case <-over:
			return true
		}
	}
	c.proxy.changes.Store(&changeObserver{onChange: at})
	r := d.startAgent(c.proxy.socket)
	defer func() {
		_ = r.cmd.Process.Kill()
		<-r.lines
	}()
	w.ID, w.Epoch, w.Subject, w.Generation = fleet.NewID[fleet.JobID](), 0, fleet.SubjectVM(w.VM.ID), w.VM.Generation
	d.update(func() { d.order, d.onStep = &w, at })
	limit := time.After(guestStepTimeout)
	for c.stepCount = 0; ; {
		select {
		case <-limit:
			d.t.Fatalf("%s, %s at place %d: the job has not ended", w.Kind, f.name, n)
		case a := <-asks:
			goOn := true
			if c.stepCount++; c.stepCount == n {
				where = a.step
				goOn = f.inject(c, r, n)
			}
			passed(a.step)
			a.decision <- goOn
		case end = <-d.results:
			return where, end
		case <-r.lines:
			r = d.startAgent(c.proxy.socket)
		}
	}
}
