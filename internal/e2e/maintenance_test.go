//go:build linux && ordeal

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

// TestMaintenanceEmptiesHostAndBringsVMsBack lets a real host enter maintenance in the browser: a running VM migrates
// live, another one is shut down, and a VM that is off stays. Then the host leaves maintenance, and all of them run or
// are off on it as before. It is not parallel, because other tests place VMs on the host.
func TestMaintenanceEmptiesHostAndBringsVMsBack(t *testing.T) {
	s := labProgram.get(t)
	a := s.api()
	shared, from, to := a.poolByName(t, "shared").ID, a.hostByName(t, "host-1"), a.hostByName(t, "host-2")
	create := func(name string, start bool) fleet.VMView {
		t.Helper()
		vm := requestJSON[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
			"name": uniqueName(name), "projectId": a.projectByName(t, "lab").ID, "hostId": from.ID, "start": start,
			"spec": map[string]any{"cpus": 1, "memoryMiB": 256, "disks": []any{map[string]any{"poolId": shared, "image": map[string]any{"poolId": shared, "volume": "tiny-guest.qcow2"}}}},
		})
		want := fleet.PhaseStopped
		if start {
			want = fleet.PhaseRunning
		}
		a.waitPhase(t, guestLimit, vm.ID, want)
		return vm
	}
	mover, sleeper, off := create("mover", true), create("sleeper", true), create("off", false)
	waitBooted(t, s.Hosts[0], mover.Name)
	waitBooted(t, s.Hosts[0], sleeper.Name)
	waitLifecycle := func(want fleet.HostLifecycle) {
		t.Helper()
		eventually(t, 4*guestLimit, "the lifecycle "+string(want), func() (bool, string) {
			h := requestJSON[fleet.HostView](t, a, http.StatusOK, http.MethodGet, "/api/v1/hosts/"+string(from.ID), nil)
			return h.Lifecycle == want, fmt.Sprintf("%s %+v", h.Lifecycle, h.Maintenance)
		})
	}
	waitVM := func(vm fleet.VMView, host fleet.HostView, phase fleet.Phase) {
		t.Helper()
		eventually(t, 2*guestLimit, vm.Name+" on "+host.Name, func() (bool, string) {
			got := a.getVM(t, vm.ID)
			return got.HostID == host.ID && got.Phase == phase, fmt.Sprintf("%s, %s, %s", got.HostName, got.Phase, got.Status.Error)
		})
	}

	p := newTab(t, s.URL)
	p.signIn(s)
	page := "/hosts/" + string(from.ID)
	p.open(page + "/maintenance")
	p.waitText("main", "Migrate live to host-2")
	p.chooseOption("select[name='decision."+string(sleeper.ID)+"']", "Shut down, start afterwards")
	p.click(".dialog-form footer button", "Enter maintenance")
	waitLifecycle(fleet.LifecycleMaintenance)
	waitVM(mover, to, fleet.PhaseRunning)
	waitVM(sleeper, from, fleet.PhaseStopped)
	waitVM(off, from, fleet.PhaseStopped)
	if out := strings.TrimSpace(virsh(t, s.Hosts[0], "list", "--name")); out != "" {
		t.Errorf("VMs run on the host in maintenance: %s", out)
	}
	pid := guestPID(t, mover.Name)
	if args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err != nil || !strings.Contains(string(args), "-incoming") {
		t.Errorf("the VM was restarted instead of migrated live: %v %q", err, args)
	}
	p.open(page)
	p.waitText("main", "host-1 is in maintenance.")
	refused, err := a.send(t.Context(), http.MethodPost, "/api/v1"+page+"/actions", map[string]any{"action": "reboot", "confirm": "host-1"})
	if err != nil || refused.status != http.StatusConflict || !strings.Contains(string(refused.body), "hostPower: true") {
		t.Errorf("the reboot of a host of the lab is answered by %d %s, %v", refused.status, refused.body, err)
	}

	p.open(page + "/leave-maintenance")
	p.waitText("main", sleeper.Name)
	p.waitText("main", mover.Name)
	p.click(".dialog-form button", "Leave maintenance")
	waitLifecycle(fleet.LifecycleReady)
	waitVM(mover, from, fleet.PhaseRunning)
	waitVM(sleeper, from, fleet.PhaseRunning)
	waitVM(off, from, fleet.PhaseStopped)
	if state := virsh(t, s.Hosts[0], "domstate", mover.Name); state != "running" {
		t.Errorf("on host-1 %s is %s", mover.Name, state)
	}
	for _, vm := range []fleet.VMView{mover, sleeper} {
		requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodPost, "/api/v1/vms/"+string(vm.ID)+"/actions", map[string]any{"action": "stop"})
		a.waitPhase(t, guestLimit, vm.ID, fleet.PhaseStopped)
	}
	for _, vm := range []fleet.VMView{mover, sleeper, off} {
		requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodDelete, "/api/v1/vms/"+string(vm.ID)+"?disks=true&purge=true&confirm="+vm.Name, nil)
	}
}
