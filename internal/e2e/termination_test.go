//go:build linux && ordeal

package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/testkit/mockbmc"
)

// TestTerminationMigratesVMsPowersOffAndRemovesHost terminates a host of a lab of its own with a running VM: the VM migrates
// live, the BMC powers the host off, and the host is gone from the inventory.
func TestTerminationMigratesVMsPowersOffAndRemovesHost(t *testing.T) {
	dir := filepath.Join(root, "termination")
	s, err := startPlayground("termination", nil, "lab", "--json", "--listen", "127.0.0.1:0", "--data-dir", dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			showLogs(t, s.log)
		}
		if err := s.signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	})
	a := s.api()
	from, to := a.hostByName(t, "host-1"), a.hostByName(t, "host-2")
	path := "/api/v1/hosts/" + string(from.ID)
	for _, vm := range listFirstPage[fleet.VMView](t, a, "/api/v1/vms?filter=host:host-1") {
		requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodPost, "/api/v1/vms/"+string(vm.ID)+"/actions", map[string]any{"action": "stop"})
		a.waitPhase(t, guestLimit, vm.ID, fleet.PhaseStopped)
		requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodDelete, "/api/v1/vms/"+string(vm.ID)+"?disks=true&purge=true&confirm="+vm.Name, nil)
	}
	shared := a.poolByName(t, "shared").ID
	mover := requestJSON[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
		"name": "mover", "projectId": a.projectByName(t, "lab").ID, "hostId": from.ID, "start": true,
		"spec": map[string]any{"cpus": 1, "memoryMiB": 256, "disks": []any{map[string]any{"poolId": shared, "image": map[string]any{"poolId": shared, "volume": "tiny-guest.qcow2"}}}},
	})
	a.waitPhase(t, guestLimit, mover.ID, fleet.PhaseRunning)
	waitBooted(t, s.Hosts[0], mover.Name)

	m := a.addBMC(t, from.ID, mockbmc.Honest)
	m.SetLag(2)

	type answer struct {
		Task *fleet.Task `json:"task"`
	}
	begun := requestJSON[answer](t, a, http.StatusOK, http.MethodPost, path+"/actions", map[string]any{"action": "terminate", "confirm": "host-1", "leaveVolumes": true})
	eventually(t, 6*guestLimit, "the termination ends", func() (bool, string) {
		task := requestJSON[fleet.Task](t, a, http.StatusOK, http.MethodGet, "/api/v1/tasks/"+string(begun.Task.ID), nil)
		if task.State.IsFinal() && task.State != fleet.JobDone {
			t.Fatalf("the termination ended as %s: %+v", task.State, listFirstPage[fleet.Task](t, a, "/api/v1/tasks?filter=parent:"+string(task.ID)))
		}
		return task.State == fleet.JobDone, fmt.Sprintf("%+v", task)
	})
	if gone, err := a.send(t.Context(), http.MethodGet, path, nil); err != nil || gone.status != http.StatusNotFound {
		t.Errorf("the removed host is answered by %d, %v", gone.status, err)
	}
	if got := m.Resets(); !slices.Equal(got, []string{"ForceOff"}) || m.Power() != "Off" {
		t.Errorf("the BMC got %v and is %s", got, m.Power())
	}
	vm := a.getVM(t, mover.ID)
	if vm.HostID != to.ID || vm.Phase != fleet.PhaseRunning {
		t.Errorf("the VM is %s on %s", vm.Phase, vm.HostName)
	}
	if state := virsh(t, s.Hosts[1], "domstate", mover.Name); state != "running" {
		t.Errorf("on host-2 the domain is %s", state)
	}
}
