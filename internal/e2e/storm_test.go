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
	simulated   = 8                             // number of simulated hosts in addition to the real host
	stormLimit  = fleet.Freshness + time.Second // so long after the start of a fault, all earlier states are stale
	longFault   = stormLimit + 4*time.Second    // duration of faults that must become visible
	shortFault  = 700 * time.Millisecond        // duration of faults that need not become visible
	stormFaults = 200                           // number of faults of all kinds
)

// Places that show the phase of a VM or its host.
const (
	inAPI  = "API"
	onPage = "page"
	onList = "list"
	ofHost = "host"
)

// stormHost is a host in the fault storm, with its only VM and the true state of both.
type stormHost struct {
	name     string
	vm       fleet.VMView
	cutProxy *cutProxy

	mu          sync.Mutex
	blindSince  time.Time            // since when nobody can have read and reported its hypervisor's state; zero: the state can be read
	deadSince   time.Time            // since when the VM does not run; zero: it runs or was started
	lastRequest map[string]time.Time // place -> time of the last request
	phase       string               // phase of the host when last shown
}

func (h *stormHost) setTime(at *time.Time, to time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	*at = to
}

// faultStorm is a portal whose hosts and database have faults, together with probes that read its pages continuously.
type faultStorm struct {
	*faultRig
	a      api
	hosts  []*stormHost
	faults atomic.Int64
	judged sync.Map // place and phase -> *atomic.Int64: how often shown
	wrong  atomic.Int64

	// exclusive is closed when the first two long faults of libvirtd have ended. Until then, no PostgreSQL fault may make
	// pages unavailable, because the probes must read the pages in the last seconds of these faults.
	exclusive chan struct{}
}

// TestNoStaleStateShownAsCurrent injects 200 faults into agents, libvirtd, QEMU, the network and PostgreSQL, while
// probes read pages and the API. No state older than its limit may be shown as current.
func TestNoStaleStateShownAsCurrent(t *testing.T) {
	t.Parallel()
	s := newStorm(t)
	over := make(chan struct{})
	var probes, faults sync.WaitGroup
	probes.Go(func() { s.probeUntil(over, s.probeAPI) })
	probes.Go(func() { s.probeUntil(over, s.probePages) })
	for i, h := range s.hosts[1:] {
		faults.Go(func() { s.faultsOnSimulated(h, i) })
	}
	faults.Go(s.faultsOnReal)
	faults.Go(s.faultsOnPostgres)
	faults.Wait()
	close(over)
	probes.Wait()
	for _, h := range s.hosts {
		eventually(t, 2*stepLimit, h.name+" to be well after the storm", func() (bool, string) {
			got := s.a.hostByName(t, h.name)
			return got.Phase == fleet.HostOnline, string(got.Phase)
		})
	}
	if n := s.faults.Load(); n < stormFaults {
		t.Errorf("there were %d faults, want %d", n, stormFaults)
	}
	for _, what := range []string{"API running", "API unknown", "page Running", "page Unknown", "list Running", "list Unknown", "host online", "host unknown", "host degraded"} {
		if n, ok := s.judged.Load(what); !ok {
			t.Errorf("%q was never shown, so the storm proves nothing", what)
		} else {
			t.Logf("%s: seen %d times", what, n.(*atomic.Int64).Load())
		}
	}
}

func newStorm(t *testing.T) *faultStorm {
	s := &faultStorm{faultRig: newRigWithoutHost(t, uniqueName("stormy"), 21), exclusive: make(chan struct{})}
	s.a = s.api()
	project := requestJSON[fleet.Project](t, s.a, http.StatusCreated, http.MethodPost, "/api/v1/projects", map[string]any{"name": "storm"})
	libvirt := &stormHost{name: s.faultRig.name, cutProxy: newCutProxy(t, s.agentURL), lastRequest: map[string]time.Time{}}
	s.faultRig.cutProxy = libvirt.cutProxy.url
	s.joinHost()
	s.hosts = []*stormHost{libvirt}
	var mu sync.Mutex
	var join sync.WaitGroup
	for range simulated {
		h := &stormHost{name: uniqueName("cloud"), cutProxy: newCutProxy(t, s.agentURL), lastRequest: map[string]time.Time{}}
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
		h.vm = requestJSON[fleet.VMView](t, s.a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
			"name": uniqueName("drop"), "projectId": project.ID, "hostId": s.a.hostByName(t, h.name).ID, "start": true, "spec": map[string]any{"cpus": 1, "memoryMiB": 128},
		})
	}
	for _, h := range s.hosts {
		s.a.waitPhase(t, guestLimit, h.vm.ID, fleet.PhaseRunning)
	}
	return s
}

