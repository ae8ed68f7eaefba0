//go:build linux && ordeal

package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantix/internal/bin"
	"quantix/internal/fleet"
)

// TestRecycleBinKeepsDomainAndDisks deletes a running VM of a real host into the recycle bin, restores it, starts it, and
// purges it. In the bin, libvirt's autostart is off, the domain and the disk stay, and a guest that was started with virsh
// is not purged.
func TestRecycleBinKeepsDomainAndDisks(t *testing.T) {
	t.Parallel()
	s := labProgram.get(t)
	a, h := s.api(), s.Hosts[1]
	host, shared, name := a.hostByName(t, "host-2"), a.poolByName(t, "shared"), uniqueName("binned")
	vm := requestJSON[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
		"name": name, "projectId": a.projectByName(t, "lab").ID, "hostId": host.ID, "start": true,
		"spec": map[string]any{"cpus": 1, "memoryMiB": 256, "disks": []any{
			map[string]any{"poolId": shared.ID, "image": map[string]any{"poolId": shared.ID, "volume": "tiny-guest.qcow2"}},
		}},
	})
	page, item, id := "/api/v1/vms/"+string(vm.ID), "/api/v1/recycle-bin/"+string(vm.ID), string(vm.ID)
	disk := filepath.Join(labDir(), "shared", vm.Spec.Disks[0].Volume)
	a.waitPhase(t, guestLimit, vm.ID, fleet.PhaseRunning)
	virsh(t, h, "autostart", id)
	state := func() string { return strings.TrimSpace(virsh(t, h, "domstate", id)) }
	waitState := func(want bin.State) {
		t.Helper()
		eventually(t, stepLimit, "the state "+string(want), func() (bool, string) {
			now := requestJSON[bin.Item](t, a, http.StatusOK, http.MethodGet, item, nil)
			return now.State == want, string(now.State)
		})
	}

	a.waitTask(t, requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodDelete, page+"?disks=true", nil), fleet.JobDone)
	if got := state(); got != "shut off" {
		t.Errorf("in the recycle bin the domain is %q", got)
	}
	if info := virsh(t, h, "dominfo", id); !strings.Contains(info, "Autostart:      disable") {
		t.Errorf("in the recycle bin the domain has\n%s", info)
	}
	if _, err := os.Stat(disk); err != nil {
		t.Errorf("the disk in the recycle bin: %v", err)
	}
	if got, err := a.send(t.Context(), http.MethodGet, page, nil); err != nil || got.status != http.StatusNotFound {
		t.Errorf("the VM in the recycle bin: status %d, %v", got.status, err)
	}

	virsh(t, h, "start", id)
	waitState(bin.Running)
	if got, err := a.send(t.Context(), http.MethodDelete, item+"?confirm="+name, nil); err != nil || got.status != http.StatusConflict {
		t.Errorf("the purge of a running VM: status %d, %v", got.status, err)
	}
	virsh(t, h, "destroy", id)
	waitState(bin.Waiting)

	a.waitTask(t, requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodPost, item+"/restore", map[string]any{}), fleet.JobDone)
	a.waitPhase(t, stepLimit, vm.ID, fleet.PhaseStopped)
	a.waitTask(t, requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodPost, page+"/actions", map[string]any{"action": "start"}), fleet.JobDone)
	a.waitPhase(t, guestLimit, vm.ID, fleet.PhaseRunning)

	a.waitTask(t, requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodDelete, page+"?disks=true", nil), fleet.JobDone)
	a.waitTask(t, requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodDelete, item+"?confirm="+name, nil), fleet.JobDone)
	if names := virsh(t, h, "list", "--all", "--name"); strings.Contains(names, name) {
		t.Errorf("after the purge the host has %s", names)
	}
	if _, err := os.Stat(disk); !os.IsNotExist(err) {
		t.Errorf("the disk after the purge: %v", err)
	}
	if got, err := a.send(t.Context(), http.MethodGet, item, nil); err != nil || got.status != http.StatusNotFound {
		t.Errorf("the purged VM: status %d, %v", got.status, err)
	}
}
