package web_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

func (p *portal) runTaskStarter() {
	p.t.Helper()
	if err := p.control.BeginTasks(p.t.Context(), fleet.SystemActor); err != nil {
		p.t.Fatal(err)
	}
}

func TestBulkActionTaskShowsResultPerVM(t *testing.T) {
	p, _, _, vms := newFleetPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	form := url.Values{
		"action": {"start"}, "back": {"/vms?sort=-name"},
		"id": {string(vms["web-02"]), string(vms["web-01"]), string(fleet.NewID[fleet.VMID]())},
	}
	to := b.post("/vms/bulk", form).requireStatus(t, http.StatusSeeOther).header.Get("Location")
	b.get(to).requireStatus(t, http.StatusOK).contains(t, "Start 3 VMs", "1 waiting · 2 refused", "Waiting in the queue")
	p.runTaskStarter()
	tasks := p.countRows("jobs")
	a := b.get(to).requireStatus(t, http.StatusOK)
	a.contains(t, "Start 3 VMs", "1 waiting · 2 refused", "Waiting for host-2", "Only a stopped VM can be started.", "There is no such VM.",
		`href="/vms?sort=-name"`, ">web-01</a>", `data-live="task:`, "Cancel waiting tasks")
	p.execSQL(`UPDATE jobs SET state = 'failed', attempt = 1, error = 'qemu: <no> memory', started_at = now(), ended_at = now() WHERE kind = 'vm.start'`)
	b.getFragment(to, "task-sum").requireStatus(t, http.StatusOK).contains(t, "1 failed · 2 refused")
	rows := b.getFragment(to, "step-rows").requireStatus(t, http.StatusOK)
	rows.contains(t, "qemu: &lt;no&gt; memory", "There is no such VM.", `href="/tasks/`)
	rows.excludes(t, "<html", "<h1")
	if n := p.countRows("jobs"); n != tasks || tasks != 1 {
		t.Errorf("%d jobs after the page was shown, and %d before; want 1 both times", n, tasks)
	}

	// The results can be filtered and paged. The page of each result links back to the bulk task.
	some := b.get(to+"&filter=target:web-02").requireStatus(t, http.StatusOK)
	some.contains(t, `">web-02</a>`)
	some.excludes(t, `">web-01</a></th>`)
	b.get(to+"&filter=state:done").requireStatus(t, http.StatusOK).contains(t, "No result matches")
	b.get(to+"&filter=nonsense:x").requireStatus(t, http.StatusUnprocessableEntity).contains(t, "The filter is not valid")
	first := b.get(to+"&limit=2").requireStatus(t, http.StatusOK)
	first.contains(t, "2 results on this page", ">web-02</a>", ">web-01</a>", "Next")
	links := strings.Split(rows.body, `href="/tasks/`)
	child, _, _ := strings.Cut(links[len(links)-1], `"`)
	b.get("/tasks/"+child).requireStatus(t, http.StatusOK).contains(t, ">Start 3 VMs</a>", "The task was refused:")
	list := b.get("/tasks").requireStatus(t, http.StatusOK)
	list.contains(t, ">3 VMs</a>", "1 failed · 2 refused")
	list.excludes(t, ">There is no such VM.")

	p.newSignedInBrowser("ron", fleet.RoleNone).get(to).requireStatus(t, http.StatusForbidden)
	if a := b.get(strings.Replace(to, "/tasks/", "/vms/bulk/", 1)); a.header.Get("Location") != to {
		t.Errorf("the address of older versions redirects to %q", a.header.Get("Location"))
	}
	form.Set("back", "//elsewhere.example")
	to = b.post("/vms/bulk", form).requireStatus(t, http.StatusSeeOther).header.Get("Location")
	b.get(to).requireStatus(t, http.StatusOK).excludes(t, "elsewhere.example")
	b.get(to+"&back=//elsewhere.example").requireStatus(t, http.StatusOK).excludes(t, `href="//elsewhere`)
}

