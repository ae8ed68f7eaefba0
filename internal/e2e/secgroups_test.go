//go:build linux

package e2e

import (
	"fmt"
	"net/http"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/secgroup"
)

// createGroupWithRules creates a security group with rules of several kinds, and assigns it to the VM's first NIC.
func createGroupWithRules(t *testing.T, a api, vm fleet.VMView) secgroup.View {
	t.Helper()
	create := func(name, text string, rules ...map[string]any) secgroup.View {
		return requestJSON[secgroup.View](t, a, http.StatusCreated, http.MethodPost, "/api/v1/security-groups", map[string]any{
			"projectId": vm.ProjectID, "name": name, "spec": map[string]any{"description": text, "rules": rules},
		})
	}
	balancers := create("balancers", "What may speak to the web servers", map[string]any{"direction": "egress", "protocol": "any"})
	group := create("web", "HTTPS for everybody, the application from the balancers",
		map[string]any{"direction": "ingress", "protocol": "tcp", "fromPort": 443, "description": "HTTPS"},
		map[string]any{"direction": "ingress", "protocol": "tcp", "fromPort": 8000, "toPort": 8100, "groupId": balancers.ID},
		map[string]any{"direction": "ingress", "protocol": "icmp", "cidr": "10.0.0.0/8"},
		map[string]any{"direction": "egress", "protocol": "any"})
	vm.Spec.NICs[0].SecurityGroups = []fleet.SecurityGroupID{group.ID}
	requestJSON[any](t, a, http.StatusOK, http.MethodPatch, "/api/v1/vms/"+string(vm.ID), map[string]any{"spec": map[string]any{"nics": vm.Spec.NICs}})
	var seen secgroup.View
	eventually(t, stepLimit, "the group is applied", func() (bool, string) {
		seen = requestJSON[secgroup.View](t, a, http.StatusOK, http.MethodGet, "/api/v1/security-groups/"+string(group.ID), nil)
		return len(seen.Hosts) == 1 && seen.Hosts[0].State == secgroup.Applied, fmt.Sprintf("%+v", seen.Hosts)
	})
	return seen
}
