package web_test

import (
	"encoding/csv"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
)

// newHostsPortal returns a portal with an online host (well), which has a VM, and an offline host (silent).
func newHostsPortal(t *testing.T) (p *portal, well, silent fleet.HostID) {
	t.Helper()
	t.Parallel()
	p = newPortal(t)
	well, silent = p.addHost("host-1", 0), p.addHost("host-2", 5*time.Minute)
	p.addPool("shared-nfs", well, silent)
	p.addNetwork("default", well)
	p.addVM(p.addProject("shop"), well, "web-01", fleet.Running)
	p.execSQL("INSERT INTO found_vms (host_id, id, name, status) VALUES ($1, $2, 'legacy-erp', $3)", well, fleet.NewID[fleet.VMID](),
		mustJSON(fleet.VMStatus{Power: fleet.Running, CPUs: 2, MemoryMiB: 2048}))
	return p, well, silent
}

func TestHostListFiltersAndExports(t *testing.T) {
	p, _, _ := newHostsPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	b.get("/hosts").requireStatus(t, http.StatusOK).contains(t, "host-1", "Online", "host-2", "Unknown", "libvirt 9.0.0", `href="/hosts/join"`)
	b.get("/hosts?tab=attention").requireStatus(t, http.StatusOK).contains(t, ">host-2</a></th>")
	if strings.Contains(b.get("/hosts?tab=attention").pageContent(), ">host-1<") {
		t.Error("host-1 is listed although it needs no attention")
	}
	b.get("/hosts?filter=name:zzz").requireStatus(t, http.StatusOK).contains(t, "No host matches")
	b.get("/hosts?filter=nosuch:x").requireStatus(t, http.StatusUnprocessableEntity).contains(t, `role="alert"`)
	b.get("/hosts?tab=nosuch").requireStatus(t, http.StatusNotFound)
	b.getFragment("/hosts", "host-rows").requireStatus(t, http.StatusOK).excludes(t, "<html", "<form class")

	rows, err := csv.NewReader(strings.NewReader(b.get("/hosts.csv").requireStatus(t, http.StatusOK).body)).ReadAll()
	if err != nil || len(rows) != 3 || rows[1][1] != "host-1" || rows[2][2] != "unknown" {
		t.Errorf("the CSV is %q: %v", rows, err)
	}
}

func TestEmptyHostListOffersJoinToAdministrators(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	p.newSignedInBrowser("mara", fleet.RoleAdmin).get("/hosts").requireStatus(t, http.StatusOK).contains(t, "No hosts yet", "Add host")
	// An operator sees the disabled button with the reason.
	p.newSignedInBrowser("otto", fleet.RoleOperator).get("/hosts").requireStatus(t, http.StatusOK).contains(t, `aria-disabled="true"`, "Ask an administrator")
}

func TestHostPageShowsEachTab(t *testing.T) {
	p, well, silent := newHostsPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	path := "/hosts/" + string(well)
	for tab, texts := range map[string][]string{
		"":               {"AMD EPYC 7443P", "48 threads", "Debian GNU/Linux 12", "KVM", "4 of 192 vCPUs", "48 threads × CPU overcommit 4.0", "2 vCPUs used by discovered VMs", "2 GiB used by discovered VMs"},
		"?tab=vms":       {"web-01", "legacy-erp"},
		"?tab=hardware":  {"Disks", "NICs", "reports no disks"},
		"?tab=storage":   {"shared-nfs", "Active", "/srv/shared-nfs"},
		"?tab=networks":  {"default", "NAT", "virbr0", "192.168.122.0/24"},
		"?tab=configure": {`name="labels"`, `name="description"`, `name="reportInterval"`, `name="schedulable" value="yes" checked`, `name="reservedMiB"`},
		"?tab=tasks":     {"No tasks yet"},
	} {
		b.get(path+tab).requireStatus(t, http.StatusOK).contains(t, texts...)
	}
	b.get(path+"?tab=nosuch").requireStatus(t, http.StatusNotFound)
	b.getFragment(path, "host-head").requireStatus(t, http.StatusOK).contains(t, `id="host-head"`, "host-1")
	b.getFragment(path+"?tab=vms", "host-body").requireStatus(t, http.StatusOK).contains(t, "legacy-erp")

	b.get("/hosts/"+string(silent)).requireStatus(t, http.StatusOK).contains(t, "This host is offline.")
	b.get("/hosts/"+string(silent)+"?tab=storage").requireStatus(t, http.StatusOK).contains(t, "Unknown", "Last known: active, 498 GiB of 2 TiB used.")
	b.get("/hosts/"+string(fleet.NewID[fleet.HostID]())).requireStatus(t, http.StatusNotFound)
}

