package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

func TestBulkEditPreviewsAndAppliesChanges(t *testing.T) {
	p, _, _, vms := newFleetPortal(t)
	b := p.signedIn("mara", fleet.RoleAdmin)
	ids := url.Values{"id": {string(vms["web-01"]), string(vms["web-02"])}}
	b.get("/vms/edit?"+ids.Encode()).is(t, http.StatusOK).has(t, "Edit 2 VMs", `name="set.cpus"`, `name="set.display.video"`, `<b>CPU and memory</b> <span class="muted">unchanged</span>`)
	b.get("/vms/edit?filter=name:web*").is(t, http.StatusOK).has(t, "Edit 2 VMs")
	b.get("/vms/edit?filter=name:none*").is(t, http.StatusNotFound)
	b.get("/vms/edit").is(t, http.StatusBadRequest)
	b.get("/vms?filter=name:web*").is(t, http.StatusOK).has(t, "Edit all matching…", `/vms/edit?filter=name%3Aweb%2A`)

	form := url.Values{
		"id": ids["id"], "step": {"preview"}, "labels": {"env=test"}, "unlabel": {"tier\n"}, "spec.cpus": {"6"}, "set.cpus": {"yes"},
		"spec.memoryMiB": {"9", "GiB"}, "spec.firmware": {"uefi"}, "set.display.sound": {"yes"}, "spec.display.sound": {"ich9"},
	}
	a := b.post("/vms/edit", form).is(t, http.StatusOK)
	a.has(t, "Preview", "Change 2 VMs", `<dt>Changes immediately</dt><dd>1 VM</dd>`, `<dt>At the next start</dt><dd>1 VM</dd>`, `name="set.cpus" value="yes" checked`)
	form.Del("set.display.sound") // unsupported by the hosts' version, which would add a message each
	form.Set("step", "do")
	to := b.post("/vms/edit", form).is(t, http.StatusSeeOther).header.Get("Location")
	p.beginTasks()
	b.get(to).is(t, http.StatusOK).has(t, "2 VMs", "web-01", "web-02")
	b.get("/vms/"+string(vms["web-02"])).is(t, http.StatusOK).has(t, "6 vCPUs", "env=test", "4 GiB", "UEFI")

	form.Set("spec.cpus", "many")
	b.post("/vms/edit", form).is(t, http.StatusUnprocessableEntity).has(t, `value="many"`, "Give a whole number.")
	form.Set("spec.cpus", "6")
	form.Set("unlabel", "env")
	b.post("/vms/edit", form).is(t, http.StatusUnprocessableEntity).has(t, "both set and removed")
	form = url.Values{"id": ids["id"], "step": {"preview"}}
	b.post("/vms/edit", form).is(t, http.StatusUnprocessableEntity).has(t, "Choose a field or a label to change.")
	form.Set("set.firmware", "yes")
	form.Set("spec.firmware", "bios")
	a = b.post("/vms/edit", form).is(t, http.StatusOK)
	a.has(t, `<dt>Refused</dt><dd>1 VM</dd>`, "only while the VM is off")
	if strings.Contains(a.main(), "host-1 lacks") {
		t.Error("the preview reports what host-1 lacks")
	}
}

// A selection may have 500 ids. Proxies refuse addresses and headers above 8 KiB, which 200 ids exceed.
func TestBulkEditAcceptsSelectionInBody(t *testing.T) {
	p, _, _, vms := newFleetPortal(t)
	b := p.signedIn("mara", fleet.RoleAdmin)
	b.get("/vms").is(t, http.StatusOK).lacks(t, `formmethod="get"`)
	var many []string
	for range 500 {
		many = append(many, string(fleet.NewID[fleet.VMID]()))
	}
	some := func(ids []string, more ...string) url.Values {
		out := url.Values{"id": ids}
		for i := 0; i < len(more); i += 2 {
			out.Set(more[i], more[i+1])
		}
		return out
	}
	b.post("/vms/edit", some(many, "step", "select")).is(t, http.StatusOK).has(t, "Edit 500 VMs", `name="set.cpus"`)
	b.post("/vms/edit", some(append(many, many[0]), "step", "select")).is(t, http.StatusRequestEntityTooLarge).has(t, "at most 500 VMs")
	b.post("/vms/edit", some(nil, "step", "select")).is(t, http.StatusBadRequest).has(t, "Select VMs first.")

	two := []string{string(vms["web-01"]), string(vms["web-02"])}
	to := b.post("/vms/bulk", some(two, "action", "compare")).is(t, http.StatusSeeOther).header.Get("Location")
	b.get(to).is(t, http.StatusOK).has(t, "web-01", "web-02")
	to = b.post("/vms/bulk", some(two[:1], "action", "compare")).is(t, http.StatusSeeOther).header.Get("Location")
	b.get(to).is(t, http.StatusOK).has(t, "web-01")
	b.post("/vms/bulk", some(many, "action", "compare")).is(t, http.StatusBadRequest).has(t, "Only two VMs can be compared. Select two, not 500.")
	b.post("/vms/bulk", some(nil, "action", "compare")).is(t, http.StatusBadRequest).has(t, "Select two VMs")
}
