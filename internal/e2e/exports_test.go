package e2e

import (
	"net/http"
	"testing"

	"quantix/internal/export"
	"quantix/internal/fleet"
)

// createExportedVM creates a stopped VM and exports it, so that its pool has a file to import. It returns the VM's ID.
func (a api) createExportedVM(t testing.TB, name, project string, pool fleet.PoolID) fleet.VMID {
	t.Helper()
	vm := requestJSON[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
		"name": name, "projectId": project,
		"spec": map[string]any{
			"cpus": 2, "memoryMiB": 4096, "firmware": "uefi", "disks": []any{map[string]any{"poolId": pool, "sizeBytes": 20 << 30}, map[string]any{"poolId": pool, "sizeBytes": 100 << 30, "bus": "sata"}},
			"nics": []any{map[string]any{"network": "default"}, map[string]any{"network": "default", "model": "e1000e"}},
		},
	})
	a.waitPhase(t, guestLimit, vm.ID, fleet.PhaseStopped)
	out := requestJSON[export.File](t, a, http.StatusAccepted, http.MethodPost, "/api/v1/vms/"+string(vm.ID)+"/exports", map[string]any{"format": "ova"})
	eventually(t, guestLimit, "the file of the export", func() (bool, string) {
		files := requestJSON[struct{ Items []struct{ Name string } }](t, a, http.StatusOK, http.MethodGet, "/api/v1/appliances", nil)
		for _, f := range files.Items {
			if f.Name == out.Volume {
				return true, ""
			}
		}
		now := requestJSON[export.File](t, a, http.StatusOK, http.MethodGet, "/api/v1/exports/"+string(out.ID), nil)
		return false, string(now.State) + " " + now.Error
	})
	return vm.ID
}
