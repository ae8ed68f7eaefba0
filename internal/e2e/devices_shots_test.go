//go:build linux

package e2e

import (
	"net/http"
	"testing"

	"quantix/internal/deviceclass"
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

// createDeviceClasses creates a class with the GPUs of all hosts, used by one VM, and a class without devices.
func createDeviceClasses(t *testing.T, a api, project string) (ids []string) {
	t.Helper()
	gpus := []deviceclass.ClassMember{}
	for _, of := range listFirstPage[fleet.HostView](t, a, "/api/v1/hosts") {
		h := requestJSON[fleet.HostView](t, a, http.StatusOK, http.MethodGet, "/api/v1/hosts/"+string(of.ID), nil)
		if h.Status == nil {
			continue
		}
		for _, d := range h.Status.Inventory.Devices {
			if deviceclass.IsGPU(d.Device, d.Class) {
				gpus = append(gpus, deviceclass.ClassMember{HostID: h.ID, Device: d.Device})
			}
		}
	}
	for _, c := range []deviceclass.ClassDefinition{
		{Name: "gpu-l40s", Description: "NVIDIA L40S, whole or as vGPU", Members: gpus}, {Name: "nic-x710", Members: []deviceclass.ClassMember{}},
	} {
		v := requestJSON[deviceclass.DeviceClass](t, a, http.StatusCreated, http.MethodPost, "/api/v1/device-classes", c)
		ids = append(ids, string(v.ID))
	}
	requestJSON[any](t, a, http.StatusNoContent, http.MethodPut, "/api/v1/device-classes/"+ids[0]+"/grants/"+project, nil)
	if len(gpus) > 0 {
		requestJSON[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
			"projectId": project, "name": "train-01", "spec": map[string]any{"cpus": 2, "memoryMiB": 2048, "deviceClasses": []any{map[string]any{"classId": ids[0]}}},
		})
	}
	return ids
}

// deviceShots returns the shots of host devices, and of VM devices that a VM can have several times.
func deviceShots(t *testing.T, a api, project string, host fleet.HostID) []pageShot {
	t.Helper()
	vault := requestJSON[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
		"projectId": project, "name": "vault-01", "start": true, "spec": map[string]any{"cpus": 2, "memoryMiB": 2048, "firmware": "uefi", "security": map[string]any{"confidential": "sev-es"}},
	})
	classes := createDeviceClasses(t, a, project)
	return []pageShot{
		{"device-classes", "/device-classes", nil},
		{"device-class", "/device-classes/" + classes[0], nil},
		{"device-class-empty", "/device-classes/" + classes[1], nil},
		{"device-class-new", "/device-classes/new", nil},
		{"device-class-devices", "/device-classes/" + classes[1] + "/devices?q=pci", nil},
		{"device-class-delete", "/device-classes/" + classes[1] + "/delete", nil},
		{"vm-new-device-class", "/vms/new", func(p *tab) {
			p.unfoldForm()
			p.click(`button[value="spec.deviceClasses"]`, "Add")
			p.chooseOption("[name='spec.deviceClasses[0].classId']", "gpu-l40s")
			p.waitTrue("the class is in sight", `(document.querySelector("[name='spec.deviceClasses[0].classId']").closest(".part-list").scrollIntoView(), true)`)
		}},
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
