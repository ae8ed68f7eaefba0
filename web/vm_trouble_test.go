package web_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"

	"quantix/internal/fleet"
)

// addTroubledVM adds a VM to the project, on a new host. The VM's first disk (disk) is missing, and the VM has drift.
func addTroubledVM(p *portal, project fleet.ProjectID, hostName string) (id fleet.VMID, disk fleet.Volref) {
	host := p.addHost(hostName, 0)
	pool := p.addPool("pool-of-"+hostName, host)
	disk = fleet.Volref{PoolID: pool, Volume: "lost-1.qcow2"}
	return p.addVM(project, host, "lost", fleet.Stopped, func(vm *fleet.VM) {
		vm.Spec.Disks = []fleet.Disk{{PoolID: pool, Volume: disk.Volume, SizeBytes: 8 << 30, Image: &fleet.Volref{PoolID: pool, Volume: "debian-12.qcow2"}}}
		vm.Status.Domain = "lost_shop"
		vm.Status.Faults = []fleet.Fault{
			{Code: fleet.FaultDisk, Disk: &disk, Text: "Disk 1 (pool shared-nfs, volume lost-1.qcow2) is not on host-7: /mnt/it is <gone>."},
			{Code: "loud", Text: "The fan of host-7 is loud."},
		}
		vm.Status.Drift = []fleet.Drift{
			{Field: "cpus", Applied: "2", Actual: "3", Take: json.RawMessage("3")},
			{Field: "watchdog", Applied: "none", Actual: "i6300esb of host-7"},
		}
	}), disk
}

// newTenantBrowser creates a member of the project and returns the member's signed-in browser.
func (p *portal) newTenantBrowser(name string, project fleet.ProjectID) *browser {
	b := p.newSignedInBrowser(name, fleet.RoleNone)
	p.execSQL("INSERT INTO project_members (project_id, user_id, role) VALUES ($1, $2, 'member')", project, name)
	return b
}

func TestMissingDiskDetachedOrReplaced(t *testing.T) {
	p, project, _, _ := newFleetPortal(t)
	id, disk := addTroubledVM(p, project, "host-7")
	page := "/vms/" + string(id)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	a := b.get(page).requireStatus(t, http.StatusOK)
	a.contains(t, "Disk missing", "is not on host-7: /mnt/it is &lt;gone&gt;", "Detach disk…", "New disk…", `<span class="badge bad">missing</span>`,
		"Fault on the host", "The fan of host-7", "Domain on the host", "lost_shop", `id="why-start"`)
	a.excludes(t, `value="start"`, "Leave it off")
	b.get("/vms?tab=attention").requireStatus(t, http.StatusOK).contains(t, ">lost<", "Disk missing")
	p.raiseAlarms()
	b.get("/").requireStatus(t, http.StatusOK).contains(t, ">lost</a>", "is not on host-7")

	tenant := p.newTenantBrowser("mia", project)
	a = tenant.get(page).requireStatus(t, http.StatusOK)
	a.contains(t, "Disk 1 (lost-1.qcow2) is missing on its host.", "Detach disk…", "The VM has a fault on its host. Ask an administrator.")
	a.excludes(t, "/mnt/it", "The fan", "lost_shop", "of host-7")

	query := "?disk=" + url.QueryEscape(string(disk.PoolID)+"/"+disk.Volume)
	b.get(page+"/disks/detach"+query).requireStatus(t, http.StatusOK).contains(t, "No data is deleted", "lost-1.qcow2")
	a = b.get(page+"/disks/replace"+query).requireStatus(t, http.StatusOK)
	a.contains(t, `name="volume"`, `value="8"`, "New copy of debian-12.qcow2", "pool-of-host-7")
	b.post(page+"/disks/replace"+query, url.Values{"volume": {disk.Volume}, "size": {"8"}}).requireStatus(t, http.StatusUnprocessableEntity).contains(t, "The pool has or had a volume with this name")
	b.post(page+"/disks/replace"+query, url.Values{"volume": {"x.qcow2"}, "size": {"much"}}).requireStatus(t, http.StatusUnprocessableEntity).contains(t, "number of GiB")
	b.get(page+"/disks/detach?disk=x/y").requireStatus(t, http.StatusNotFound)
	b.post(page+"/delete", url.Values{"disks": {"delete"}, "confirm": {"another"}}).requireStatus(t, http.StatusUnprocessableEntity).contains(t, `id="confirm-error"`, "to delete it with its disks.")
	p.newSignedInBrowser("vic", fleet.RoleViewer).post(page+"/disks/detach"+query, url.Values{}).requireStatus(t, http.StatusForbidden)

	api := p.newAPIClient("ann", fleet.RoleAdmin, nil)
	body := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	api.call("POST", "/api/v1/vms/"+string(id)+"/actions", `{"action":"start"}`).requireStatus(t, http.StatusConflict).contains(t, "Start is not possible: Disk 1")
	named := map[string]any{"disk": disk, "volume": "lost-2.qcow2"}
	api.call("POST", "/api/v1/vms/"+string(id)+"/disks/replace", body(named)).requireStatus(t, http.StatusOK).contains(t, `"volume":"lost-2.qcow2"`)
	api.call("POST", "/api/v1/vms/"+string(id)+"/disks/detach", body(map[string]any{"disk": disk})).requireStatus(t, http.StatusConflict)
	if n := p.countRows("jobs WHERE kind = 'vm.apply' AND state = 'queued'"); n != 1 {
		t.Errorf("%d tasks", n)
	}

	other, disk := addTroubledVM(p, p.addProject("other"), "host-8")
	query = "?disk=" + url.QueryEscape(string(disk.PoolID)+"/"+disk.Volume)
	b.post("/vms/"+string(other)+"/disks/detach"+query, url.Values{}).requireStatus(t, http.StatusSeeOther)
	b.get("/vms/"+string(other)).requireStatus(t, http.StatusOK).excludes(t, "Detach disk…")
	tenant.post("/vms/"+string(other)+"/disks/detach"+query, url.Values{}).requireStatus(t, http.StatusNotFound)
}