// People who may change infrastructure can start the selected VMs beyond the capacity of their hosts.
func TestBulkStartByOvercommitAsksFirst(t *testing.T) {
	p, project, _, vms := newFleetPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	b.get("/vms").contains(t, `value="start-by-overcommit"`, "Start by overcommit…")
	form := url.Values{"action": {"start-by-overcommit"}, "id": {string(vms["web-02"])}}
	b.post("/vms/bulk", form).requireStatus(t, http.StatusOK).contains(t, "Start 1 VM by overcommit?", "The audit log records this choice.")
	form.Set("sure", "yes")
	to := b.post("/vms/bulk", form).requireStatus(t, http.StatusSeeOther).header.Get("Location")
	b.get(to).contains(t, "Start 1 VM")
	if n := p.countRows("audit WHERE action = 'vms.start' AND detail = 'overcommit chosen'"); n != 1 {
		t.Errorf("%d audit lines of the overcommit, want 1", n)
	}
	otto := p.newSignedInBrowser("otto", fleet.RoleNone)
	p.execSQL(`INSERT INTO project_members (project_id, user_id, role) SELECT $1, id, 'member' FROM users WHERE name = 'otto'`, project)
	otto.get("/vms").excludes(t, "Start by overcommit")
	otto.post("/vms/bulk", form).requireStatus(t, http.StatusUnprocessableEntity).contains(t, "Only those who may change infrastructure")
}

func TestCancelStopsQueuedBulkSteps(t *testing.T) {
	p, _, _, vms := newFleetPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	to := b.post("/vms/bulk", url.Values{"action": {"start"}, "id": {string(vms["web-02"])}}).requireStatus(t, http.StatusSeeOther).header.Get("Location")
	path, _, _ := strings.Cut(to, "?")
	b.post(path+"/cancel", nil).requireStatus(t, http.StatusSeeOther)
	b.get(path).requireStatus(t, http.StatusOK).contains(t, "Start 1 VM<", "1 cancelled", "Cancelled by mara.", "The task has ended.")
}

func TestAPIBulkActionReportsResultPerVM(t *testing.T) {
	p, _, _, vms := newFleetPortal(t)
	api := p.newAPIClient("ann", fleet.RoleAdmin, nil)
	body := mustJSON(map[string]any{"action": "start", "ids": []fleet.VMID{vms["web-01"], vms["web-02"]}})
	a := api.call("POST", "/api/v1/vms/actions", body, "Idempotency-Key", "once").requireStatus(t, http.StatusAccepted)
	if again := api.call("POST", "/api/v1/vms/actions", body, "Idempotency-Key", "once"); again.body != a.body || p.countRows("tasks") != 3 {
		t.Errorf("repeated request: %s, %d tasks", again.body, p.countRows("tasks"))
	}
	p.runTaskStarter()
	var task fleet.Task
	if err := json.Unmarshal([]byte(a.body), &task); err != nil {
		t.Fatal(err)
	}
	one, err := api.Task(t.Context(), task.ID)
	if err != nil || one.Steps == nil || *one.Steps != (fleet.Steps{Queued: 1, Refused: 1}) {
		t.Errorf("%+v %v", one, err)
	}
	all, err := api.Tasks(t.Context(), fleet.Query{})
	if err != nil || len(all.Items) != 1 || all.Items[0].ID != task.ID {
		t.Errorf("%+v %v", all, err)
	}
	parts, err := api.Tasks(t.Context(), fleet.Query{Filter: "parent:" + string(task.ID)})
	if err != nil || len(parts.Items) != 2 || parts.Items[0].Parent != task.ID {
		t.Errorf("%+v %v", parts, err)
	}
	api.call("POST", "/api/v1/vms/actions", `{"action":"start","ids":[]}`).requireProblem(t, http.StatusBadRequest, "")
	api.call("POST", "/api/v1/vms/actions", `{"action":"fly","ids":["`+string(vms["web-01"])+`"]}`).requireProblem(t, http.StatusUnprocessableEntity, "action")
}

