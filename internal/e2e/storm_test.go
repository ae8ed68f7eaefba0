//go:build linux && ordeal

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"quantix/agent"
	"quantix/internal/fleet"
)

const (
	simulated  = 8                             // hosts beside the real one
	stormLimit = fleet.Freshness + time.Second // after which a fault has aged all that was known before it
	longer     = stormLimit + 4*time.Second    // how long a fault lasts that must be seen
	shorter    = 700 * time.Millisecond        // and one that need not
	stormWants = 200                           // faults in all
)

// Where a VM and its host are shown.
const (
	inAPI  = "API"
	onPage = "page"
	onList = "list"
	ofHost = "host"
)

// stormHost is a host in the storm, with its one VM and what is true of them.
type stormHost struct {
	name     string
	vm       fleet.VMView
	cutProxy *cutProxy

	mu    sync.Mutex
	blind time.Time            // since when nobody can have looked at its hypervisor, or told the portal; zero: one can
	dead  time.Time            // since when the VM does not run; zero: it does, or was asked to
	asked map[string]time.Time // where it is shown -> when the last answer was asked for
	phase string               // of the host, as it was last shown
}

func (h *stormHost) set(at *time.Time, to time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	*at = to
}

// storm is a portal under which everything fails, and those who look at its pages all the while.
type storm struct {
	*rig
	a      api
	hosts  []*stormHost
	faults atomic.Int64
	judged sync.Map // what was shown -> *atomic.Int64: how often
	wrong  atomic.Int64

	// alone ends with the faults during which nothing else may keep the pages from answering: what they prove is in their last seconds.
	alone chan struct{}
}

// TestNoFactOutlivesItsLimit takes agents, libvirtd, QEMU, the network and PostgreSQL away, 200 times in all, while pages and the
// API are asked without a pause: no fact older than its limit is shown as present.
func TestNoFactOutlivesItsLimit(t *testing.T) {
	t.Parallel()
	s := newStorm(t)
	over := make(chan struct{})
	var probes, faults sync.WaitGroup
	probes.Go(func() { s.probe(over, s.probeAPI) })
	probes.Go(func() { s.probe(over, s.probePages) })
	for i, h := range s.hosts[1:] {
		faults.Go(func() { s.shakeSimulated(h, i) })
	}
	faults.Go(s.shakeReal)
	faults.Go(s.shakePostgres)
	faults.Wait()
	close(over)
	probes.Wait()
	for _, h := range s.hosts {
		eventually(t, 2*stepLimit, h.name+" to be well after the storm", func() (bool, string) {
			got := s.a.host(t, h.name)
			return got.Phase == fleet.HostOnline, string(got.Phase)
		})
	}
	if n := s.faults.Load(); n < stormWants {
		t.Errorf("there were %d faults, want %d", n, stormWants)
	}
	for _, what := range []string{"API running", "API unknown", "page Running", "page Unknown", "list Running", "list Unknown", "host online", "host unknown", "host degraded"} {
		if n, ok := s.judged.Load(what); !ok {
			t.Errorf("nobody ever saw %q, so the storm proves nothing", what)
		} else {
			t.Logf("%s: seen %d times", what, n.(*atomic.Int64).Load())
		}
	}
}

func newStorm(t *testing.T) *storm {
	s := &storm{rig: newBareRig(t, unique("stormy"), 21), alone: make(chan struct{})}
	s.a = s.api()
	project := ask[fleet.Project](t, s.a, http.StatusCreated, http.MethodPost, "/api/v1/projects", map[string]any{"name": "storm"})
	libvirt := &stormHost{name: s.rig.name, cutProxy: newCutProxy(t, s.agentURL), asked: map[string]time.Time{}}
	s.rig.cutProxy = libvirt.cutProxy.url
	s.joinHost()
	s.hosts = []*stormHost{libvirt}
	var mu sync.Mutex
	var join sync.WaitGroup
	for range simulated {
		h := &stormHost{name: unique("cloud"), cutProxy: newCutProxy(t, s.agentURL), asked: map[string]time.Time{}}
		join.Go(func() {
			s.joinSimulated(h)
			mu.Lock()
			defer mu.Unlock()
			s.hosts = append(s.hosts, h)
		})
	}
	join.Wait()
	if t.Failed() {
		t.FailNow()
	}
	for _, h := range s.hosts {
		h.vm = ask[fleet.VMView](t, s.a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
			"name": unique("drop"), "projectId": project.ID, "hostId": s.a.host(t, h.name).ID, "start": true, "spec": map[string]any{"cpus": 1, "memoryMiB": 128},
		})
	}
	for _, h := range s.hosts {
		s.a.waitPhase(t, guestLimit, h.vm.ID, fleet.PhaseRunning)
	}
	return s
}

