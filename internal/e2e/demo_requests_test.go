//go:build linux

package e2e

import (
	"net/http"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/request"
)

// createRequests creates requests of the project: for quota, a pool, a VM above the quota, and one that is refused. It
// also returns the ID of a project without requests.
func createRequests(t *testing.T, a api, project string, pool fleet.PoolID) (ids []string, empty string) {
	t.Helper()
	for _, body := range []map[string]any{
		{"projectId": project, "kind": "quota", "reason": "The campaign in June needs twice the web servers.", "limits": map[string]int64{"cpus": 256, "memoryMiB": 2 << 20}},
		{"projectId": project, "kind": "pool", "reason": "The database waits for its disks.", "text": "About 2 TiB on NVMe, for the database of the shop"},
		{"kind": "vm", "reason": "Restore of the archive", "vm": map[string]any{
			"projectId": project, "name": "archive-restore", "spec": map[string]any{"cpus": 4, "memoryMiB": 8192, "disks": []map[string]any{{"poolId": pool, "sizeBytes": 1 << 30}}},
		}},
		{"projectId": project, "kind": "network", "reason": "The partner's VPN", "text": "A network that reaches 10.40.0.0/16"},
	} {
		ids = append(ids, string(requestJSON[request.Request](t, a, http.StatusCreated, http.MethodPost, "/api/v1/requests", body).ID))
	}
	requestJSON[any](t, a, http.StatusOK, http.MethodPost, "/api/v1/requests/"+ids[3]+"/refuse", map[string]any{"comment": "Use the network office: it reaches the partner."})
	v := requestJSON[fleet.Project](t, a, http.StatusCreated, http.MethodPost, "/api/v1/projects", map[string]any{"name": "lab"})
	return ids, string(v.ID)
}
