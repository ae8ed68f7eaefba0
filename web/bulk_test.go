package web_test

import (
	"net/http"
	"net/url"
	"testing"

	"quantix/internal/fleet"
)

func TestBulkActionsAreFollowed(t *testing.T) {
	p, _, _, vms := fleetOf(t)
	b := p.signedIn("mara", fleet.RoleAdmin)
	form := url.Values{
		"action": {"start"}, "back": {"/vms?sort=-name"},
		"id": {string(vms["web-02"]), string(vms["web-01"]), string(fleet.NewID[fleet.VMID]())},
	}
	to := b.post("/vms/bulk", form).is(t, http.StatusSeeOther).header.Get("Location")
	tasks := p.count("jobs")
	a := b.get(to).is(t, http.StatusOK)
	a.has(t, "Start: 3 VMs", "1 waiting · 2 refused", "Waits for host-2", "Only a VM that is stopped can be started.", "There is no such VM.",
		`href="/vms?sort=-name"`, ">web-01</a>", `data-live="tasks"`)
	p.exec(`UPDATE jobs SET state = 'failed', error = 'qemu: <no> memory', started_at = now(), ended_at = now() WHERE kind = 'vm.start'`)
	rows := b.fragment(to, "bulk-rows").is(t, http.StatusOK)
	rows.has(t, "1 failed · 2 refused", "qemu: &lt;no&gt; memory", "There is no such VM.", `href="/tasks/`)
	rows.lacks(t, "<html", "<h1")
	if n := p.count("jobs"); n != tasks || tasks != 1 {
		t.Errorf("looking made %d tasks of %d", n, tasks)
	}
	p.exec("DELETE FROM jobs")
	b.get(to).is(t, http.StatusOK).has(t, "Its task is gone")

	p.signedIn("otto", fleet.RoleAdmin).get(to).is(t, http.StatusNotFound)
	b.get("/vms/bulk/x").is(t, http.StatusNotFound)
	form.Set("back", "//elsewhere.example")
	to = b.post("/vms/bulk", form).is(t, http.StatusSeeOther).header.Get("Location")
	b.get(to).is(t, http.StatusOK).lacks(t, "elsewhere.example")
	b.get(to+"&back=//elsewhere.example").is(t, http.StatusOK).lacks(t, `href="//elsewhere`)
}

func TestBulkActionsThatAreNone(t *testing.T) {
	p, _, _, vms := fleetOf(t)
	b := p.signedIn("mara", fleet.RoleAdmin)
	id := string(vms["web-02"])
	many := make([]string, 501)
	for i := range many {
		many[i] = id
	}
	for name, c := range map[string]struct {
		form   url.Values
		status int
	}{
		"nothing selected": {url.Values{"action": {"start"}}, http.StatusBadRequest},
		"a deletion":       {url.Values{"action": {"delete"}, "id": {id}}, http.StatusBadRequest},
		"no action":        {url.Values{"id": {id}}, http.StatusBadRequest},
		"no id":            {url.Values{"action": {"start"}, "id": {id, "\x00"}}, http.StatusBadRequest},
		"too many":         {url.Values{"action": {"start"}, "id": many}, http.StatusRequestEntityTooLarge},
	} {
		if a := b.post("/vms/bulk", c.form); a.status != c.status {
			t.Errorf("%s: %d, not %d", name, a.status, c.status)
		}
	}
	if n := p.count("jobs") + p.count("bulk_actions"); n != 0 {
		t.Errorf("the refusals wrote %d rows", n)
	}
	p.signedIn("vera", fleet.RoleViewer).post("/vms/bulk", url.Values{"action": {"start"}, "id": {id}}).is(t, http.StatusForbidden)
}
