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
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	ids := url.Values{"id": {string(vms["web-01"]), string(vms["web-02"])}}
	b.get("/vms/edit?"+ids.Encode()).requireStatus(t, http.StatusOK).contains(t, "Edit 2 VMs", `name="set.cpus"`, `name="set.display.video"`, `<b>CPU and memory</b> <span class="muted">unchanged</span>`)
	b.get("/vms/edit?filter=name:web*").requireStatus(t, http.StatusOK).contains(t, "Edit 2 VMs")
	b.get("/vms/edit?filter=name:none*").requireStatus(t, http.StatusNotFound)
	b.get("/vms/edit").requireStatus(t, http.StatusBadRequest)
	b.get("/vms?filter=name:web*").requireStatus(t, http.StatusOK).contains(t, "Edit all matching…", `/vms/edit?filter=name%3Aweb%2A`)

	form := url.Values{
		"id": ids["id"], "step": {"preview"}, "labels": {"env=test"}, "unlabel": {"tier\n"}, "spec.cpus": {"6"}, "set.cpus": {"yes"},
		"spec.memoryMiB": {"9", "GiB"}, "spec.firmware": {"uefi"}, "set.display.sound": {"yes"}, "spec.display.sound": {"ich9"},
	}
	a := b.post("/vms/edit", form).requireStatus(t, http.StatusOK)
	a.contains(t, "Preview", "Change 2 VMs", `<dt>Changes immediately</dt><dd>1 VM</dd>`, `<dt>At the next start</dt><dd>1 VM</dd>`, `name="set.cpus" value="yes" checked`)
	form.Del("set.display.sound") // the hosts in this test do not support it, and each would add a message
	form.Set("step", "do")
	to := b.post("/vms/edit", form).requireStatus(t, http.StatusSeeOther).header.Get("Location")
	p.runTaskStarter()
	b.get(to).requireStatus(t, http.StatusOK).contains(t, "2 VMs", "web-01", "web-02")
	b.get("/vms/"+string(vms["web-02"])).requireStatus(t, http.StatusOK).contains(t, "6 vCPUs", "env=test", "4 GiB", "UEFI")

	form.Set("spec.cpus", "many")
	b.post("/vms/edit", form).requireStatus(t, http.StatusUnprocessableEntity).contains(t, `value="many"`, "Enter a whole number.")
	form.Set("spec.cpus", "6")
	form.Set("unlabel", "env")
	b.post("/vms/edit", form).requireStatus(t, http.StatusUnprocessableEntity).contains(t, "both set and removed")
	form = url.Values{"id": ids["id"], "step": {"preview"}}
	b.post("/vms/edit", form).requireStatus(t, http.StatusUnprocessableEntity).contains(t, "Choose a field or a label to change.")
	form.Set("set.firmware", "yes")
	form.Set("spec.firmware", "bios")
	a = b.post("/vms/edit", form).requireStatus(t, http.StatusOK)
	a.contains(t, `<dt>Refused</dt><dd>1 VM</dd>`, "only while the VM is off")
	if strings.Contains(a.pageContent(), "host-1 lacks") {
		t.Error("the preview reports what host-1 lacks")
	}
}

// A selection may have 500 ids. Proxies refuse addresses and headers above 8 KiB, which 200 ids exceed.
func TestBulkEditAcceptsSelectionInBody(t *testing.T) {
	p, _, _, vms := newFleetPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	b.get("/vms").requireStatus(t, http.StatusOK).excludes(t, `formmethod="get"`)
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
	b.post("/vms/edit", some(many, "step", "select")).requireStatus(t, http.StatusOK).contains(t, "Edit 500 VMs", `name="set.cpus"`)
	b.post("/vms/edit", some(append(many, many[0]), "step", "select")).requireStatus(t, http.StatusRequestEntityTooLarge).contains(t, "at most 500 VMs")
	b.post("/vms/edit", some(nil, "step", "select")).requireStatus(t, http.StatusBadRequest).contains(t, "Select VMs first.")

	two := []string{string(vms["web-01"]), string(vms["web-02"])}
	to := b.post("/vms/bulk", some(two, "action", "compare")).requireStatus(t, http.StatusSeeOther).header.Get("Location")
	b.get(to).requireStatus(t, http.StatusOK).contains(t, "web-01", "web-02")
	to = b.post("/vms/bulk", some(two[:1], "action", "compare")).requireStatus(t, http.StatusSeeOther).header.Get("Location")
	b.get(to).requireStatus(t, http.StatusOK).contains(t, "web-01")
	b.post("/vms/bulk", some(many, "action", "compare")).requireStatus(t, http.StatusBadRequest).contains(t, "Only two VMs can be compared. Select two, not 500.")
	b.post("/vms/bulk", some(nil, "action", "compare")).requireStatus(t, http.StatusBadRequest).contains(t, "Select two VMs")
}
