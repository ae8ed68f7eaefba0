package e2e

import (
	"net/http"
	"testing"

	"quantix/internal/fleet"
)

// createFirstBootVM creates a VM with first-boot settings, and a stored customization. It returns the paths of both
// pages.
func createFirstBootVM(t *testing.T, a api) (vm, spec string) {
	t.Helper()
	project := a.projectByName(t, "shop").ID
	key := "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHKqsL5yCzDzZrGpFhO6mZQvVOSyCzDzZrGpFhO6mZQv anna@desk"
	form := map[string]any{
		"users":    []map[string]any{{"name": "anna", "sshKeys": []string{key}, "sudo": true, "password": "correct horse"}, {"name": "backup", "sshKeys": []string{key}}},
		"network":  []map[string]any{{"addresses": []string{"192.0.2.10/24"}, "gateways": []string{"192.0.2.1"}, "dns": []string{"192.0.2.53"}}},
		"packages": []string{"nginx"}, "run": []string{"systemctl enable --now nginx"}, "timezone": "Europe/Zurich",
	}
	created := requestJSON[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
		"projectId": project, "name": "told-01", "hostId": a.hostByName(t, "host-1").ID,
		"spec":      map[string]any{"cpus": 1, "memoryMiB": 512, "nics": []map[string]any{{"network": "default"}}},
		"firstBoot": map[string]any{"kind": "cloud-init", "cloudInit": form},
	})
	web := requestJSON[fleet.Customization](t, a, http.StatusCreated, http.MethodPost, "/api/v1/customizations", map[string]any{
		"name": "web-server", "description": "Debian with nginx, for the shop's front ends",
		"firstBoot": map[string]any{"kind": "cloud-config", "userData": "#cloud-config\nhostname: \"{{vm.name}}\"\npackages: [nginx]\nruncmd:\n  - \"echo {{var.color}} > /etc/color\"\n"},
	})
	requestJSON[fleet.Customization](t, a, http.StatusCreated, http.MethodPost, "/api/v1/customizations", map[string]any{
		"name": "base", "projectId": project, "firstBoot": map[string]any{"kind": "cloud-init", "cloudInit": map[string]any{"users": []map[string]any{{"name": "ops", "sshKeys": []string{key}}}}},
	})
	return "/vms/" + string(created.ID), "/customizations/" + string(web.ID)
}