func TestHostMenuShowsReasonForDisabledActions(t *testing.T) {
	p, well, _ := newHostsPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	a := b.get("/menus/host/"+string(well), "HX-Request", "true").requireStatus(t, http.StatusOK)
	a.contains(t, "The host still has 1 VM. Delete them first.", "Only one agent shows this host&#39;s identity.")
	a.excludes(t, "<html")
	p.newSignedInBrowser("vera", fleet.RoleViewer).get("/menus/host/"+string(well), "HX-Request", "true").contains(t, "You do not have permission to change hosts and pools.")
}

func TestHostEditRefusedForInvalidAndOutdatedInput(t *testing.T) {
	p, well, _ := newHostsPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	path := "/hosts/" + string(well) + "/edit"
	// Errors are shown at their fields, and the typed text is kept.
	a := b.post(path, url.Values{"labels": {"Rack 4"}, "description": {"by the door"}, "generation": {"1"}}, htmxFormHeaders("host-form")...).requireStatus(t, 422)
	a.contains(t, "Write one label per line as key=value", "Rack 4", "by the door")
	a.excludes(t, "<html")
	a = b.post(path, url.Values{"taints": {"GPU"}, "memoryRatio": {"much"}, "reservedMiB": {"x"}, "generation": {"1"}}, htmxFormHeaders("host-form")...).requireStatus(t, 422)
	a.contains(t, "Enter a number above 0, such as 1.5.", "Enter a whole number.", ">GPU</textarea>")
	a = b.post(path, url.Values{"taints": {"GPU"}, "cpuRatio": {"100"}, "generation": {"1"}}, htmxFormHeaders("host-form")...).requireStatus(t, 422)
	a.contains(t, "write gpu or gpu=a100", "Give a ratio from 0.1 to 64")
	valid := url.Values{"schedulable": {"yes"}, "compute": {"yes"}, "taints": {"gpu=a100:NoExecute"}, "labels": {"rack=4"}, "memoryRatio": {"1.5"}, "description": {"by the door"}, "generation": {"1"}}
	b.post(path, valid).requireStatus(t, http.StatusSeeOther)
	b.get("/hosts/"+string(well)).contains(t, "rack=4", "by the door", "gpu=a100:NoExecute", "× memory overcommit 1.5")
	// The form's generation is older than the host's, because the host was changed above.
	b.post(path, url.Values{"labels": {"rack=5"}, "generation": {"1"}}).requireStatus(t, http.StatusConflict).contains(t, "Reload and try again")
	p.newSignedInBrowser("vera", fleet.RoleViewer).post(path, url.Values{"labels": {"rack=9"}}).requireStatus(t, http.StatusForbidden)
}

func TestHostPageShowsSettingsOfAgentYAML(t *testing.T) {
	p, well, _ := newHostsPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	path := "/hosts/" + string(well)
	edit := func(values url.Values) answer {
		valid := url.Values{"schedulable": {"yes"}, "compute": {"yes"}, "storage": {"yes"}, "labels": {"rack=4\nzone=b"}}
		maps.Copy(valid, values)
		return b.post(path+"/edit", valid, htmxFormHeaders("host-form")...)
	}
	// An agent that reports no settings is too old to take an interval.
	b.get(path+"?tab=configure").contains(t, "agent is too old to change its interval")
	p.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{settings}', '{}') WHERE id = $1`, well)
	b.get(path+"?tab=configure").excludes(t, "too old to change")
	edit(url.Values{"reportInterval": {"4"}}).requireStatus(t, 422).contains(t, "Give an interval from 5 to 60 seconds")
	edit(url.Values{"reportInterval": {"soon"}}).requireStatus(t, 422).contains(t, "Enter a whole number.", `value="soon"`)
	edit(url.Values{"reportInterval": {"20"}}).requireStatus(t, http.StatusNoContent)
	b.get(path).contains(t, "reports every 20 s")

	p.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{settings}', '{"reportInterval": 30, "labels": {"rack": "9"}}') WHERE id = $1`, well)
	a := b.get(path)
	a.contains(t, "reports every 30 s (agent.yaml)", `title="From agent.yaml on the host">rack=9<`, "zone=b")
	a.excludes(t, ">rack=4<")
	b.get("/hosts?filter=label:rack=9").contains(t, ">host-1</a>", ">rack=9<")
	a = b.get(path + "?tab=configure")
	a.contains(t, "Set by reportInterval in agent.yaml on the host", "They replace rack=4.", `type="hidden" name="reportInterval" value="20"`)
	p.newSignedInBrowser("vera", fleet.RoleViewer).get(path+"?tab=configure").contains(t, "30 s (agent.yaml)", ">rack=9<")
}

