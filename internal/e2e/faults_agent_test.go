//go:build linux && ordeal

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"quantix/internal/fleet"
)

// TestVMCreatedOnceWhenAgentKilled kills a real host's agent while it creates a VM. The lab restarts the agent, as
// systemd would. After its lease has ended, the job must be claimed again, and the VM must be created exactly once.
func TestVMCreatedOnceWhenAgentKilled(t *testing.T) {
	t.Parallel()
	s := labProgram.get(t)
	a := s.api()
	host, pool := a.hostByName(t, "host-2"), a.poolByName(t, "shared")
	for try := 1; ; try++ {
		name := uniqueName("halfway")
		vm := requestJSON[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
			"name": name, "projectId": a.projectByName(t, "lab").ID, "hostId": host.ID,
			"spec": map[string]any{"cpus": 1, "memoryMiB": 256, "disks": []any{
				map[string]any{"poolId": pool.ID, "image": map[string]any{"poolId": pool.ID, "volume": "tiny-guest.qcow2"}},
			}},
		})
		s.killAgentDuringJob(t, vm.ID)
		a.waitPhase(t, fleet.Lease+stepLimit, vm.ID, fleet.PhaseStopped)
		s.checkCreatedOnce(t, name, vm.ID)
		job := s.creationTask(t, vm.ID)
		if job.Attempt > 1 {
			return
		}
		if try == 4 {
			t.Fatalf("the agent finished the job before it was killed, %d times: %+v", try, job)
		}
	}
}

// killAgentDuringJob waits until an agent has claimed the VM's job, and kills the second host's agent with SIGKILL.
func (s *playground) killAgentDuringJob(t *testing.T, id fleet.VMID) {
	t.Helper()
	pid := labAgentPID(t, hostDir(1))
	deadline := time.Now().Add(stepLimit)
	for s.creationTask(t, id).State == fleet.JobQueued {
		if time.Now().After(deadline) {
			t.Fatal("the job was not claimed")
		}
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// creationTask returns the task that creates the VM with the ID.
func (s *playground) creationTask(t *testing.T, id fleet.VMID) fleet.Task {
	t.Helper()
	jobs := listFirstPage[fleet.Task](t, s.api(), "/api/v1/tasks?limit=50")
	for _, j := range jobs {
		if j.Subject == fleet.SubjectVM(id) && j.Kind == fleet.VMApply {
			return j
		}
	}
	t.Fatalf("no task is about the VM %s: %+v", id, jobs)
	return fleet.Task{}
}

// checkCreatedOnce fails the test unless the host has exactly one domain and one disk of the VM.
func (s *playground) checkCreatedOnce(t *testing.T, name string, id fleet.VMID) {
	t.Helper()
	if n := strings.Count("\n"+virsh(t, s.Hosts[1], "list", "--all", "--name")+"\n", "\n"+name+"\n"); n != 1 {
		t.Errorf("the host has %d domains named %s, want 1", n, name)
	}
	files, err := filepath.Glob(filepath.Join(labDir(), "shared", name+"*"))
	if err != nil || len(files) != 1 {
		t.Errorf("the pool holds %v for %s (%v), want one file", files, name, err)
	}
	vm := s.api().getVM(t, id)
	if len(vm.Status.Disks) != 1 || vm.Status.Disks[0].SizeBytes < 64<<20 {
		t.Errorf("the disks of %s are %+v, want one of 64 MiB", name, vm.Status.Disks)
	}
}

// labAgentPID returns the process ID of a lab host's agent, not of the shells around it.
func labAgentPID(t *testing.T, dir string) int {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range processesOf(path, "agent", filepath.Join(dir, "agent")) {
		if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err == nil && filepath.Base(exe) == filepath.Base(path) {
			return pid
		}
	}
	t.Fatalf("no agent runs on %s", dir)
	return 0
}

// TestCopiedIdentityReportedAsConflict runs a second agent with a copy of the first agent's data directory, as a cloned
// machine would.
func TestCopiedIdentityReportedAsConflict(t *testing.T) {
	t.Parallel()
	p := newPortal(t, uniqueName("copied"))
	_, dir := p.startMockAgent("original")
	twin := dir + "-twin"
	copyDir(t, twin, dir)
	second := p.runAgent(filepath.Base(twin), "--name", "original", "--data-dir", twin, "--hypervisor", "mock")
	eventually(t, stepLimit, "the flag of the host", func() (bool, string) {
		h := p.api().hostByName(t, "original")
		return h.Phase == fleet.HostConflict && h.Conflict != "", string(h.Phase)
	})
	eventually(t, stepLimit, "the second agent's reason in its log", func() (bool, string) {
		text := lastLinesOfFile(second.log, 20)
		return strings.Contains(text, "stays passive"), text
	})
}