func TestInvalidBulkActionsRefused(t *testing.T) {
	p, _, _, vms := newFleetPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
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
		"a wrong number":   {url.Values{"action": {"delete"}, "sure": {"yes"}, "disks": {"delete"}, "confirm": {"2"}, "id": {id}}, http.StatusUnprocessableEntity},
		"no action":        {url.Values{"id": {id}}, http.StatusUnprocessableEntity},
		"no id":            {url.Values{"action": {"start"}, "id": {id, "\x00"}}, http.StatusBadRequest},
		"too many":         {url.Values{"action": {"start"}, "id": many}, http.StatusRequestEntityTooLarge},
	} {
		if a := b.post("/vms/bulk", c.form); a.status != c.status {
			t.Errorf("%s: %d, not %d", name, a.status, c.status)
		}
	}
	if n := p.countRows("tasks"); n != 0 {
		t.Errorf("refused actions created %d tasks", n)
	}
	p.newSignedInBrowser("vera", fleet.RoleViewer).post("/vms/bulk", url.Values{"action": {"start"}, "id": {id}}).requireStatus(t, http.StatusForbidden)
}

// The first click on an action that destroys data or interrupts guests changes nothing: it shows a dialog with the number and names of the VMs.
func TestInterruptingBulkActionConfirmed(t *testing.T) {
	p, project, _, vms := newFleetPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	list := b.get("/vms").requireStatus(t, http.StatusOK)
	list.contains(t, `value="reset" hx-post="/vms/bulk"`, `value="delete" hx-post`, `value="snapshot" hx-post`, `value="migrate" hx-post`, "Labels…")
	list.excludes(t, "data-confirm", `value="start" hx-post`)
	ids := []string{string(vms["web-01"]), string(vms["web-02"])}
	for action, words := range map[string][]string{
		"stop": {"Force off 2 VMs?", "unwritten data is lost", "btn danger"}, "reset": {"Reset 2 VMs?"}, "restart": {"Restart 2 VMs?"}, "reboot": {"Reboot 2 VMs?"},
		"shutdown": {"Shut down 2 VMs?", "The guests shut down, and the VMs stay off until they are started.", "btn primary"},
		"migrate":  {"Migrate 2 VMs?", "host-2"},
		"snapshot": {"Take snapshots of 2 VMs?", `name="name"`, `name="memory"`},
		"delete":   {"Delete 2 VMs?", "1 of them is running and will be powered off first.", `data-confirm-name="2"`, `value="keep" checked`},
	} {
		d := b.post("/vms/bulk", url.Values{"action": {action}, "id": ids}, htmxFormHeaders("dialog")...).requireStatus(t, http.StatusOK)
		d.contains(t, append(words, ">web-01<", ">web-02<", `name="sure" value="yes"`, `value="`+ids[1]+`"`)...)
	}
	if n := p.countRows("tasks"); n != 0 {
		t.Errorf("%d tasks before the confirmation", n)
	}

	form := url.Values{"action": {"delete"}, "sure": {"yes"}, "disks": {"keep"}, "id": ids}
	b.post("/vms/bulk", form, htmxFormHeaders("dialog")...).requireStatus(t, http.StatusUnprocessableEntity).contains(t, `id="confirm-error"`, "Type 2, the number of VMs")
	form.Set("confirm", "2")
	to := b.post("/vms/bulk", form, htmxFormHeaders("dialog")...).requireStatus(t, http.StatusNoContent).header.Get("HX-Redirect")
	p.runTaskStarter()
	b.get(to).requireStatus(t, http.StatusOK).contains(t, "Delete 2 VMs", "2 waiting")
	kept := p.addVM(project, p.addHost("host-9", 0), "kept", fleet.Stopped)
	form = url.Values{"action": {"snapshot"}, "sure": {"yes"}, "id": {string(kept)}}
	b.post("/vms/bulk", form, htmxFormHeaders("dialog")...).requireStatus(t, http.StatusUnprocessableEntity).contains(t, `id="name-error"`)
	form.Set("name", "nightly")
	b.post("/vms/bulk", form, htmxFormHeaders("dialog")...).requireStatus(t, http.StatusNoContent)
}
