//go:build linux

package e2e

import (
	"net/http"
	"testing"

	"quantix/internal/fleet"
)

// addTenant creates a user who is a member of the project, and returns the user's one-time password.
func (a api) addTenant(t *testing.T, name, project string) (password string) {
	t.Helper()
	u := requestJSON[struct {
		ID              fleet.UserID
		OneTimePassword string
	}](t, a, http.StatusCreated, http.MethodPost, "/api/v1/users", map[string]any{"name": name})
	requestJSON[any](t, a, http.StatusNoContent, http.MethodPut, "/api/v1/projects/"+project+"/members/"+string(u.ID), map[string]any{"role": "member"})
	return u.OneTimePassword
}

// newTenantTab opens a browser's tab of a tenant who has changed the one-time password.
func newTenantTab(t *testing.T, s *playground, name, password string) *tab {
	t.Helper()
	p := newTab(t, s.URL)
	p.open("/vms")
	p.waitPath("/sign-in")
	p.enterCredentials(name, password)
	p.waitPath("/account/password")
	p.fillInput("#old", password)
	p.fillInput("#new", newPassword)
	p.fillInput("#again", newPassword)
	p.click("button.primary", "Change password")
	p.waitPath("/vms")
	return p
}

// captureTenantPages captures the pages that members of one project see: of a project with VMs and a quota, of an empty
// one, and of one whose rules set values of new VMs.
func captureTenantPages(t *testing.T) {
	t.Parallel()
	s := demoProgram.get(t)
	a := s.api()
	create := func(name string, more map[string]any) string {
		more["name"] = name
		return string(requestJSON[fleet.Project](t, a, http.StatusCreated, http.MethodPost, "/api/v1/projects", more).ID)
	}
	finance := string(a.projectByName(t, "finance").ID)
	requestJSON[any](t, a, http.StatusOK, http.MethodPut, "/api/v1/projects/"+finance+"/quota", map[string]any{
		"vms": map[string]int{"hard": 20}, "cpus": map[string]int{"hard": 64, "soft": 16}, "memoryMiB": map[string]int{"hard": 1 << 17}, "diskBytes": map[string]int64{"soft": 1 << 40},
	})
	empty := create("newcomers", map[string]any{})
	ruled := create("ruled", map[string]any{"defaultPoolId": a.poolByName(t, "shared").ID, "vmRules": map[string]any{
		"namePattern": "ruled-*", "expiryDays": 30, "firmware": "uefi", "locked": []string{"pool", "firmware", "expiry"},
	}})
	mia, nina, rolf := a.addTenant(t, "mia-shots", finance), a.addTenant(t, "nina-shots", empty), a.addTenant(t, "rolf-shots", ruled)
	vm := listFirstPage[fleet.VMView](t, a, "/api/v1/vms?filter=project:finance+state:running")[0]
	at := "/vms/" + string(vm.ID)
	pool := "/pools/" + string(a.poolByName(t, "shared").ID)
	network := "/networks/" + string(findByName[fleet.NetworkView](t, a, "networks", "office").ID)

	p := newTenantTab(t, s, "mia-shots", mia)
	for _, shot := range []pageShot{
		{"tenant-dashboard", "/", nil},
		{"tenant-vms", "/vms", nil},
		{"tenant-vm", at, nil},
		{"tenant-vm-menu", at, func(p *tab) { p.withMenu(".head summary", "Actions", "Delete") }},
		{"tenant-vm-edit", at + "?tab=configure", func(p *tab) {
			p.fillInput("#spec-cpus", "12")
			p.waitText("#edit-quota", "28 of 64 vCPUs")
		}},
		{"tenant-vm-new", "/vms/new", func(p *tab) { p.waitText("#vm-summary-body", "22 of 64 vCPUs") }},
		{"tenant-project", "/projects/" + finance, nil},
		{"tenant-usage", "/projects/" + finance + "/usage", nil},
		{"tenant-pools", "/pools", nil},
		{"tenant-pool", pool, nil},
		{"tenant-networks", "/networks", nil},
		{"tenant-network", network, nil},
		{"tenant-images", "/images", nil},
		{"tenant-tree-storage", "/?tree=storage", nil},
	} {
		p.captureShot(shot)
	}
	p = newTenantTab(t, s, "nina-shots", nina)
	p.captureShot(pageShot{"tenant-empty-dashboard", "/", nil})
	p.captureShot(pageShot{"tenant-empty-vms", "/vms", nil})
	p = newTenantTab(t, s, "rolf-shots", rolf)
	p.captureShot(pageShot{"tenant-vm-new-rules", "/vms/new", func(p *tab) { p.waitText("#vm-form", "Set by the project") }})
}