func (s *faultStorm) agentDir(h *stormHost) string { return filepath.Join(s.faultRig.dir, h.name) }

func (s *faultStorm) simulatedArgs(h *stormHost) []string {
	return []string{"--name", h.name, "--data-dir", s.agentDir(h), "--hypervisor", "mock"}
}

func (s *faultStorm) joinSimulated(h *stormHost) {
	got, err := s.a.send(s.t.Context(), http.MethodPost, "/api/v1/join-tokens", map[string]any{})
	var token fleet.JoinToken
	if err == nil {
		err = json.Unmarshal(got.body, &token)
	}
	if err == nil {
		// All simulated hosts are on one machine, so each of them needs a UUID of its own.
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
		got, err := s.a.send(s.t.Context(), http.MethodGet, "/api/v1/hosts?filter=state:online+name:"+h.name, nil)
		return err == nil && strings.Contains(string(got.body), h.name), string(got.body)
	})
}

// keepFault waits while a fault lasts, and counts the fault.
func (s *faultStorm) keepFault(d time.Duration) {
	s.faults.Add(1)
	select {
	case <-time.After(d):
	case <-s.t.Context().Done():
	}
}

// keepFaultUntilShown lets a host's fault last until each place was requested after stormLimit, so that every place
// must show the fault.
func (s *faultStorm) keepFaultUntilShown(h *stormHost, begun time.Time) {
	s.keepFault(longFault)
	eventually(s.t, 4*stepLimit, "a request for "+h.name+" after its limit", func() (bool, string) {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, where := range []string{inAPI, onList, onPage, ofHost} {
			if h.lastRequest[where].Sub(begun) <= stormLimit {
				return false, where
			}
		}
		return true, ""
	})
}

// blindHost injects a fault that keeps reports on a host's guests from the portal.
func (s *faultStorm) blindHost(h *stormHost, d time.Duration, begin, end func()) {
	begin()
	begun := time.Now()
	h.setTime(&h.blindSince, begun)
	if d == longFault {
		s.keepFaultUntilShown(h, begun)
	} else {
		s.keepFault(d)
	}
	h.setTime(&h.blindSince, time.Time{}) // reset before the fault ends, because new reports may then arrive at once
	end()
	s.pauseBetweenFaults(shortFault)
}

// pauseBetweenFaults waits between two faults.
func (s *faultStorm) pauseBetweenFaults(d time.Duration) { s.keepFault(d); s.faults.Add(-1) }

// faultsOnSimulated injects 22 faults into a simulated host, whose guests exist only in its agent's process.
func (s *faultStorm) faultsOnSimulated(h *stormHost, number int) {
	pid := func() int { return simulatedAgentPID(s.t, s.agentDir(h)) }
	kill := func(signal syscall.Signal) func() { return func() { _ = syscall.Kill(pid(), signal) } }
	stop, cont := kill(syscall.SIGSTOP), kill(syscall.SIGCONT)
	s.pauseBetweenFaults(time.Duration(number) * 150 * time.Millisecond)
	for range 6 {
		s.blindHost(h, shortFault, stop, cont)
		s.blindHost(h, shortFault, h.cutProxy.pause, h.cutProxy.resume)
		s.blindHost(h, 0, h.cutProxy.cut, func() {})
	}
	s.blindHost(h, longFault, stop, cont)
	s.blindHost(h, longFault, h.cutProxy.pause, h.cutProxy.resume)
	// The simulated guests end with the agent's process, and the restarted agent does not start the guests again.
	s.killVM(h, longFault, kill(syscall.SIGKILL), func() { s.runAgent(h.name, s.simulatedArgs(h)...) })
	s.killVM(h, shortFault, func() { h.cutProxy.pause(); kill(syscall.SIGKILL)() }, func() {
		s.pauseBetweenFaults(longFault)
		h.cutProxy.resume()
		s.runAgent(h.name, s.simulatedArgs(h)...)
	})
}

