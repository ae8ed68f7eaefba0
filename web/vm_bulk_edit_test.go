package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

func TestManyVMsAreEditedByAForm(t *testing.T) {
	p, _, _, vms := fleetOf(t)
	b := p.signedIn("mara", fleet.RoleAdmin)
	ids := url.Values{"id": {string(vms["web-01"]), string(vms["web-02"])}}
	b.get("/vms/edit?"+ids.Encode()).is(t, http.StatusOK).has(t, "Edit 2 VMs", `name="set.cpus"`, `name="set.display.video"`, "stays as it is")
	b.get("/vms/edit?filter=name:web*").is(t, http.StatusOK).has(t, "Edit 2 VMs")
	b.get("/vms/edit?filter=name:none*").is(t, http.StatusNotFound)
	b.get("/vms/edit").is(t, http.StatusBadRequest)
	b.get("/vms?filter=name:web*").is(t, http.StatusOK).has(t, "Edit all that fit…", `/vms/edit?filter=name%3Aweb%2A`)

	form := url.Values{
		"id": ids["id"], "step": {"preview"}, "labels": {"env=test"}, "unlabel": {"tier\n"}, "spec.cpus": {"6"}, "set.cpus": {"yes"},
		"spec.memoryMiB": {"9", "GiB"}, "spec.firmware": {"uefi"}, "set.display.sound": {"yes"}, "spec.display.sound": {"ich9"},
	}
	a := b.post("/vms/edit", form).is(t, http.StatusOK)
	a.has(t, "What would happen", "Change 2 VMs", `<dt>Changes at once</dt><dd>1 VM</dd>`, `<dt>At the next start</dt><dd>1 VM</dd>`, `name="set.cpus" value="yes" checked`)
	form.Del("set.display.sound") // its hosts are too old for it, which each would say
	form.Set("step", "do")
	to := b.post("/vms/edit", form).is(t, http.StatusSeeOther).header.Get("Location")
	p.beginTasks()
	b.get(to).is(t, http.StatusOK).has(t, "2 VMs", "web-01", "web-02")
	b.get("/vms/"+string(vms["web-02"])).is(t, http.StatusOK).has(t, "6 vCPUs", "env=test", "4 GiB", "UEFI")

	form.Set("spec.cpus", "many")
	b.post("/vms/edit", form).is(t, http.StatusUnprocessableEntity).has(t, `value="many"`, "Give a whole number.")
	form.Set("spec.cpus", "6")
	form.Set("unlabel", "env")
	b.post("/vms/edit", form).is(t, http.StatusUnprocessableEntity).has(t, "both set and taken away")
	form = url.Values{"id": ids["id"], "step": {"preview"}}
	b.post("/vms/edit", form).is(t, http.StatusUnprocessableEntity).has(t, "Choose what to change")
	form.Set("set.firmware", "yes")
	form.Set("spec.firmware", "bios")
	a = b.post("/vms/edit", form).is(t, http.StatusOK)
	a.has(t, `<dt>Refused</dt><dd>1 VM</dd>`, "only while the VM is off")
	if strings.Contains(a.main(), "host-1 lacks") {
		t.Error("a host is asked before anything is ordered")
	}
}
