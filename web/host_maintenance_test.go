package web_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/maintenance"
)

// maintenanceVMs returns the IDs of the VM and of the discovered VM on host-1.
func (p *portal) maintenanceVMs(t *testing.T) (vm, found fleet.VMID) {
	t.Helper()
	if err := p.pool.QueryRow(t.Context(), `SELECT (SELECT id FROM vms), (SELECT id FROM found_vms)`).Scan(&vm, &found); err != nil {
		t.Fatal(err)
	}
	return vm, found
}

func TestHostEntersAndLeavesMaintenance(t *testing.T) {
	p, well, silent := newHostsPortal(t)
	vm, found := p.maintenanceVMs(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	path := "/hosts/" + string(well)
	b.get(path+"/maintenance").requireStatus(t, http.StatusOK).contains(t, "Needs a decision", "web-01", "legacy-erp", "Decide…", "host-2 is offline.", "Quantix does not manage it")
	a := b.post(path+"/maintenance", url.Values{"decision." + string(vm): {""}, "decision." + string(found): {"leave"}}, htmxFormHeaders("dialog")...).requireStatus(t, 422)
	a.contains(t, "Decide what happens to web-01: host-2 is offline.", `<option value="leave" selected>Leave running</option>`)
	b.post(path+"/maintenance", url.Values{"decision." + string(vm): {"migrate/" + string(silent) + "/"}, "decision." + string(found): {"leave"}}, htmxFormHeaders("dialog")...).
		requireStatus(t, 422).contains(t, "web-01: host-2 is offline.")
	decided := url.Values{"decision." + string(vm): {"leave"}, "decision." + string(found): {"leave"}}
	p.newSignedInBrowser("vera", fleet.RoleViewer).post(path+"/maintenance", decided).requireStatus(t, http.StatusForbidden)
	b.post(path+"/maintenance", decided, htmxFormHeaders("dialog")...).requireStatus(t, http.StatusNoContent)
	b.get(path).contains(t, "host-1 is in maintenance.", "Left running by decision:", "web-01", "legacy-erp", ">Maintenance<", "/leave-maintenance")
	b.get("/hosts?filter=lifecycle:maintenance").contains(t, ">host-1</a>", ">Maintenance<")
	b.get(path+"/maintenance").contains(t, "host-1 is in maintenance already.")
	b.get(path+"/reboot").contains(t, "agent.yaml of host-1 does not allow it: set hostPower: true.")
	p.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{settings}', '{"hostPower": true}') WHERE id = $1`, well)
	b.get(path+"/shutdown").contains(t, "2 VMs still running on the host:", "type the host&#39;s name: host-1")
	b.post(path+"/shutdown", url.Values{"confirm": {"host-2"}}, htmxFormHeaders("dialog")...).requireStatus(t, 422).contains(t, "Type the host&#39;s name, host-1.")
	b.post(path+"/shutdown", url.Values{"confirm": {"host-1"}}, htmxFormHeaders("dialog")...).requireStatus(t, http.StatusNoContent)
	b.get(path+"?tab=tasks").contains(t, "Shut down host", "Enter maintenance")

	p.execSQL(`UPDATE host_sessions SET seen_at = now() - interval '1 hour' WHERE host_id = $1`, well)
	a = b.get(path)
	a.contains(t, "host-1 is in maintenance and powered off.", "Powered off")
	a.excludes(t, "This host is offline.")
	b.get("/hosts").contains(t, "1 unknown · 1 powered off")
	a = b.get("/hosts?tab=attention")
	a.contains(t, ">host-2</a>")
	a.excludes(t, ">host-1</a></th>")
	b.get(path+"/leave-maintenance").contains(t, "host-1 is powered off. Power it on first.")
	p.execSQL(`UPDATE host_sessions SET seen_at = now() WHERE host_id = $1`, well)
	b.get(path+"/leave-maintenance").contains(t, "The maintenance shut down and moved no VM.")
	b.post(path+"/leave-maintenance", url.Values{}, htmxFormHeaders("dialog")...).requireStatus(t, http.StatusNoContent)
	b.get(path).excludes(t, "is in maintenance")
}

// TestMaintenanceDialogSetsManyDecisions sets the decisions of both VMs at once, and then those of the undecided one.
func TestMaintenanceDialogSetsManyDecisions(t *testing.T) {
	p, well, _ := newHostsPortal(t)
	vm, found := p.maintenanceVMs(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	path := "/hosts/" + string(well) + "/maintenance"
	b.get(path).contains(t, "Set all 2 undecided VMs to", `<option value="shutdown">Shut down</option>`)
	const left = `<option value="leave" selected>Leave running</option>`
	form := url.Values{"decision." + string(vm): {""}, "decision." + string(found): {""}, "all.undecided": {"leave"}, "set": {"undecided"}}
	for _, headers := range [][]string{htmxFormHeaders("dialog"), nil} {
		a := b.post(path, form, headers...).requireStatus(t, http.StatusOK)
		a.contains(t, "Set all 2 VMs to")
		if n := strings.Count(a.body, left); n != 2 {
			t.Errorf("%d of 2 VMs are left running", n)
		}
	}
	b.post(path, url.Values{"decision." + string(vm): {"leave"}, "decision." + string(found): {"leave"}, "all.undecided": {"shutdown"}, "set": {"undecided"}}).
		contains(t, `<option value="shutdown" selected>Shut down, start afterwards</option>`, `<option value="shutdown" selected>Shut down</option>`)
	b.post(path, url.Values{"decision." + string(vm): {"shutdown"}, "all.undecided": {"leave"}, "set": {"undecided"}}).
		contains(t, `<option value="shutdown" selected>Shut down, start afterwards</option>`, `<option value="">Decide…</option>`)
	b.post(path, url.Values{"decision." + string(vm): {"leave"}, "limits": {"overcommit"}}).requireStatus(t, http.StatusOK).contains(t, "The plan may overcommit", "Keep their limits", left)
	if n := p.countRows("tasks"); n != 0 {
		t.Errorf("%d tasks were written", n)
	}
}

func TestAPIHostMaintenance(t *testing.T) {
	p, well, _ := newHostsPortal(t)
	vm, found := p.maintenanceVMs(t)
	g := p.newAPIClient("mara", fleet.RoleAdmin, nil)
	path := "/api/v1/hosts/" + string(well) + "/actions"
	var body struct {
		Lifecycle fleet.HostLifecycle    `json:"lifecycle"`
		Task      *fleet.Task            `json:"task"`
		Plan      *maintenance.Plan      `json:"plan"`
		LeavePlan *maintenance.LeavePlan `json:"leavePlan"`
	}
	act := func(query, in string, status int) answer {
		t.Helper()
		a := g.call(http.MethodPost, path+query, in).requireStatus(t, status)
		body.Task, body.Plan, body.LeavePlan = nil, nil, nil
		if err := json.Unmarshal([]byte(a.body), &body); err != nil {
			t.Fatal(err)
		}
		return a
	}
	act("?dryRun=true", `{"action":"enter-maintenance"}`, http.StatusOK)
	if body.Plan == nil || len(body.Plan.VMs) != 2 || body.Plan.VMs[0].ID != vm || body.Plan.Undecided() != 2 || body.Lifecycle != fleet.LifecycleReady || body.Task != nil {
		t.Errorf("the plan is %+v, the host %s", body.Plan, body.Lifecycle)
	}
	act("?dryRun=true", `{"action":"enter-maintenance","default":"leave"}`, http.StatusOK)
	if body.Plan == nil || body.Plan.Undecided() != 0 || body.Plan.VMs[0].Proposal.Do != fleet.MaintenanceLeave || body.Plan.VMs[0].Reason == "" {
		t.Errorf("with a default the plan is %+v", body.Plan)
	}
	act("", `{"action":"enter-maintenance","default":"migrate"}`, 422).contains(t, "default")
	act("?dryRun=true", `{"action":"cordon"}`, 422).contains(t, "have a dry run")
	act("", `{"action":"enter-maintenance"}`, 422).contains(t, "decisions."+string(vm), "decisions."+string(found))
	act("", `{"action":"enter-maintenance","decisions":{"`+string(vm)+`":{"do":"leave"},"`+string(found)+`":{"do":"leave"}}}`, http.StatusOK)
	if body.Lifecycle != fleet.LifecycleMaintenance || body.Task == nil || body.Task.Kind != fleet.HostMaintenanceEnter {
		t.Errorf("the host is %s, its task %+v", body.Lifecycle, body.Task)
	}
	act("", `{"action":"reboot","confirm":"host-1"}`, http.StatusConflict).contains(t, "set hostPower: true.")
	act("?dryRun=true", `{"action":"leave-maintenance"}`, http.StatusOK)
	if body.LeavePlan == nil || len(body.LeavePlan.Start)+len(body.LeavePlan.Moved) != 0 {
		t.Errorf("leaving does %+v", body.LeavePlan)
	}
	act("", `{"action":"leave-maintenance","bringBack":["`+string(vm)+`"]}`, 422).contains(t, "bringBack")
	act("", `{"action":"leave-maintenance"}`, http.StatusOK)
	if body.Lifecycle != fleet.LifecycleReady {
		t.Errorf("the host is %s", body.Lifecycle)
	}
	act("", `{"action":"enter-maintenance","default":"leave"}`, http.StatusOK)
	if body.Lifecycle != fleet.LifecycleMaintenance {
		t.Errorf("with a default the host is %s", body.Lifecycle)
	}
}