// killVM kills the VM, together with its agent if begin does so, and starts the VM again afterwards.
func (s *faultStorm) killVM(h *stormHost, d time.Duration, begin, end func()) {
	begin()
	begun := time.Now()
	h.setTime(&h.deadSince, begun)
	if d == longFault {
		s.keepFaultUntilShown(h, begun)
	} else {
		s.keepFault(d)
	}
	end()
	s.restartVM(h)
}

// restartVM starts the VM once the portal reports the VM's end.
func (s *faultStorm) restartVM(h *stormHost) {
	eventually(s.t, 2*stepLimit, "a new start of "+h.vm.Name, func() (bool, string) {
		got, err := s.a.send(s.t.Context(), http.MethodPost, "/api/v1/vms/"+string(h.vm.ID)+"/actions", map[string]any{"action": "start"})
		if err != nil || got.status != http.StatusAccepted {
			return false, fmt.Sprintf("%v %s", err, got.body)
		}
		return true, ""
	})
	h.setTime(&h.deadSince, time.Time{})
	eventually(s.t, 2*stepLimit, h.vm.Name+" to run again", func() (bool, string) {
		got, err := s.a.send(s.t.Context(), http.MethodGet, "/api/v1/vms/"+string(h.vm.ID), nil)
		return err == nil && strings.Contains(string(got.body), `"phase":"running"`), string(got.body)
	})
}

// faultsOnReal injects 22 faults into the host with a real libvirtd and QEMU. The first fault once made the portal show
// a dead guest as running for 41 s: libvirtd hangs, and then its guest is killed.
func (s *faultStorm) faultsOnReal() {
	h := s.hosts[0]
	over := sync.OnceFunc(func() { close(s.exclusive) })
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
	qemu := func() { _ = syscall.Kill(guestPID(s.t, h.vm.Name), syscall.SIGKILL) }
	theAgent := func(signal syscall.Signal) func() {
		return func() { _ = syscall.Kill(simulatedAgentPID(s.t, filepath.Join(s.faultRig.dir, "h", "agent")), signal) }
	}
	stop()
	s.killVM(h, longFault, qemu, func() {
		// After SIGCONT, libvirtd reports its last known state until it notices that the guest has ended.
		h.setTime(&h.deadSince, time.Now())
		cont()
	})
	s.faults.Add(1) // these are two faults at the same time
	s.blindHost(h, longFault, killed, func() {
		h.mu.Lock()
		if h.phase != string(fleet.HostDegraded) {
			s.t.Errorf("a host without libvirtd is shown as %s", h.phase)
		}
		h.mu.Unlock()
		over()
		started()
	})
	for range 4 {
		s.blindHost(h, shortFault, stop, cont)
		s.blindHost(h, shortFault, theAgent(syscall.SIGSTOP), theAgent(syscall.SIGCONT))
		s.blindHost(h, shortFault, h.cutProxy.pause, h.cutProxy.resume)
		s.killVM(h, shortFault, qemu, func() {})
	}
	s.blindHost(h, shortFault, killed, started)
	s.blindHost(h, 0, theAgent(syscall.SIGKILL), func() { s.startAgent(path) })
	s.blindHost(h, longFault, theAgent(syscall.SIGSTOP), theAgent(syscall.SIGCONT))
}

// faultsOnPostgres freezes and kills the portal's database, while the other faults continue.
func (s *faultStorm) faultsOnPostgres() {
	select {
	case <-s.exclusive:
	case <-s.t.Context().Done():
	}
	for _, d := range []time.Duration{shortFault, 2 * time.Second, shortFault, 6 * time.Second, longFault, shortFault} {
		s.signalPostgres(syscall.SIGSTOP)
		s.keepFault(d)
		s.signalPostgres(syscall.SIGCONT)
		s.pauseBetweenFaults(5 * time.Second)
	}
	for range 2 {
		for _, pid := range slices.Backward(s.postgresProcesses()) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		s.keepFault(7 * time.Second) // the portal restarts the database without a command
	}
}

// simulatedAgentPID returns the process ID of the agent with the given data directory, not of the shells around it.
func simulatedAgentPID(t *testing.T, dir string) int {
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
	return 1 << 22 // above the highest process ID
}
