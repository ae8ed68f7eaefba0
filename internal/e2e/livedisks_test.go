//go:build linux && ordeal

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

// TestRunningVMMigratesWithLocalDisks migrates a running VM in the browser between two real hosts that share no storage,
// and back through the portal's relay. The disk keeps its content, the old file is deleted, and an open console follows
// the VM without a click.
func TestRunningVMMigratesWithLocalDisks(t *testing.T) {
	t.Parallel()
	s := newSwitchedLab(t, "localdisks")
	dir := "/var/lib/libvirt/images/" + uniqueName("local")
	pool := requestJSON[fleet.PoolView](t, s.api, http.StatusCreated, http.MethodPost, "/api/v1/pools", map[string]any{
		"name": filepath.Base(dir), "hostIds": []fleet.HostID{s.hosts[0].ID, s.hosts[1].ID}, "spec": map[string]any{"kind": "dir", "path": dir},
	})
	eventually(t, guestLimit, "the pool on both hosts", func() (bool, string) {
		on := requestJSON[fleet.PoolView](t, s.api, http.StatusOK, http.MethodGet, "/api/v1/pools/"+string(pool.ID), nil).Hosts
		return len(on) == 2 && on[0].State == fleet.PoolActive && on[1].State == fleet.PoolActive, fmt.Sprintf("%+v", on)
	})
	diskFile := func(host int, volume string) string {
		return filepath.Join(fmt.Sprintf("/proc/%d/root", s.agentPID(t, host)), dir, volume)
	}
	qemuIO := func(file, command string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), "qemu-io", "-f", "qcow2", "-c", command, file).CombinedOutput(); err != nil || strings.Contains(string(out), "failed") {
			t.Fatalf("qemu-io %s %s: %v: %s", command, file, err, out)
		}
	}
	const name = "mover"
	vm := requestJSON[fleet.VMView](t, s.api, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
		"name": name, "projectId": s.projectByName(t, "lab").ID, "hostId": s.hosts[0].ID,
		"spec": map[string]any{"cpus": 1, "memoryMiB": 128, "disks": []any{map[string]any{"poolId": pool.ID, "sizeBytes": 64 << 20}}},
	})
	s.waitPhase(t, guestLimit, vm.ID, fleet.PhaseStopped)
	qemuIO(diskFile(0, vm.Spec.Disks[0].Volume), "write -P 0x5a 1M 8M")
	path := "/vms/" + string(vm.ID)
	act := func(action string, phase fleet.Phase) {
		t.Helper()
		requestJSON[any](t, s.api, http.StatusAccepted, http.MethodPost, "/api/v1"+path+"/actions", map[string]any{"action": action})
		s.waitPhase(t, guestLimit, vm.ID, phase)
	}
	act("start", fleet.PhaseRunning)

	p := newTab(t, s.URL)
	p.signIn(s.playground)
	console := p.sameBrowserTab()
	console.allowFaults("WebSocket") // the console of the old host ends
	console.open(path + "/console")
	console.waitTrue("the console's connection", `document.querySelector("#console").dataset.state === "connected"`)
	console.waitTrue("the observer of the console's state", `(() => {
		const at = document.querySelector("#console"); window.states = [];
		new MutationObserver(() => window.states.push(at.dataset.state)).observe(at, { attributes: true, attributeFilter: ["data-state"] });
		return true;
	})()`)

	for _, to := range []int{1, 0} {
		before := s.getVM(t, vm.ID).Spec.Disks[0]
		if to == 1 {
			p.open(path + "/migrate")
			p.waitText("main", "keeps running")
			p.waitTrue("the choice of the only suitable target", `document.querySelector("select[name=to]").selectedOptions[0].text.includes("Live, copies disks")`)
			p.click(".dialog-form button", "Migrate")
		} else {
			s.runInNetwork(t, 0, "iptables", "-I", "INPUT", "-p", "tcp", "--syn", "-j", "DROP") // connections that the host itself opens still work
			requestJSON[fleet.Task](t, s.api, http.StatusAccepted, http.MethodPost, "/api/v1"+path+"/migrate", map[string]any{"mode": "live"})
		}
		eventually(t, guestLimit, fmt.Sprintf("the VM on host-%d", to+1), func() (bool, string) {
			got := s.getVM(t, vm.ID)
			return got.HostID == s.hosts[to].ID && got.Phase == fleet.PhaseRunning && got.Status.Drift == nil, fmt.Sprintf("%s, %s", got.HostName, got.Phase)
		})
		var task fleet.Task
		eventually(t, stepLimit, "the end of the migration's task", func() (bool, string) {
			task = listFirstPage[fleet.Task](t, s.api, "/api/v1/tasks?filter=kind:vm.migrate+target:"+name)[0]
			return task.State == fleet.JobDone, string(task.State) + " " + task.Error
		})
		if relayed := strings.Contains(task.Note, "relayed by the portal"); relayed != (to == 0) {
			t.Errorf("the note of the migration to host-%d is %q", to+1, task.Note)
		}
		if out := virsh(t, s.Hosts[1-to], "list", "--all", "--name"); strings.Contains(out, name) {
			t.Errorf("the old host still has the VM: %s", out)
		}
		eventually(t, guestLimit, "the old disk's end", func() (bool, string) {
			_, err := os.Stat(diskFile(1-to, before.Volume))
			return os.IsNotExist(err), before.Volume
		})
		console.waitTrue("the console's new connection", `window.states.includes("disconnected") && window.states.at(-1) === "connected"`)
		console.waitTrue("the reset of the observer", `(window.states = [], true)`)
	}
	got := s.getVM(t, vm.ID)
	if got.Attention || len(got.Status.Faults) > 0 {
		t.Errorf("after the migrations the VM is %+v", got.Status)
	}
	act("stop", fleet.PhaseStopped)
	qemuIO(diskFile(0, got.Spec.Disks[0].Volume), "read -P 0x5a 1M 8M")
}
