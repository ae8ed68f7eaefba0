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
	admin := p.newSignedInBrowser("ann", fleet.RoleAdmin)
	var shop fleet.ProjectID
	if err := p.pool.QueryRow(t.Context(), "SELECT id FROM projects WHERE name = 'shop'").Scan(&shop); err != nil {
		t.Fatal(err)
	}
	stock := s.addVolumes("files", "disk.vhdx", "machine.ova")
	p.execSQL(`UPDATE assignments SET status = jsonb_set(status, '{volumes,1,appliance}', '{"name":"Old CRM","os":"Debian","family":"linux","cpus":3,"memoryMiB":512,"firmware":"uefi","checks":"SHA1","left":["A floppy drive."],
		"disks":[{"member":"a.vmdk","format":"vmdk","sizeBytes":1048576,"controller":"ide"}],"nics":[{"network":"VM Network","model":"vmxnet3"}]}') WHERE pool_id = $1`, stock)
	admin.get("/vms/import").requireStatus(t, 200).contains(t, "machine.ova", "Old CRM", "3 vCPUs", "SHA1", "disk.vhdx", "VHDX disk", "Upload into files")
	form := admin.get("/vms/new?import=machine.ova&pool="+string(stock)).requireStatus(t, 200)
	form.contains(t, "Import machine.ova", "Disk 1 from VMDK (1 MiB)", "Network in the file: VM Network, as vmxnet3", "A floppy drive.", "virtio_net", "ahci", `value="old-crm"`, `name="from.appliance.volume" value="machine.ova"`)
	sent := url.Values{
		"key": {keyFieldPattern.FindStringSubmatch(form.body)[1]}, "name": {"crm"}, "projectId": {string(shop)}, "spec.cpus": {"3"}, "spec.memoryMiB": {"1", "GiB"}, "spec.firmware": {"bios"},
		"spec.disks[0].source": {"clone"}, "spec.disks[0].poolId": {string(stock)}, "from.appliance.poolId": {string(stock)}, "from.appliance.volume": {"machine.ova"},
	}
	tom := p.newSignedInBrowser("tom", fleet.RoleNone)
	p.execSQL("INSERT INTO project_members (project_id, user_id, role) VALUES ($1, 'tom', 'member')", sent.Get("projectId"))
	tom.get("/vms/import").requireStatus(t, 403)
	tom.get("/vms/new?import=machine.ova&pool="+string(stock)).requireStatus(t, 403)
	tom.post("/vms", sent).requireStatus(t, 403)
	admin.post("/vms", sent).requireStatus(t, 303)
	if n := p.countRows("jobs WHERE kind = 'volume.convert' AND args->'volume'->>'member' = 'a.vmdk'"); n != 1 {
		t.Errorf("%d disk conversions are queued", n)
	}
	if n := p.countRows(`vms WHERE name = 'crm' AND spec @> '{"disks":[{"sizeBytes":1048576}]}'`); n != 1 {
		t.Error("the disk differs from the form")
	}
	at := "/pools/" + string(stock) + "/volumes/convert?volume=disk.vhdx"
	admin.get(at).requireStatus(t, 200).contains(t, `value="disk.qcow2"`)
	admin.post(at, url.Values{"name": {"disk.qcow2"}}).requireStatus(t, 303)

	vm := s.addVM(shop, s.host.id, "out", fleet.Stopped)
	p.execSQL(`UPDATE vms SET spec = spec || jsonb_build_object('disks', jsonb_build_array(jsonb_build_object('poolId', $2::text, 'volume', 'out-1.qcow2', 'sizeBytes', 1048576)), 'firmware', 'uefi') WHERE id = $1`, vm, stock)
	page := "/vms/" + string(vm) + "/export"
	tom.get("/menus/vm/"+string(vm)).requireStatus(t, 200).contains(t, "Export", page)
	tom.get(page).requireStatus(t, 200).contains(t, "OVA archive: 1 disk", "Disk 1 as qcow2", "NVRAM")
	tom.post(page, url.Values{"what": {"iso"}}).requireStatus(t, 422)
	tom.post(page, url.Values{"what": {"ova"}}).requireStatus(t, 303)
	tom.get(page).requireStatus(t, 200).contains(t, "Running 0 %", "in 48 hours")
	sam := p.newSignedInBrowser("sam", fleet.RoleNone)
	sam.get(page).requireStatus(t, 403)
	var id string
	if err := p.pool.QueryRow(t.Context(), "SELECT id FROM exports").Scan(&id); err != nil {
		t.Fatal(err)
	}
	tom.get("/exports/"+id+"/content").requireStatus(t, 409)
	sam.get("/exports/"+id+"/content").requireStatus(t, 403)
	p.execSQL(`UPDATE jobs SET state = 'failed', error = 'No space left', ended_at = now() WHERE kind = 'volume.export'`)
	tom.get(page).contains(t, "No space left")
	tom.post("/exports/"+id+"/delete", url.Values{}).requireStatus(t, 303)
	if n := p.countRows("exports"); n != 0 {
		t.Error("the export still exists after its deletion")
	}
	p.execSQL(`UPDATE vms SET status = '{"power":"running"}' WHERE id = $1`, vm)
	tom.get(page).requireStatus(t, 200).contains(t, "The VM is on")
}
