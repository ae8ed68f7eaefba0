//go:build linux && ordeal

package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/hostcommand"
)

// TestAgentDiagnosticsAndRestartLeaveGuestRunning collects the diagnostics of a real host in the browser and downloads the
// archive, reads the agent's log, and restarts the agent while a guest runs: QEMU's process stays the same. It is not
// parallel, because other tests use the host's agent.
func TestAgentDiagnosticsAndRestartLeaveGuestRunning(t *testing.T) {
	s := labProgram.get(t)
	a := s.api()
	host, shared := a.hostByName(t, "host-1"), a.poolByName(t, "shared").ID
	vm := requestJSON[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
		"name": uniqueName("steady"), "projectId": a.projectByName(t, "lab").ID, "hostId": host.ID, "start": true,
		"spec": map[string]any{"cpus": 1, "memoryMiB": 256, "disks": []any{map[string]any{"poolId": shared, "image": map[string]any{"poolId": shared, "volume": "tiny-guest.qcow2"}}}},
	})
	a.waitPhase(t, guestLimit, vm.ID, fleet.PhaseRunning)
	waitBooted(t, s.Hosts[0], vm.Name)
	page := "/hosts/" + string(host.ID)
	p := newTab(t, s.URL)
	p.signIn(s)

	p.open(page + "?tab=diagnostics")
	p.click("main .card header a.btn", "Run diagnostics")
	p.click(".dialog-form footer button", "Run diagnostics")
	p.waitWithin(guestLimit, "details.card", "Kernel log")
	archive, err := os.ReadFile(p.download("details.card a", "Download"))
	if err != nil {
		t.Fatal(err)
	}
	summary, err := hostcommand.CheckArchive(archive)
	if err != nil {
		t.Fatal(err)
	}
	key := hostKeyLines(t, host.Name)
	for _, i := range summary.Items {
		t.Logf("%-18s %-10s %6.2f s %8d bytes %s", i.Name, i.Status, i.Seconds, i.Bytes, i.Reason)
		text, err := hostcommand.ItemText(archive, i.Name)
		if err != nil {
			t.Error(err)
		}
		for _, secret := range append(key, "PRIVATE KEY-----\n") {
			if strings.Contains(text, secret) {
				t.Errorf("the item %s has a secret", i.Name)
			}
		}
	}
	for name, want := range map[string]string{"domains": vm.Name, "pools": "shared", "hypervisor": "<capabilities>", "settings": "hypervisor: libvirt", "agent": "Running for:"} {
		if text, err := hostcommand.ItemText(archive, name); err != nil || !strings.Contains(text, want) {
			t.Errorf("the item %s lacks %q: %v", name, want, err)
		}
	}

	p.open(page + "?tab=agent-log")
	p.click("main .card header button", "Refresh")
	p.waitWithin(guestLimit, "ol.log", "agent is running")

	pid, before := guestPID(t, vm.Name), a.hostByName(t, "host-1")
	p.open(page + "/restart-agent")
	p.click(".dialog-form footer button", "Restart agent")
	var tasks []fleet.Task
	eventually(t, stepLimit, "the task of the restart", func() (bool, string) {
		tasks = listFirstPage[fleet.Task](t, a, "/api/v1/tasks?filter=kind:host.agent.restart")
		return len(tasks) == 1, ""
	})
	a.waitTask(t, tasks[0], fleet.JobDone)
	if after := guestPID(t, vm.Name); after != pid {
		t.Errorf("the guest's QEMU has the process ID %d, and %d before the restart", after, pid)
	}
	if state := virsh(t, s.Hosts[0], "domstate", vm.Name); state != "running" {
		t.Errorf("the guest is %s", state)
	}
	requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodPost, "/api/v1"+page+"/agent-log", nil)
	p.open(page + "?tab=agent-log")
	p.waitWithin(guestLimit, "ol.log", "agent is running")
	if got := a.getVM(t, vm.ID); got.Phase != fleet.PhaseRunning || before.ID != got.HostID {
		t.Errorf("the VM is %s on %s", got.Phase, got.HostName)
	}
	requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodPost, "/api/v1/vms/"+string(vm.ID)+"/actions", map[string]any{"action": "stop"})
	a.waitPhase(t, guestLimit, vm.ID, fleet.PhaseStopped)
	requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodDelete, "/api/v1/vms/"+string(vm.ID)+"?disks=true&purge=true&confirm="+vm.Name, nil)
}

// hostKeyLines returns the lines of the key of a host's agent in the lab.
func hostKeyLines(t *testing.T, name string) (lines []string) {
	t.Helper()
	dir := map[string]string{"host-1": "h1", "host-2": "h2"}[name]
	text, err := os.ReadFile(filepath.Join(labDir(), dir, "agent", "host.key"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "-----") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}
