//go:build linux

package e2e

import (
	"net/http"
	"testing"

	"quantix/internal/fleet"
)

// ordered waits until a task has ended so.
func (a api) ordered(t testing.TB, task fleet.Task, want fleet.JobState) {
	t.Helper()
	eventually(t, fleet.Lease+guestLimit, "the end of "+string(task.ID), func() (bool, string) {
		now := ask[fleet.Task](t, a, http.StatusOK, http.MethodGet, "/api/v1/tasks/"+string(task.ID), nil)
		return now.State == want, string(now.State) + " " + now.Note + " " + now.Error
	})
}

// take takes a snapshot of the VM, and returns it as its host tells of it.
func (a api) take(t testing.TB, vm fleet.VMID, body map[string]any) fleet.Snapshot {
	t.Helper()
	page := "/api/v1/vms/" + string(vm) + "/snapshots"
	a.ordered(t, ask[fleet.Task](t, a, http.StatusAccepted, http.MethodPost, page, body), fleet.JobDone)
	tree := ask[fleet.SnapshotTree](t, a, http.StatusOK, http.MethodGet, page, nil)
	s := tree.Of(tree.Current)
	if s == nil || s.Name != body["name"] {
		t.Fatalf("after taking %v the VM tells %+v", body["name"], tree)
	}
	return *s
}

func (a api) revert(t testing.TB, vm fleet.VMID, to fleet.Snapshot) {
	t.Helper()
	a.ordered(t, ask[fleet.Task](t, a, http.StatusAccepted, http.MethodPost, "/api/v1/vms/"+string(vm)+"/snapshots/"+string(to.ID)+"/revert", map[string]any{"start": true}), fleet.JobDone)
}

// snapshots gives a VM that runs a tree of them, with a branch and one that is deleted; it returns the one at the fork.
func (a api) snapshots(t testing.TB, vm fleet.VMView) fleet.Snapshot {
	t.Helper()
	a.take(t, vm.ID, map[string]any{"name": "fresh", "description": "As it came from its image."})
	fork := a.take(t, vm.ID, map[string]any{"name": "before the upgrade to nginx 1.28", "memory": true, "description": "The shop runs, with the configuration of October. Go back here if the new one does not come up."})
	a.take(t, vm.ID, map[string]any{"name": "nginx 1.28", "quiesce": true})
	doomed := a.take(t, vm.ID, map[string]any{"name": "nginx 1.28, tuned", "memory": true})
	a.take(t, vm.ID, map[string]any{"name": "tuned, first try"})
	a.revert(t, vm.ID, doomed)
	a.take(t, vm.ID, map[string]any{"name": "tuned, second try"})
	a.ordered(t, ask[fleet.Task](t, a, http.StatusAccepted, http.MethodDelete, "/api/v1/vms/"+string(vm.ID)+"/snapshots/"+string(doomed.ID), nil), fleet.JobDone)
	a.revert(t, vm.ID, fork)
	a.take(t, vm.ID, map[string]any{"name": "with the old kernel", "quiesce": true})
	return fork
}

// schedules gives the VM two snapshot schedules, of which one is disabled; it returns the id of the other.
func (a api) schedules(t testing.TB, vm string) string {
	t.Helper()
	page := "/api/v1" + vm + "/snapshot-schedules"
	made := ask[struct {
		ID string `json:"id"`
	}](t, a, http.StatusCreated, http.MethodPost, page, map[string]any{
		"name": "nightly", "enabled": true, "times": map[string]any{"at": "02:30", "days": []string{"mon", "tue", "wed", "thu", "fri"}, "zone": "Europe/Berlin"},
		"keep": map[string]any{"last": 2, "weekly": 2}, "quiesce": true,
	})
	ask[any](t, a, http.StatusCreated, http.MethodPost, page, map[string]any{
		"name": "while the shop moves", "enabled": false, "times": map[string]any{"everyHours": 4, "at": "00:15"}, "keep": map[string]any{"last": 1}, "memory": true,
	})
	return made.ID
}
