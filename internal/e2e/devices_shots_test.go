//go:build linux

package e2e

import (
	"net/http"
	"testing"

	"quantix/internal/fleet"
)

// createVMWithDevices creates a VM with drives, ports and a host device, and returns the path of its page.
func createVMWithDevices(t *testing.T, a api, project string, host fleet.HostID) string {
	t.Helper()
	vm := requestJSON[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
		"projectId": project, "hostId": host, "name": "render-01", "spec": map[string]any{
			"cpus": 4, "memoryMiB": 4096,
			"drives": []any{map[string]any{"slot": "cdrom2"}, map[string]any{"slot": "floppy1"}}, "devices": map[string]any{"serials": 1, "balloon": "reporting"},
			"hostDevices": []any{map[string]any{"device": "pci/0000:3b:00.1"}, map[string]any{"device": "usb-port/1-1"}},
			"numa":        []any{map[string]any{"cpus": "0-1", "memoryMiB": 2048, "nodes": "0"}, map[string]any{"cpus": "2-3", "memoryMiB": 2048}},
		},
	})
	return "/vms/" + string(vm.ID)
}

// deviceShots returns the shots of host devices, and of VM devices that a VM can have several times.
func deviceShots(t *testing.T, a api, project string, host fleet.HostID) []pageShot {
	t.Helper()
	vault := requestJSON[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
		"projectId": project, "name": "vault-01", "start": true, "spec": map[string]any{"cpus": 2, "memoryMiB": 2048, "firmware": "uefi", "security": map[string]any{"confidential": "sev-es"}},
	})
	return []pageShot{
		{"vm-new-devices", "/vms/new", func(p *tab) {
			p.unfoldForm()
			p.allowFaults("422")
			p.fillInput("#name", "with-devices")
			for _, list := range []string{"drives", "hostDevices", "shares"} {
				p.click(`button[value="spec.`+list+`"]`, "Add")
			}
			p.chooseOption("[name='spec.drives[0].slot']", "Floppy")
			p.fillInput("[name='spec.hostDevices[0].device']", "gpu0")
			p.fillInput("[name='spec.shares[0].tag']", "src")
			p.click("footer button.primary", "Create VM")
			p.waitText(".part-list .field.bad", "Enter a device as the host's page lists it:")
			p.waitTrue("the devices are in sight", `(document.querySelector(".part-list").scrollIntoView(), true)`)
		}},
		{"vm-devices", createVMWithDevices(t, a, project, host), nil},
		{"vm-encrypted", "/vms/" + string(vault.ID), func(p *tab) {
			p.waitText("#launch", "Copy")
			p.waitTrue("the NIC is in sight", `(document.querySelector("#launch").scrollIntoView({block: "center"}), true)`)
		}},
		{"vm-new-numa", "/vms/new", func(p *tab) {
			p.unfoldForm()
			p.allowFaults("422")
			p.fillInput("#name", "with-nodes")
			for range 2 {
				p.click(`button[value="spec.numa"]`, "Add")
			}
			p.fillInput("[name='spec.numa[0].cpus']", "0-1")
			p.fillInput("[name='spec.numa[0].memoryMiB']", "1024")
			p.fillInput("[name='spec.numa[1].cpus']", "1,3")
			p.fillInput("[name='spec.numa[1].memoryMiB']", "512")
			p.click("footer button.primary", "Create VM")
			p.waitText(".part-list .field.bad", "vCPU")
			p.waitTrue("the NUMA nodes are in sight", `(document.querySelector("[name='spec.numa[0].cpus']").closest(".part-list").scrollIntoView(), true)`)
		}},
		{"host-devices", "/hosts/" + string(host) + "?tab=hardware", func(p *tab) {
			p.waitTrue("the devices are in sight", `([...document.querySelectorAll("h2")].find(h => h.textContent == "Devices for VMs").scrollIntoView(), true)`)
		}},
	}
}
