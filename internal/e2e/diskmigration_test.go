//go:build linux && ordeal

package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"quantix/internal/fleet"
)

// TestDiskMigrationSurvivesAgentKill migrates the disk of a running guest on a real host and kills the agent halfway.
// QEMU continues the copy, and the restarted agent completes it. The spec must then name the new volume, and the old
// file must be removed. A second disk migration is cancelled: the disk stays in its pool.
func TestDiskMigrationSurvivesAgentKill(t *testing.T) {
	t.Parallel()
	s := labProgram.get(t)
	a := s.api()
	host, shared, name := a.hostByName(t, "host-2"), a.poolByName(t, "shared"), uniqueName("mover")
	local := requestJSON[fleet.PoolView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/pools", map[string]any{
		"name": name, "hostIds": []fleet.HostID{host.ID}, "spec": map[string]any{"kind": "dir", "path": "/var/lib/libvirt/images/" + name},
	})
	vm := requestJSON[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
		"name": name, "projectId": a.projectByName(t, "lab").ID, "hostId": host.ID, "start": true,
		"spec": map[string]any{"cpus": 1, "memoryMiB": 256, "disks": []any{
			map[string]any{"poolId": shared.ID, "image": map[string]any{"poolId": shared.ID, "volume": "tiny-guest.qcow2"}},
		}},
	})
	a.waitPhase(t, guestLimit, vm.ID, fleet.PhaseRunning)
	began := a.getVM(t, vm.ID).Status.StartedAt
	old := vm.Spec.Disks[0].Ref()
	page := "/api/v1/vms/" + string(vm.ID)
	move := func(disk fleet.Volref, to fleet.PoolID, rate int64) fleet.Task {
		t.Helper()
		task := requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodPost, page+"/disks/move", map[string]any{"disk": disk, "poolId": to, "rateBytes": rate})
		eventually(t, stepLimit, "the copy", func() (bool, string) {
			now := requestJSON[fleet.Task](t, a, http.StatusOK, http.MethodGet, "/api/v1/tasks/"+string(task.ID), nil)
			return strings.Contains(now.Note, "copying"), now.Note + now.Error
		})
		return task
	}
	ended := func(task fleet.Task, want fleet.JobState) {
		t.Helper()
		eventually(t, fleet.Lease+guestLimit, "the end of "+string(task.ID), func() (bool, string) {
			now := requestJSON[fleet.Task](t, a, http.StatusOK, http.MethodGet, "/api/v1/tasks/"+string(task.ID), nil)
			return now.State == want, string(now.State) + " " + now.Note + " " + now.Error
		})
	}

	task := move(old, local.ID, 2<<20)
	if err := syscall.Kill(labAgentPID(t, hostDir(1)), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	ended(task, fleet.JobDone)
	now := a.getVM(t, vm.ID)
	if now.Spec.Disks[0].PoolID != local.ID || now.Status.StartedAt == nil || !now.Status.StartedAt.Equal(*began) || now.Attention {
		t.Errorf("after the migration the VM is %+v, %+v", now.Spec, now.Status)
	}
	eventually(t, stepLimit, "the old file's end", func() (bool, string) {
		_, err := os.Stat(filepath.Join(labDir(), "shared", old.Volume))
		return os.IsNotExist(err), old.Volume
	})
	if xml := virsh(t, s.Hosts[1], "dumpxml", name); !strings.Contains(xml, "/var/lib/libvirt/images/"+name+"/"+old.Volume) || strings.Contains(xml, "<mirror") {
		t.Errorf("the guest runs with\n%s", xml)
	}

	back := move(now.Spec.Disks[0].Ref(), shared.ID, 1<<20)
	requestJSON[fleet.Task](t, a, http.StatusOK, http.MethodPost, "/api/v1/tasks/"+string(back.ID)+"/cancel", nil)
	ended(back, fleet.JobCancelled)
	if left, err := filepath.Glob(filepath.Join(labDir(), "shared", name+"*")); err != nil || len(left) > 0 {
		t.Errorf("the canceled migration left %v (%v)", left, err)
	}
	if now := a.getVM(t, vm.ID); now.Spec.Disks[0].PoolID != local.ID || now.Attention || now.Phase != fleet.PhaseRunning {
		t.Errorf("after the canceled migration the VM is %s, %+v", now.Phase, now.Spec)
	}
	requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodDelete, page+"?disks=true&purge=true&confirm="+name, nil)
	eventually(t, stepLimit, "the VM's end", func() (bool, string) {
		got, err := a.send(t.Context(), http.MethodGet, page, nil)
		return err == nil && got.status == http.StatusNotFound, ""
	})
	requestJSON[any](t, a, http.StatusAccepted, http.MethodDelete, "/api/v1/pools/"+string(local.ID), nil)
}