func TestVMDriftShownAndResolved(t *testing.T) {
	p, project, _, _ := newFleetPortal(t)
	id, _ := addTroubledVM(p, project, "host-7")
	page := "/vms/" + string(id)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	b.get(page).requireStatus(t, http.StatusOK).contains(t, "Changed on its host", "changed on its host", "i6300esb of host-7", "Accept drift", "Reapply all", "Quantix has no setting for this value",
		"<th>Wanted</th><th>Last applied</th><th>On the host</th>", "Ignore drift: vCPUs", "Drift (2)")
	tenant := p.newTenantBrowser("mia", project)
	a := tenant.get(page).requireStatus(t, http.StatusOK)
	a.contains(t, "Changed on its host", "as defined")
	a.excludes(t, "i6300esb")
	b.post(page+"/accept-drift", url.Values{"field": {"cpus"}, "actual": {"5"}}).requireStatus(t, http.StatusConflict)
	b.post(page+"/ignore-drift", url.Values{"field": {"cpus"}, "actual": {"5"}}).requireStatus(t, http.StatusConflict)
	tenant.post(page+"/ignore-drift", url.Values{"field": {"cpus"}, "actual": {"3"}}).requireStatus(t, http.StatusSeeOther)
	b.get(page).requireStatus(t, http.StatusOK).contains(t, "Drift (1)", `<h3 class="pad">Ignored</h3>`, "Show again drift: vCPUs", "show-drift")
	tenant.post(page+"/ignore-drift", url.Values{"field": {"watchdog"}, "actual": {"changed"}}).requireStatus(t, http.StatusSeeOther)
	b.get("/vms").requireStatus(t, http.StatusOK).excludes(t, "Drift (")
	b.post(page+"/show-drift", url.Values{"field": {"cpus"}}).requireStatus(t, http.StatusSeeOther)
	b.get(page).requireStatus(t, http.StatusOK).contains(t, "Drift (1)")
	p.newSignedInBrowser("vic", fleet.RoleViewer).post(page+"/ignore-drift", url.Values{"field": {"cpus"}}).requireStatus(t, http.StatusForbidden)
	b.post(page+"/reapply", url.Values{"field": {"cpus"}}).requireStatus(t, http.StatusConflict).contains(t, "Upgrade the host&#39;s agent")
	b.post(page+"/reapply", url.Values{}).requireStatus(t, http.StatusSeeOther)
	tenant.post(page+"/accept-drift", url.Values{"field": {"cpus"}, "actual": {"3"}}).requireStatus(t, http.StatusSeeOther)
	if n := p.countRows("vms WHERE spec->>'cpus' = '3'"); n != 1 {
		t.Errorf("%d VMs have the accepted value", n)
	}
	api := p.newAPIClient("ann", fleet.RoleAdmin, nil)
	api.call("POST", "/api/v1/vms/"+string(id)+"/accept-drift", `{"fields":{"cpus":"4"}}`).requireStatus(t, http.StatusConflict)
	api.call("POST", "/api/v1/vms/"+string(id)+"/reapply", ``).requireStatus(t, http.StatusAccepted).contains(t, `"kind":"vm.reapply"`)
	p.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{inventory,reapplies}', 'true')`)
	api.call("POST", "/api/v1/vms/"+string(id)+"/reapply", `{"fields":["watchdog"]}`).requireStatus(t, http.StatusAccepted).contains(t, `"kind":"vm.reapply"`)
	api.call("POST", "/api/v1/vms/"+string(id)+"/ignore-drift", `{"fields":[]}`).requireStatus(t, http.StatusUnprocessableEntity)
	api.call("POST", "/api/v1/vms/"+string(id)+"/ignore-drift", `{"fields":["watchdog"]}`).requireStatus(t, http.StatusOK).contains(t, `"actual":"i6300esb of host-7","ignored":true`)
	api.call("POST", "/api/v1/vms/"+string(id)+"/show-drift", `{"fields":["watchdog"]}`).requireStatus(t, http.StatusOK).excludes(t, `"ignored":true`)
}

func TestTaskWaitingForRetryShowsNextAttempt(t *testing.T) {
	p, _, _, vms := newFleetPortal(t)
	id := vms["web-02"]
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	b.post("/vms/"+string(id)+"/actions", url.Values{"action": {"start"}}).requireStatus(t, http.StatusSeeOther)
	p.execSQL(`UPDATE jobs SET retries = 1, attempt = 1, error = 'libvirt did not <answer>', run_after = now() + interval '10 seconds' WHERE subject = $1`, fleet.SubjectVM(id))
	b.get("/vms/"+string(id)).requireStatus(t, http.StatusOK).contains(t, "Start will be retried at", "libvirt did not &lt;answer&gt;", "Starting")
	b.get("/tasks").requireStatus(t, http.StatusOK).contains(t, "Retry at")
	api := p.newAPIClient("ann", fleet.RoleAdmin, nil)
	a := api.call("GET", "/api/v1/tasks", "").requireStatus(t, http.StatusOK)
	a.contains(t, `"retryAt":"`)
	var tasks fleet.Page[fleet.Task]
	if err := json.Unmarshal([]byte(a.body), &tasks); err != nil || len(tasks.Items) == 0 {
		t.Fatal(err)
	}
	b.get("/tasks/"+string(tasks.Items[0].ID)).requireStatus(t, http.StatusOK).contains(t, "Next retry at", "libvirt did not &lt;answer&gt;")
}
