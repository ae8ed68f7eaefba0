//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"quantix/internal/fleet"
)

// guestShots returns the shots of programs run in a guest, and of a VM that needs a restart.
func guestShots(t *testing.T, a api, project string) []pageShot {
	t.Helper()
	vm := requestJSON[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
		"projectId": project, "name": "ops-01", "start": true, "spec": map[string]any{
			"cpus": 1, "memoryMiB": 1024, "policy": map[string]any{"guestExec": true, "stopOrder": 2},
			"health": []map[string]any{{"kind": "exec", "program": "/usr/bin/systemctl", "args": "is-active\nnginx"}},
		},
	})
	a.waitPhase(t, time.Minute, vm.ID, fleet.PhaseRunning)
	at := "/api/v1/vms/" + string(vm.ID)
	var task fleet.TaskID
	eventually(t, stepLimit, "the guest's agent", func() (bool, string) {
		got, err := a.send(t.Context(), http.MethodPost, at+"/guest", map[string]any{"action": "exec", "program": "/bin/echo", "args": []string{"nginx is", "up to date"}})
		if err != nil || got.status != http.StatusAccepted {
			return false, string(got.body)
		}
		var created fleet.Task
		err = json.Unmarshal(got.body, &created)
		task = created.ID
		return err == nil, fmt.Sprint(err)
	})
	requestJSON[any](t, a, http.StatusOK, http.MethodPatch, at, map[string]any{"spec": map[string]any{"cpus": 4}})
	return []pageShot{
		{"vm-guest-exec", "/vms/" + string(vm.ID) + "/guest/exec", nil},
		{"vm-guest-exec-wrong", "/vms/" + string(vm.ID), func(p *tab) {
			p.allowFaults("422")
			p.pickMenuItem("main .card header summary", "", "Run a program")
			p.waitText("#dialog", "Program")
			p.fillInput("#dialog #program", "rm -rf /")
			p.fillInput("#dialog #seconds", "4000")
			p.click("#dialog button.primary", "Run")
			p.waitText("#dialog .field.bad", "Timeout")
		}},
		{"vm-restart", "/vms/" + string(vm.ID), func(p *tab) { p.waitText("main", "Restart") }},
		{"vm-health-exec", "/vms/" + string(vm.ID) + "?tab=configure", func(p *tab) {
			p.waitTrue("the checks are in sight", `(document.querySelector("#vm-health").open = true, document.querySelector("#vm-health").scrollIntoView(), true)`)
		}},
		{"task-guest-run", "/tasks/" + string(task), func(p *tab) { p.waitText("#guest-run", "nginx is up to date") }},
	}
}