func (s *storm) agentDir(h *stormHost) string { return filepath.Join(s.rig.dir, h.name) }

func (s *storm) simulatedArgs(h *stormHost) []string {
	return []string{"--name", h.name, "--data-dir", s.agentDir(h), "--hypervisor", "mock"}
}

func (s *storm) joinSimulated(h *stormHost) {
	got, err := s.a.send(s.t.Context(), http.MethodPost, "/api/v1/join-tokens", map[string]any{})
	var token fleet.JoinToken
	if err == nil {
		err = json.Unmarshal(got.body, &token)
	}
	if err == nil {
		// All are on this one machine, so each gets a UUID of its own.
		_, err = agent.Join(s.t.Context(), agent.JoinOptions{
			Portal: h.cutProxy.url, Token: token.Secret, Name: h.name, HostUUID: fleet.NewID[string](), DataDir: s.agentDir(h),
		})
	}
	if err != nil {
		s.t.Errorf("join: %v", err)
		return
	}
	s.runAgent(h.name, s.simulatedArgs(h)...)
	eventually(s.t, stepLimit, "the first report of "+h.name, func() (bool, string) {
		got, err := s.a.send(s.t.Context(), http.MethodGet, "/api/v1/hosts?filter=phase:online+name:"+h.name, nil)
		return err == nil && strings.Contains(string(got.body), h.name), string(got.body)
	})
}

// last lets a fault last, and counts it.
func (s *storm) last(d time.Duration) {
	s.faults.Add(1)
	select {
	case <-time.After(d):
	case <-s.t.Context().Done():
	}
}

// lastSeen lets a fault of a host last until each place has shown its VM after the limit: what must be seen is.
func (s *storm) lastSeen(h *stormHost, begun time.Time) {
	s.last(longer)
	eventually(s.t, 4*stepLimit, "a look at "+h.name+" after its limit", func() (bool, string) {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, where := range []string{inAPI, onList, onPage, ofHost} {
			if h.asked[where].Sub(begun) <= stormLimit {
				return false, where
			}
		}
		return true, ""
	})
}

// blinded does a fault that keeps the portal from knowing about a host's guests.
func (s *storm) blinded(h *stormHost, d time.Duration, begin, end func()) {
	begin()
	begun := time.Now()
	h.set(&h.blind, begun)
	if d == longer {
		s.lastSeen(h, begun)
	} else {
		s.last(d)
	}
	h.set(&h.blind, time.Time{}) // before it ends: from then on everything may be told anew
	end()
	s.last0(shorter)
}

// last0 is the time between two faults.
func (s *storm) last0(d time.Duration) { s.last(d); s.faults.Add(-1) }

// shakeSimulated does 22 faults to a host whose guests live in its agent's process.
func (s *storm) shakeSimulated(h *stormHost, number int) {
	pid := func() int { return pidOf(s.t, s.agentDir(h)) }
	kill := func(signal syscall.Signal) func() { return func() { _ = syscall.Kill(pid(), signal) } }
	stop, cont := kill(syscall.SIGSTOP), kill(syscall.SIGCONT)
	s.last0(time.Duration(number) * 150 * time.Millisecond)
	for range 6 {
		s.blinded(h, shorter, stop, cont)
		s.blinded(h, shorter, h.cutProxy.hold, h.cutProxy.open)
		s.blinded(h, 0, h.cutProxy.cut, func() {})
	}
	s.blinded(h, longer, stop, cont)
	s.blinded(h, longer, h.cutProxy.hold, h.cutProxy.open)
	// Its guests die with the agent; the next one knows of none.
	s.dies(h, longer, kill(syscall.SIGKILL), func() { s.runAgent(h.name, s.simulatedArgs(h)...) })
	s.dies(h, shorter, func() { h.cutProxy.hold(); kill(syscall.SIGKILL)() }, func() { s.last0(longer); h.cutProxy.open(); s.runAgent(h.name, s.simulatedArgs(h)...) })
}

// dies kills the VM and what could tell of it, and starts it again after.
func (s *storm) dies(h *stormHost, d time.Duration, begin, end func()) {
	begin()
	begun := time.Now()
	h.set(&h.dead, begun)
	if d == longer {
		s.lastSeen(h, begun)
	} else {
		s.last(d)
	}
	end()
	s.again(h)
}

