package e2e

import (
	"net/http"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/template"
)

// createTemplate creates a template with two versions, and three VMs from it. The versions' note is the ID of the
// source VM.
func (a api) createTemplate(t *testing.T) template.View {
	t.Helper()
	host := a.hostByName(t, "host-2")
	pool := a.poolByName(t, "local-nvme")
	body := map[string]any{"name": "web-pattern", "projectId": a.projectByName(t, "shop").ID, "hostId": host.ID, "spec": map[string]any{
		"cpus": 2, "memoryMiB": 2048, "firmware": "uefi", "disks": []any{map[string]any{"poolId": pool.ID, "sizeBytes": 8 << 30}, map[string]any{"poolId": pool.ID, "sizeBytes": 20 << 30}},
		"nics": []any{map[string]any{"network": "default"}}, "devices": map[string]any{"watchdog": "i6300esb"}, "security": map[string]any{"tpm": true},
	}}
	vm := requestJSON[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", body)
	eventually(t, stepLimit, "the source VM", func() (bool, string) {
		v := requestJSON[fleet.VMView](t, a, http.StatusOK, http.MethodGet, "/api/v1/vms/"+string(vm.ID), nil)
		return v.Phase == fleet.PhaseStopped, v.Phase.DisplayName()
	})
	body = map[string]any{"vmId": vm.ID, "note": string(vm.ID), "name": "Web server", "description": "nginx and its certificates", "os": map[string]any{"family": "linux", "name": "Debian", "version": "12"}}
	base := requestJSON[template.View](t, a, http.StatusCreated, http.MethodPost, "/api/v1/templates", body)
	at := "/api/v1/templates/" + string(base.ID)
	ready := func() template.View {
		eventually(t, stepLimit, "the template's images", func() (bool, string) {
			base = requestJSON[template.View](t, a, http.StatusOK, http.MethodGet, at, nil)
			return base.Versions[0].WhyUnusable() == "", base.Versions[0].WhyUnusable()
		})
		return base
	}
	first := ready().Versions[0].ID
	many := map[string]any{"name": "front-{nn}", "count": 3, "projectId": base.ProjectID, "from": map[string]any{"templateId": base.ID}}
	task := requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodPost, "/api/v1/vms/bulk-create", many)
	eventually(t, stepLimit, "three VMs created from the template", func() (bool, string) {
		v := requestJSON[fleet.Task](t, a, http.StatusOK, http.MethodGet, "/api/v1/tasks/"+string(task.ID), nil)
		return v.State == fleet.JobDone, string(v.State) + " " + v.Error
	})
	requestJSON[template.View](t, a, http.StatusAccepted, http.MethodPost, at+"/versions", map[string]any{"vmId": vm.ID, "note": string(vm.ID)})
	ready()
	requestJSON[any](t, a, http.StatusNoContent, http.MethodPost, at+"/versions/"+string(first)+"/deprecate", map[string]any{"deprecated": true})
	return ready()
}
