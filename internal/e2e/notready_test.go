//go:build linux && ordeal

package e2e

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"quantix/internal/fleet"
)

// TestStoppedAgentMakesHostNotReady stops a host's agent with SIGSTOP. Three report intervals after its last report, and
// not before, the host must be not ready and its VM unknown. Once the agent continues, both are as before: the same QEMU
// process runs, and nothing was started or stopped.
func TestStoppedAgentMakesHostNotReady(t *testing.T) {
	t.Parallel()
	s := newSwitchedLab(t, uniqueName("silent"))
	name := uniqueName("quiet")
	vm := requestJSON[fleet.VMView](t, s.api, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
		"name": name, "projectId": s.projectByName(t, "lab").ID, "hostId": s.hosts[0].ID, "start": true, "spec": map[string]any{"cpus": 1, "memoryMiB": 128},
	})
	s.waitPhase(t, guestLimit, vm.ID, fleet.PhaseRunning)
	pid, agent := guestPID(t, name), s.agentPID(t, 0)
	tasks := func() int { return len(listFirstPage[fleet.Task](t, s.api, "/api/v1/tasks?limit=200")) }
	before := tasks()

	if err := syscall.Kill(agent, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(agent, syscall.SIGCONT) })
	var silence time.Duration
	eventually(t, 2*fleet.Freshness, "the host is not ready", func() (bool, string) {
		h := s.hostByName(t, "host-1")
		silence = time.Since(h.SeenAt.Time)
		return h.Phase == fleet.HostUnknown && h.Lifecycle == fleet.LifecycleNotReady, fmt.Sprintf("%s, %s after %s", h.Phase, h.Lifecycle, silence)
	})
	t.Logf("the host was not ready %s after its last report", silence)
	if silence < fleet.Freshness {
		t.Errorf("the host was not ready after %s already", silence)
	}
	if got := s.getVM(t, vm.ID); got.Phase != fleet.PhaseUnknown {
		t.Errorf("the VM is %s", got.Phase)
	}

	if err := syscall.Kill(agent, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	eventually(t, stepLimit, "the host is ready again", func() (bool, string) {
		h := s.hostByName(t, "host-1")
		return h.Lifecycle == fleet.LifecycleReady, string(h.Lifecycle)
	})
	s.waitPhase(t, stepLimit, vm.ID, fleet.PhaseRunning)
	if now := guestPID(t, name); now != pid {
		t.Errorf("the guest's process is %d, was %d", now, pid)
	}
	if n := tasks(); n != before {
		t.Errorf("there are %d tasks, were %d", n, before)
	}
}