// again starts the VM anew, once it is known that it does not run.
func (s *storm) again(h *stormHost) {
	eventually(s.t, 2*stepLimit, "a new start of "+h.vm.Name, func() (bool, string) {
		got, err := s.a.send(s.t.Context(), http.MethodPost, "/api/v1/vms/"+string(h.vm.ID)+"/actions", map[string]any{"action": "start"})
		if err != nil || got.status != http.StatusAccepted {
			return false, fmt.Sprintf("%v %s", err, got.body)
		}
		return true, ""
	})
	h.set(&h.dead, time.Time{})
	eventually(s.t, 2*stepLimit, h.vm.Name+" to run again", func() (bool, string) {
		got, err := s.a.send(s.t.Context(), http.MethodGet, "/api/v1/vms/"+string(h.vm.ID), nil)
		return err == nil && strings.Contains(string(got.body), `"phase":"running"`), string(got.body)
	})
}

// shakeReal does 22 faults to the host with a real libvirtd and QEMU. The first is the one by which a dead guest was shown as
// running for 41 s: libvirtd hangs, and then its guest is killed.
func (s *storm) shakeReal() {
	h := s.hosts[0]
	over := sync.OnceFunc(func() { close(s.alone) })
	defer over()
	path, err := binary()
	if err != nil {
		s.t.Error(err)
		return
	}
	libvirtd := func(signal string) func() {
		return func() {
			if out, err := s.host.Command(s.t.Context(), "sh", "-c", "kill -"+signal+" $(cat /run/libvirt/libvirtd.pid)").CombinedOutput(); err != nil {
				s.t.Errorf("libvirtd: %v: %s", err, out)
			}
		}
	}
	stop, cont := libvirtd("STOP"), libvirtd("CONT")
	killed := func() {
		if err := s.host.KillLibvirtd(s.t.Context()); err != nil {
			s.t.Error(err)
		}
	}
	started := func() {
		if err := s.host.StartLibvirtd(s.t.Context()); err != nil {
			s.t.Error(err)
		}
	}
	qemu := func() { _ = syscall.Kill(guest(s.t, h.vm.Name), syscall.SIGKILL) }
	theAgent := func(signal syscall.Signal) func() {
		return func() { _ = syscall.Kill(pidOf(s.t, filepath.Join(s.rig.dir, "h", "agent")), signal) }
	}
	stop()
	s.dies(h, longer, qemu, func() {
		h.set(&h.dead, time.Now()) // let go, libvirtd tells whoever looks what it last knew, until it hears of its guest's end
		cont()
	})
	s.faults.Add(1) // two at once
	s.blinded(h, longer, killed, func() {
		h.mu.Lock()
		if h.phase != string(fleet.HostDegraded) {
			s.t.Errorf("a host without its libvirtd is shown as %s", h.phase)
		}
		h.mu.Unlock()
		over()
		started()
	})
	for range 4 {
		s.blinded(h, shorter, stop, cont)
		s.blinded(h, shorter, theAgent(syscall.SIGSTOP), theAgent(syscall.SIGCONT))
		s.blinded(h, shorter, h.cutProxy.hold, h.cutProxy.open)
		s.dies(h, shorter, qemu, func() {})
	}
	s.blinded(h, shorter, killed, started)
	s.blinded(h, 0, theAgent(syscall.SIGKILL), func() { s.startAgent(path) })
	s.blinded(h, longer, theAgent(syscall.SIGSTOP), theAgent(syscall.SIGCONT))
}

// shakePostgres freezes and kills the portal's database, under all the other faults.
func (s *storm) shakePostgres() {
	select {
	case <-s.alone:
	case <-s.t.Context().Done():
	}
	for _, d := range []time.Duration{shorter, 2 * time.Second, shorter, 6 * time.Second, longer, shorter} {
		s.signalPostgres(syscall.SIGSTOP)
		s.last(d)
		s.signalPostgres(syscall.SIGCONT)
		s.last0(5 * time.Second)
	}
	for range 2 {
		for _, pid := range slices.Backward(s.postgresProcesses()) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		s.last(7 * time.Second) // it comes back by itself
	}
}

// pidOf is the agent with that data directory, not the shells around it.
func pidOf(t *testing.T, dir string) int {
	path, err := binary()
	if err != nil {
		t.Error(err)
		return 0
	}
	for _, pid := range processesOf(path, "agent", dir) {
		if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err == nil && filepath.Base(exe) == filepath.Base(path) {
			return pid
		}
	}
	t.Errorf("no agent runs on %s", dir)
	return 1 << 22 // no process
}
