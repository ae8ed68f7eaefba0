package e2e

import (
	"net/http"
	"testing"

	"quantix/internal/fleet"
)

// templated is a template with two versions and a few VMs. Its versions' note is the id of the VM that it was made of.
func (a api) templated(t *testing.T) fleet.TemplateView {
	t.Helper()
	host := a.host(t, "host-2")
	pool := a.pool(t, "local-nvme")
	body := map[string]any{"name": "web-pattern", "projectId": a.project(t, "shop").ID, "hostId": host.ID, "spec": map[string]any{
		"cpus": 2, "memoryMiB": 2048, "firmware": "uefi", "disks": []any{map[string]any{"poolId": pool.ID, "sizeBytes": 8 << 30}, map[string]any{"poolId": pool.ID, "sizeBytes": 20 << 30}},
		"nics": []any{map[string]any{"network": "default"}}, "devices": map[string]any{"watchdog": "i6300esb"}, "security": map[string]any{"tpm": true},
	}}
	vm := ask[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", body)
	eventually(t, stepLimit, "the pattern is there", func() (bool, string) {
		v := ask[fleet.VMView](t, a, http.StatusOK, http.MethodGet, "/api/v1/vms/"+string(vm.ID), nil)
		return v.Phase == fleet.PhaseStopped, v.Phase.Word()
	})
	of := map[string]any{"vmId": vm.ID, "note": string(vm.ID), "name": "Web server", "description": "nginx and its certificates", "os": map[string]any{"family": "linux", "name": "Debian", "version": "12"}}
	base := ask[fleet.TemplateView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/templates", of)
	at := "/api/v1/templates/" + string(base.ID)
	ready := func() fleet.TemplateView {
		eventually(t, stepLimit, "its images are there", func() (bool, string) {
			base = ask[fleet.TemplateView](t, a, http.StatusOK, http.MethodGet, at, nil)
			return base.Versions[0].Unready() == "", base.Versions[0].Unready()
		})
		return base
	}
	first := ready().Versions[0].ID
	many := map[string]any{"name": "front-{nn}", "count": 3, "projectId": base.ProjectID, "from": map[string]any{"templateId": base.ID}}
	task := ask[fleet.Task](t, a, http.StatusAccepted, http.MethodPost, "/api/v1/vms/series", many)
	eventually(t, stepLimit, "three are made of it", func() (bool, string) {
		v := ask[fleet.Task](t, a, http.StatusOK, http.MethodGet, "/api/v1/tasks/"+string(task.ID), nil)
		return v.State == fleet.JobDone, string(v.State) + " " + v.Error
	})
	ask[fleet.TemplateView](t, a, http.StatusAccepted, http.MethodPost, at+"/versions", map[string]any{"vmId": vm.ID, "note": string(vm.ID)})
	ready()
	ask[any](t, a, http.StatusNoContent, http.MethodPost, at+"/versions/"+string(first)+"/deprecate", map[string]any{"deprecated": true})
	return ready()
}
