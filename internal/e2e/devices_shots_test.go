//go:build linux

package e2e

import (
	"net/http"
	"testing"

	"quantix/internal/fleet"
)

// withDevices is the page of a VM that has drives, ports and a device of its host.
func withDevices(t *testing.T, a api, project string, host fleet.HostID) string {
	t.Helper()
	vm := ask[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
		"projectId": project, "hostId": host, "name": "render-01", "spec": map[string]any{
			"cpus": 4, "memoryMiB": 4096,
			"drives": []any{map[string]any{"slot": "cdrom2"}, map[string]any{"slot": "floppy1"}}, "devices": map[string]any{"serials": 1, "balloon": "reporting"},
			"hostDevices": []any{map[string]any{"device": "pci/0000:3b:00.1"}},
		},
	})
	return "/vms/" + string(vm.ID)
}
