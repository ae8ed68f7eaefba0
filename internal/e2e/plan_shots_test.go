//go:build linux

package e2e

import (
	"net/http"
	"testing"

	"quantix/internal/fleet"
)

// planShots returns the shots of previews of a change. vm is the path of the running VM's page.
func planShots(t *testing.T, a api, vm, running, failed string) []pageShot {
	t.Helper()
	return []pageShot{
		{"vm-new-windows", "/vms/new", func(p *tab) {
			p.click("#vm-source button", "Windows 11")
			p.waitText("#vm-security summary, #vm-Security summary", "TPM 2.0: on")
			p.waitText("#vm-summary-body", "UEFI") // the summary must follow the chosen source
			p.fillInput("#name", "desk-11")
			p.waitText("#vm-summary-body", "desk-11")
		}},
		{"vm-new-xml", "/vms/new", func(p *tab) {
			p.click("#vm-source button", "libvirt XML")
			p.waitTrue("the box for it", `!!document.querySelector("#xml")`)
			p.fillInput("#xml", "<domain type='kvm'>\n<name>old-shop</name>\n<memory unit='GiB'>4</memory>\n<vcpu>4</vcpu>\n<os firmware='efi'><type>hvm</type></os>\n<devices>\n<disk type='file'><source file='/data/shop.qcow2'/><target dev='vda'/></disk>\n<hostdev mode='subsystem' type='pci'/>\n<tpm><backend type='emulator'/></tpm>\n</devices>\n</domain>")
			p.click("#vm-source button", "Read XML")
			p.waitText("#vm-source", "A device of the host.")
		}},
		{"vm-new-plan", "/vms/new", func(p *tab) {
			p.fillInput("#name", "planned")
			p.chooseOption("#projectId", "shop")
			p.chooseOption("select[name='spec.disks[0].source']", "Empty disk")
			p.fillInput("input[name='spec.disks[0].sizeBytes']", "8")
			p.chooseOption("select[name='spec.disks[0].poolId']", "shared")
			p.chooseOption("select[name='spec.nics[0].network']", "network office")
			p.waitText("#vm-summary", "Host: ")
			p.click("footer button", "Review…")
			p.waitPath("/plans/")
			p.waitText("#plan-xml", "<name>planned</name>")
		}},
		{"vm-plan", vm + "?tab=configure", func(p *tab) {
			p.fillInput("#spec-cpus", "6")
			p.fillInput("#spec-memoryMiB", "12")
			p.fillInput("#labels", "env=prod\ntier=web")
			p.click("#vm-edit footer button", "Review…")
			p.waitPath("/plans/")
			p.waitText("#plan-xml", "vcpu")
		}},
		{"vm-merge", vm + "?tab=configure", func(p *tab) {
			p.allowFaults("409", "422")
			p.fillInput("#spec-cpus", "8")
			p.fillInput("#description", "The shop's front.")
			now := requestJSON[fleet.VMView](t, a, http.StatusOK, http.MethodGet, "/api/v1"+vm, nil)
			requestJSON[any](t, a, http.StatusOK, http.MethodPatch, "/api/v1"+vm, map[string]any{"spec": map[string]any{"cpus": 9 - now.Spec.CPUs%2, "boot": map[string]bool{"menu": !now.Spec.Boot.Menu}}})
			p.click("#vm-edit footer button", "Save")
			p.waitText("#vm-edit", "This VM was changed while you edited it.")
		}},
		{"vms-compare", "/vms/compare?id=" + running + "&with=" + failed, nil},
		{"vms-compare-choose", "/vms/compare?id=" + running, nil},
		{"vms-restart", "/vms?tab=restart", nil},
		{"vms-edit", "/vms/edit?filter=name:web*", func(p *tab) {
			p.click(".change input[name='set.cpus']", "")
			p.fillInput("#labels", "tier=web")
			p.click("footer button", "Preview")
			p.waitText("#bulk-preview", "Changes immediately")
		}},
	}
}