func TestHostIsCordonedAndUncordoned(t *testing.T) {
	p, well, _ := newHostsPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	path := "/hosts/" + string(well)
	b.get(path).excludes(t, ">Cordoned<")
	b.post(path+"/cordon", url.Values{}, htmxFormHeaders("")...).requireStatus(t, http.StatusNoContent)
	b.get(path).contains(t, ">Cordoned<")
	b.get("/hosts?filter=cordoned:yes").contains(t, ">host-1</a>", ">Cordoned<")
	b.get("/menus/host/"+string(well), "HX-Request", "true").contains(t, "The host is cordoned already.")
	b.post(path+"/cordon", url.Values{}, htmxFormHeaders("")...).requireStatus(t, http.StatusConflict)
	b.post(path+"/uncordon", url.Values{}, htmxFormHeaders("")...).requireStatus(t, http.StatusNoContent)
	b.get(path).excludes(t, ">Cordoned<")
	p.newSignedInBrowser("vera", fleet.RoleViewer).post(path+"/cordon", url.Values{}).requireStatus(t, http.StatusForbidden)
}

// A start beyond the host's capacity opens a dialog that offers overcommit to users who may change hosts.
func TestStartBeyondCapacityOffersOvercommit(t *testing.T) {
	p, well, _ := newHostsPortal(t)
	project := p.addProject("lab")
	vm := p.addVM(project, well, "big-01", fleet.Stopped)
	p.execSQL(`UPDATE hosts SET spec = jsonb_set(spec, '{overcommit}', '{"memory": 0.1}') WHERE id = $1`, well)
	p.execSQL(`UPDATE vms SET spec = jsonb_set(spec, '{memoryMiB}', '200000') WHERE id = $1`, vm)
	path := "/vms/" + string(vm) + "/actions"
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	a := b.post(path, url.Values{"action": {"start"}}, htmxFormHeaders("")...).requireStatus(t, http.StatusOK)
	a.contains(t, "MiB of memory left after", "Start anyway", `name="overcommit"`)
	if a.header.Get("HX-Retarget") != "#dialog" {
		t.Errorf("the answer goes to %q", a.header.Get("HX-Retarget"))
	}
	b.post(path, url.Values{"action": {"start"}, "overcommit": {"yes"}}, htmxFormHeaders("dialog")...).requireStatus(t, http.StatusNoContent)
}

func TestSecondAgentConflictClearedAndEmptyHostDeleted(t *testing.T) {
	p, well, silent := newHostsPortal(t)
	p.execSQL("UPDATE host_sessions SET conflict = 'from 10.0.0.9' WHERE host_id = $1", silent)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	b.get("/hosts/"+string(silent)).contains(t, "A second agent uses this host", "from 10.0.0.9", "Clear the conflict")
	b.post("/hosts/"+string(silent)+"/conflict", url.Values{}, htmxFormHeaders("")...).requireStatus(t, http.StatusNoContent)
	b.get("/hosts/"+string(silent)).excludes(t, "A second agent")

	b.get("/hosts/"+string(well)+"/delete").contains(t, "Nothing on the host changes", "The host still has 1 VM")
	b.post("/hosts/"+string(well)+"/delete", url.Values{}, htmxFormHeaders("dialog")...).requireStatus(t, 422).contains(t, "The host still has 1 VM. Delete them first. host-1 has web-01.")
	b.post("/hosts/"+string(silent)+"/delete", url.Values{}).requireStatus(t, http.StatusSeeOther)
	b.get("/hosts/"+string(silent)).requireStatus(t, http.StatusNotFound)
}
