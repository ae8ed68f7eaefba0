//go:build linux

package e2e

import (
	"testing"

	"quantix/internal/fleet"
)

// applianceShots returns the shots of the pages for import, export and conversion.
func applianceShots(t *testing.T, a api, vm, project string, pool fleet.PoolID, volume string) []pageShot {
	t.Helper()
	vmID := a.createExportedVM(t, "legacy-crm", project, pool)
	return []pageShot{
		{"vms-import", "/vms/import", nil},
		{"vm-import", "/vms/import", func(p *tab) { p.click("td.acts a.btn", "Import"); p.waitText("h1", "Import") }},
		{"vm-export", "/vms/" + string(vmID) + "/export", nil},
		{"vm-export-running", vm + "/export", nil},
		{"volume-convert", "/pools/" + string(pool) + "/volumes/convert" + volume, nil},
	}
}
