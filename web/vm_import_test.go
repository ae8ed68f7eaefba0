package web_test

import (
	"net/url"
	"testing"

	"quantix/internal/fleet"
)

// The form of a new VM shows the contents of an appliance and imports it. A VM's page exports the VM.
func TestApplianceImportedAndVMExportedByForms(t *testing.T) {
	s := newConsoleHost(t)
	p := s.portal
	admin := p.signedIn("ann", fleet.RoleAdmin)
	var shop fleet.ProjectID
	if err := p.pool.QueryRow(t.Context(), "SELECT id FROM projects WHERE name = 'shop'").Scan(&shop); err != nil {
		t.Fatal(err)
	}
	stock := s.addVolumes("files", "disk.vhdx", "machine.ova")
	p.exec(`UPDATE assignments SET status = jsonb_set(status, '{volumes,1,appliance}', '{"name":"Old CRM","os":"Debian","family":"linux","cpus":3,"memoryMiB":512,"firmware":"uefi","checks":"SHA1","left":["A floppy drive."],
		"disks":[{"member":"a.vmdk","format":"vmdk","sizeBytes":1048576,"controller":"ide"}],"nics":[{"network":"VM Network","model":"vmxnet3"}]}') WHERE pool_id = $1`, stock)
	admin.get("/vms/import").is(t, 200).has(t, "machine.ova", "Old CRM", "3 vCPUs", "SHA1", "disk.vhdx", "VHDX disk", "Upload into files")
	form := admin.get("/vms/new?import=machine.ova&pool="+string(stock)).is(t, 200)
	form.has(t, "Import machine.ova", "Disk 1 from VMDK (1 MiB)", "Network in the file: VM Network, as vmxnet3", "A floppy drive.", "virtio_net", "ahci", `value="old-crm"`, `name="from.appliance.volume" value="machine.ova"`)
	sent := url.Values{
		"key": {hiddenField.FindStringSubmatch(form.body)[1]}, "name": {"crm"}, "projectId": {string(shop)}, "spec.cpus": {"3"}, "spec.memoryMiB": {"1", "GiB"}, "spec.firmware": {"bios"},
		"spec.disks[0].source": {"clone"}, "spec.disks[0].poolId": {string(stock)}, "from.appliance.poolId": {string(stock)}, "from.appliance.volume": {"machine.ova"},
	}
	tom := p.signedIn("tom", fleet.RoleNone)
	p.exec("INSERT INTO project_members (project_id, user_id, role) VALUES ($1, 'tom', 'member')", sent.Get("projectId"))
	tom.get("/vms/import").is(t, 403)
	tom.get("/vms/new?import=machine.ova&pool="+string(stock)).is(t, 403)
	tom.post("/vms", sent).is(t, 403)
	admin.post("/vms", sent).is(t, 303)
	if n := p.count("jobs WHERE kind = 'volume.convert' AND args->'volume'->>'member' = 'a.vmdk'"); n != 1 {
		t.Errorf("%d disk conversions are queued", n)
	}
	if n := p.count(`vms WHERE name = 'crm' AND spec @> '{"disks":[{"sizeBytes":1048576}]}'`); n != 1 {
		t.Error("the disk differs from the form")
	}
	at := "/pools/" + string(stock) + "/volumes/convert?volume=disk.vhdx"
	admin.get(at).is(t, 200).has(t, `value="disk.qcow2"`)
	admin.post(at, url.Values{"name": {"disk.qcow2"}}).is(t, 303)

	vm := s.addVM(shop, s.host.id, "out", fleet.Stopped)
	p.exec(`UPDATE vms SET spec = spec || jsonb_build_object('disks', jsonb_build_array(jsonb_build_object('poolId', $2::text, 'volume', 'out-1.qcow2', 'sizeBytes', 1048576)), 'firmware', 'uefi') WHERE id = $1`, vm, stock)
	page := "/vms/" + string(vm) + "/export"
	tom.get("/menus/vm/"+string(vm)).is(t, 200).has(t, "Export", page)
	tom.get(page).is(t, 200).has(t, "OVA archive: 1 disk", "Disk 1 as qcow2", "NVRAM")
	tom.post(page, url.Values{"what": {"iso"}}).is(t, 422)
	tom.post(page, url.Values{"what": {"ova"}}).is(t, 303)
	tom.get(page).is(t, 200).has(t, "Running 0 %", "in 48 hours")
	sam := p.signedIn("sam", fleet.RoleNone)
	sam.get(page).is(t, 403)
	var id string
	if err := p.pool.QueryRow(t.Context(), "SELECT id FROM exports").Scan(&id); err != nil {
		t.Fatal(err)
	}
	tom.get("/exports/"+id+"/content").is(t, 409)
	sam.get("/exports/"+id+"/content").is(t, 403)
	p.exec(`UPDATE jobs SET state = 'failed', error = 'No space left', ended_at = now() WHERE kind = 'volume.export'`)
	tom.get(page).has(t, "No space left")
	tom.post("/exports/"+id+"/delete", url.Values{}).is(t, 303)
	if n := p.count("exports"); n != 0 {
		t.Error("the export still exists after its deletion")
	}
	p.exec(`UPDATE vms SET status = '{"power":"running"}' WHERE id = $1`, vm)
	tom.get(page).is(t, 200).has(t, "The VM is on")
}
