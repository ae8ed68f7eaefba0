package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

func TestDeviceClassPages(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	red := p.addProject("red")
	host, device := string(p.addHost("node-1", 0)), "pci/0000:41:00.0"
	p.execSQL(`UPDATE hosts SET status = jsonb_set(COALESCE(status, '{}'), '{inventory}', '{"devices":[{"device":"pci/0000:41:00.0","name":"NVIDIA A100","class":"0x030200","iommu":"17"}]}')`)
	b := p.newSignedInBrowser("olga", fleet.RoleOperator)
	b.get("/device-classes").requireStatus(t, http.StatusOK).contains(t, "No device classes", `href="/device-classes/new"`)
	b.post("/device-classes", url.Values{"name": {"GPU"}}).requireStatus(t, 422).contains(t, "A name has 1–63")
	path := b.post("/device-classes", url.Values{"name": {"gpu-a100"}}).requireStatus(t, http.StatusSeeOther).header.Get("Location")
	b.get(path).requireStatus(t, http.StatusOK).contains(t, "no devices", "Add devices", "Published to nobody")
	b.get(path+"/devices?q=nvidia").requireStatus(t, http.StatusOK).contains(t, "NVIDIA A100", device)
	b.get(path+"/devices?q=other").requireStatus(t, http.StatusOK).excludes(t, "NVIDIA A100")
	b.post(path+"/devices", url.Values{}).requireStatus(t, 422).contains(t, "Select at least one device.")
	b.post(path+"/devices", url.Values{"device": {host + " " + device}}).requireStatus(t, http.StatusSeeOther)
	b.get(path).contains(t, "1 of 1 free", "NVIDIA A100", device, "Free")
	b.get("/hosts/"+host+"?tab=hardware").contains(t, `href="`+path+`"`, "gpu-a100")

	tom := p.newSignedInBrowser("tom", fleet.RoleNone)
	p.execSQL("INSERT INTO project_members (project_id, user_id, role) VALUES ($1, 'tom', 'member')", red)
	tom.get(path).requireStatus(t, http.StatusNotFound)
	tom.get("/vms/new").requireStatus(t, http.StatusOK).excludes(t, "spec.deviceClasses", "gpu-a100")
	b.post(path+"/grants", url.Values{"project": {string(red)}}).requireStatus(t, http.StatusSeeOther)
	page := tom.get(path).requireStatus(t, http.StatusOK)
	page.contains(t, "1 of 1 free", "red")
	page.excludes(t, "0000:41", "device-class-form", "Withdraw")
	tom.get(path+"/devices").requireStatus(t, http.StatusForbidden)
	form := tom.get("/vms/new").requireStatus(t, http.StatusOK)
	form.contains(t, "spec.deviceClasses", "gpu-a100 · 1 of 1 free")
	if strings.Contains(form.body, "0000:41") {
		t.Error("the tenant's form names the device's address")
	}

	b.post(path+"/devices", url.Values{"device": {host + " " + device}, "remove": {"yes"}}).requireStatus(t, http.StatusSeeOther)
	b.get(path).contains(t, "no devices")
	b.get(path+"/delete").contains(t, "Delete the device class gpu-a100?")
	b.post(path+"/delete", url.Values{}).requireStatus(t, http.StatusSeeOther)
	b.get(path).requireStatus(t, http.StatusNotFound)
}
