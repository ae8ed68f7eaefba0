//go:build linux

package e2e

import (
	"net/http"
	"testing"

	"quantix/internal/fleet"
)

// waitTask waits until a task has ended in the given state.
func (a api) waitTask(t testing.TB, task fleet.Task, want fleet.JobState) {
	t.Helper()
	eventually(t, fleet.Lease+guestLimit, "the end of "+string(task.ID), func() (bool, string) {
		now := requestJSON[fleet.Task](t, a, http.StatusOK, http.MethodGet, "/api/v1/tasks/"+string(task.ID), nil)
		return now.State == want, string(now.State) + " " + now.Note + " " + now.Error
	})
}

// takeSnapshot takes a snapshot of the VM, and returns the snapshot that the host reports.
func (a api) takeSnapshot(t testing.TB, vm fleet.VMID, body map[string]any) fleet.Snapshot {
	t.Helper()
	page := "/api/v1/vms/" + string(vm) + "/snapshots"
	a.waitTask(t, requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodPost, page, body), fleet.JobDone)
	tree := requestJSON[fleet.SnapshotTree](t, a, http.StatusOK, http.MethodGet, page, nil)
	s := tree.SnapshotByID(tree.Current)
	if s == nil || s.Name != body["name"] {
		t.Fatalf("after the snapshot %v the VM reports %+v", body["name"], tree)
	}
	return *s
}

func (a api) revert(t testing.TB, vm fleet.VMID, to fleet.Snapshot) {
	t.Helper()
	a.waitTask(t, requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodPost, "/api/v1/vms/"+string(vm)+"/snapshots/"+string(to.ID)+"/revert", map[string]any{"start": true}), fleet.JobDone)
}

// createSnapshots gives a running VM a tree of snapshots with a branch, and deletes one of them. It returns the
// snapshot at the fork.
func (a api) createSnapshots(t testing.TB, vm fleet.VMView) fleet.Snapshot {
	t.Helper()
	a.takeSnapshot(t, vm.ID, map[string]any{"name": "fresh", "description": "As it came from its image."})
	fork := a.takeSnapshot(t, vm.ID, map[string]any{"name": "before the upgrade to nginx 1.28", "memory": true, "description": "The shop runs, with the configuration of October. Go back here if the new one does not come up."})
	a.takeSnapshot(t, vm.ID, map[string]any{"name": "nginx 1.28", "quiesce": true})
	deleted := a.takeSnapshot(t, vm.ID, map[string]any{"name": "nginx 1.28, tuned", "memory": true})
	a.takeSnapshot(t, vm.ID, map[string]any{"name": "tuned, first try"})
	a.revert(t, vm.ID, deleted)
	a.takeSnapshot(t, vm.ID, map[string]any{"name": "tuned, second try"})
	a.waitTask(t, requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodDelete, "/api/v1/vms/"+string(vm.ID)+"/snapshots/"+string(deleted.ID), nil), fleet.JobDone)
	a.revert(t, vm.ID, fork)
	a.takeSnapshot(t, vm.ID, map[string]any{"name": "with the old kernel", "quiesce": true})
	return fork
}

// createSchedules gives the VM two snapshot schedules, one of them disabled, and returns the ID of the enabled one.
func (a api) createSchedules(t testing.TB, vm string) string {
	t.Helper()
	page := "/api/v1" + vm + "/snapshot-schedules"
	schedule := requestJSON[struct {
		ID string `json:"id"`
	}](t, a, http.StatusCreated, http.MethodPost, page, map[string]any{
		"name": "nightly", "enabled": true, "times": map[string]any{"at": "02:30", "days": []string{"mon", "tue", "wed", "thu", "fri"}, "zone": "Europe/Berlin"},
		"keep": map[string]any{"last": 2, "weekly": 2}, "quiesce": true,
	})
	requestJSON[any](t, a, http.StatusCreated, http.MethodPost, page, map[string]any{
		"name": "while the shop moves", "enabled": false, "times": map[string]any{"everyHours": 4, "at": "00:15"}, "keep": map[string]any{"last": 1}, "memory": true,
	})
	return schedule.ID
}
