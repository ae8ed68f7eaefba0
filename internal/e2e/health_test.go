package e2e

import (
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"quantix/internal/fleet"
)

// createFailingVM creates a VM that fails one of its health checks and passes another. Its host breaks one of its
// placement rules.
func (a api) createFailingVM(t *testing.T) fleet.VMView {
	t.Helper()
	project := a.projectByName(t, "shop").ID
	quick := map[string]any{"interval": 5, "threshold": 1, "grace": 5}
	check := func(kind string, more map[string]any) map[string]any {
		out := map[string]any{"kind": kind}
		for _, m := range []map[string]any{quick, more} {
			maps.Copy(out, m)
		}
		return out
	}
	vm := requestJSON[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
		"projectId": project, "hostId": a.hostByName(t, "host-1").ID, "name": "sick-cart", "start": true,
		"spec": map[string]any{
			"cpus": 1, "memoryMiB": 512, "nics": []map[string]any{{"network": "default"}},
			"health": []map[string]any{
				check("http", map[string]any{"port": 8080, "path": "/health"}), check("tcp", map[string]any{"port": 5432, "action": "reset"}),
				{"kind": "screen"},
			},
		},
	})
	a.waitPhase(t, time.Minute, vm.ID, fleet.PhaseRunning)
	requestJSON[any](t, a, http.StatusOK, http.MethodPatch, "/api/v1/vms/"+string(vm.ID), map[string]any{"spec": map[string]any{"rules": []map[string]any{
		{"of": "host", "name": "host-2"}, {"of": "vm", "name": "web-01", "apart": true, "preferred": true},
	}}})
	for limit := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		v := a.getVM(t, vm.ID)
		has := func(code fleet.FaultCode) bool {
			return v.Status != nil && slices.ContainsFunc(v.Status.Faults, func(f fleet.Fault) bool { return f.Code == code })
		}
		if has(fleet.FaultHealth) && has(fleet.FaultPlacement) {
			return v
		}
		if time.Now().After(limit) {
			t.Fatalf("the VM's faults are not reported: %+v", v.Status)
		}
	}
}

// healthShots returns the shots of health checks and placement rules.
func (a api) healthShots(t *testing.T) []pageShot {
	t.Helper()
	failing := "/vms/" + string(a.createFailingVM(t).ID)
	return []pageShot{
		{"vm-new-rules", "/vms/new", func(p *tab) {
			p.allowFaults("422")
			p.fillInput("#name", "Not A Name")
			p.click("#vm-rules > summary", "Placement rules")
			p.click("#vm-rules [data-row-add]", "Add rule")
			p.chooseOption("#spec-rules-0--of", "VMs with labels")
			p.fillInput("#spec-rules-0--name", "tier=")
			p.click("#vm-health > summary", "Health checks")
			p.click("#vm-health [data-row-add]", "Add check")
			p.chooseOption("#spec-health-0--kind", "Web server answers")
			p.fillInput("#spec-health-0--path", "health")
			p.click("footer button.primary", "Create VM")
			p.waitText("#vm-rules .error", "the value is missing")
			p.waitText("#vm-health .error", "A path begins with /")
		}},
		{"vm-new-rules-preview", "/vms/new", func(p *tab) {
			p.click("#vm-source button", "Blank")
			p.waitText("#vm-source [aria-pressed=true]", "Blank")
			p.fillInput("#name", "web-new")
			p.chooseOption("select[name='spec.disks[0].poolId']", "shared")
			p.chooseOption("select[name='spec.nics[0].network']", "network office")
			p.click("#vm-rules > summary", "Placement rules")
			p.click("#vm-rules [data-row-add]", "Add rule")
			p.chooseOption("#spec-rules-0--of", "the host")
			p.fillInput("#spec-rules-0--name", "host-2")
			p.waitText("#vm-wizard", "Host: host-2")
			p.click("#vm-wizard summary", "0 other hosts suitable")
			p.waitText("#vm-wizard", "The VM must be on the host host-2")
		}},
		{"vm-health", failing, func(p *tab) { p.waitText("#health", "503") }},
		{"vm-health-edit", failing + "?tab=configure", func(p *tab) {
			p.click("#vm-rules > summary", "Placement rules")
			p.click("#vm-health > summary", "Health checks")
		}},
	}
}
