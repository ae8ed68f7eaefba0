//go:build linux

package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/maintenance"
)

// captureHalfDrainedHost captures a live migration that failed, a host whose maintenance was cancelled in the middle, the
// dialogs that continue and end the maintenance, and a host in maintenance.
func captureHalfDrainedHost(t *testing.T) {
	t.Parallel()
	s, err := startPlayground(uniqueName("drained"), []string{"TMPDIR=" + demoTemp()}, "demo", "--json", "--listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.signal(syscall.SIGTERM); err != nil {
			t.Errorf("the demo ended with %v", err)
		}
	})
	a := s.api()
	type actionAnswer struct {
		fleet.HostView
		Task *fleet.Task       `json:"task"`
		Plan *maintenance.Plan `json:"plan"`
	}
	act := func(host fleet.HostView, query string, in map[string]any) actionAnswer {
		return requestJSON[actionAnswer](t, a, http.StatusOK, http.MethodPost, "/api/v1/hosts/"+string(host.ID)+"/actions"+query, in)
	}
	decide := func(host fleet.HostView, choose func(maintenance.VM) fleet.MaintenanceDo) map[fleet.VMID]fleet.MaintenanceDecision {
		out := map[fleet.VMID]fleet.MaintenanceDecision{}
		for _, vm := range act(host, "?dryRun=true", map[string]any{"action": "enter-maintenance"}).Plan.VMs {
			if do := choose(vm); do != "" {
				out[vm.ID] = fleet.MaintenanceDecision{Do: do}
			}
		}
		return out
	}
	p := newTab(t, s.URL)
	p.signIn(s)
	first, last := a.hostByName(t, "host-1"), a.hostByName(t, "host-3")
	local := a.poolByName(t, "local-nvme").ID
	requestJSON[any](t, a, http.StatusAccepted, http.MethodPut, "/api/v1/pools/"+string(local)+"/hosts/"+string(last.ID), nil)
	eventually(t, stepLimit, "the local pool on all hosts", func() (bool, string) {
		on := requestJSON[fleet.PoolView](t, a, http.StatusOK, http.MethodGet, "/api/v1/pools/"+string(local), nil).Hosts
		return len(on) == 3 && !slices.ContainsFunc(on, func(h fleet.PoolHost) bool { return h.State != fleet.PoolActive }), fmt.Sprintf("%+v", on)
	})
	full := requestJSON[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
		"name": "fail-send-archive", "projectId": a.projectByName(t, "office").ID, "hostId": last.ID, "start": true,
		"spec": map[string]any{"cpus": 1, "memoryMiB": 256, "disks": []any{map[string]any{"poolId": local, "sizeBytes": 1 << 30}}},
	})
	a.waitPhase(t, guestLimit, full.ID, fleet.PhaseRunning)
	failed := requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodPost, "/api/v1/vms/"+string(full.ID)+"/migrate", map[string]any{"hostId": a.hostByName(t, "host-2").ID, "poolId": a.poolByName(t, "shared").ID})
	a.waitTask(t, failed, fleet.JobFailed)
	p.captureShot(pageShot{"task-migration-failed", "/tasks/" + string(failed.ID), func(p *tab) { p.waitText("main", "No space left on device") }})
	p.captureShot(pageShot{"vm-migration-failed", "/vms/" + string(full.ID) + "?tab=events", func(p *tab) { p.waitText("main", "No space left on device") }})
	p.captureShot(pageShot{"host-maintenance-set", "/hosts/" + string(first.ID) + "/maintenance", func(p *tab) {
		p.chooseOption("#all-undecided", "Leave running")
		p.click("button[name=set][value=undecided]", "Set")
		p.waitText(".dialog-form", "Set all 2 VMs to")
	}})
	task := act(first, "", map[string]any{"action": "enter-maintenance", "decisions": decide(first, func(vm maintenance.VM) fleet.MaintenanceDo {
		switch {
		case !vm.Managed:
			return fleet.MaintenanceLeave
		case vm.Runs && (vm.Proposal == nil || strings.HasPrefix(vm.Name, "web-")):
			return fleet.MaintenanceShutdown
		}
		return ""
	})}).Task
	if answer, err := a.send(t.Context(), http.MethodPost, "/api/v1/tasks/"+string(task.ID)+"/cancel", nil); err != nil || answer.status != http.StatusOK {
		t.Fatalf("the cancellation is answered by %d %s, %v", answer.status, answer.body, err)
	}
	eventually(t, stepLimit, "the end of the cancelled task", func() (bool, string) {
		got := requestJSON[fleet.Task](t, a, http.StatusOK, http.MethodGet, "/api/v1/tasks/"+string(task.ID), nil)
		return got.State.IsFinal(), string(got.State)
	})
	page := "/hosts/" + string(first.ID)
	p.captureShot(pageShot{"host-half-drained", page, func(p *tab) { p.waitText("main", "cannot enter maintenance") }})
	p.captureShot(pageShot{"host-maintenance-resume", page, func(p *tab) {
		p.click(".note-act a", "Resume maintenance")
		p.waitText("#dialog", "Resume maintenance: host-1")
	}})
	p.captureShot(pageShot{"task-maintenance", "/tasks/" + string(task.ID), nil})
	act(first, "", map[string]any{"action": "leave-maintenance"})

	// One guest ignores its shutdown and another one cannot migrate, so that the host stays half drained.
	const deaf = "no-shutdown-plc"
	task = act(last, "", map[string]any{"action": "enter-maintenance", "decisions": decide(last, func(vm maintenance.VM) fleet.MaintenanceDo {
		if vm.Runs && (vm.Proposal == nil || vm.Name == deaf || strings.HasPrefix(vm.Name, "web-")) {
			return fleet.MaintenanceShutdown
		}
		return ""
	})}).Task
	eventually(t, guestLimit, "the end of all other children", func() (bool, string) {
		got := requestJSON[fleet.Task](t, a, http.StatusOK, http.MethodGet, "/api/v1/tasks/"+string(task.ID), nil)
		return got.Steps.Queued == 0 && got.Steps.Running == 1, fmt.Sprintf("%s %+v", got.State, got.Steps)
	})
	page = "/hosts/" + string(last.ID)
	p.captureShot(pageShot{"host-draining", page, func(p *tab) { p.waitText("main", deaf) }})
	for _, vm := range []fleet.VMView{findByName[fleet.VMView](t, a, "vms", deaf), full} {
		requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodPost, "/api/v1/vms/"+string(vm.ID)+"/actions", map[string]any{"action": "stop"})
	}
	p.captureShot(pageShot{"host-in-maintenance", page, func(p *tab) { p.waitText("main", "is in maintenance.") }})
	p.captureShot(pageShot{"host-maintenance-leave", page, func(p *tab) {
		p.click(".note-act a", "Leave maintenance")
		p.waitText("#dialog", "Bring back")
	}})
	p.captureShot(pageShot{"hosts-maintenance", "/hosts", nil})
}
