package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

// newFleetPortal returns a portal with two hosts, a pool, a network and four VMs of the project shop, by name.
func newFleetPortal(t *testing.T) (p *portal, project fleet.ProjectID, pool fleet.PoolID, vms map[string]fleet.VMID) {
	t.Helper()
	t.Parallel()
	p = newPortal(t)
	project = p.addProject("shop")
	h1, h2 := p.addHost("host-1", 0), p.addHost("host-2", 0)
	pool = p.addPool("shared-nfs", h1, h2)
	p.addNetwork("default", h1, h2)
	vms = map[string]fleet.VMID{
		"web-01": p.addVM(project, h1, "web-01", fleet.Running, func(vm *fleet.VM) { vm.Labels = map[string]string{"env": "prod"} }),
		"web-02": p.addVM(project, h2, "web-02", fleet.Stopped),
		"mail": p.addVM(project, h1, "mail", fleet.Running, func(vm *fleet.VM) {
			vm.Spec.MemoryMiB, vm.Status.NextBoot = 8192, []string{"memoryMiB"}
		}),
		"broken": p.addVM(project, h2, "broken", fleet.Absent, func(vm *fleet.VM) {
			vm.Status.Error, vm.Status.ErrorOf = "internal error: <qemu> exited", fleet.VMStart
		}),
	}
	return p, project, pool, vms
}

func TestVMListFiltersAndUpdatesRows(t *testing.T) {
	p, _, _, _ := newFleetPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	b.get("/vms").requireStatus(t, http.StatusOK).contains(t, "web-01", "Running", "web-02", "Stopped", "Needs restart", "Failed", "env=prod", "4 GiB")

	a := b.get("/vms?filter="+url.QueryEscape("state:stopped")).requireStatus(t, http.StatusOK)
	a.contains(t, "web-02", `value="state:stopped"`)
	if strings.Contains(a.pageContent(), ">web-01<") {
		t.Error("the filtered list contains web-01")
	}
	a = b.get("/vms?tab=attention").requireStatus(t, http.StatusOK)
	a.contains(t, ">broken<")
	if strings.Contains(a.pageContent(), ">web-01<") {
		t.Error("web-01 is listed although it needs no attention")
	}
	b.get("/vms?filter=nosuch:x").requireStatus(t, http.StatusUnprocessableEntity).contains(t, `role="alert"`, "nosuch")
	b.get("/vms?filter=name:zzz*").requireStatus(t, http.StatusOK).contains(t, "No VM matches")

	// An htmx request for the table's id receives only the table rows, not the page.
	rows := b.getFragment("/vms?filter=state:stopped", "vm-rows").requireStatus(t, http.StatusOK)
	rows.contains(t, ">web-02<")
	rows.excludes(t, "<html", "<form")
	b.getFragment("/vms", "no-such-part").requireStatus(t, http.StatusNotFound)
}

func TestVMPageShowsTabsAndFailures(t *testing.T) {
	p, _, _, vms := newFleetPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	path := "/vms/" + string(vms["web-01"])
	b.get(path).requireStatus(t, http.StatusOK).contains(t, "<h1>web-01</h1>", "10.4.0.11", "host-1", "Shut down", "Only a stopped VM can be started.")
	b.getFragment(path, "vm-head").requireStatus(t, http.StatusOK).excludes(t, "<html", "Hardware")
	b.getFragment(path, "vm-body").requireStatus(t, http.StatusOK).contains(t, "Hardware")
	for _, tab := range []string{"?tab=monitor", "?tab=configure", "?tab=events", "/console", "/console?window=1"} {
		b.get(path+tab).requireStatus(t, http.StatusOK).contains(t, "web-01")
	}
	b.get("/menus/vm/"+string(vms["web-01"]), "HX-Request", "true").requireStatus(t, http.StatusOK).contains(t, "Force off", "Delete")
	b.get("/vms/"+string(vms["broken"])).requireStatus(t, http.StatusOK).contains(t, "Start failed on host-2.", "internal error: &lt;qemu&gt; exited")
	b.get("/vms/"+string(vms["mail"])).requireStatus(t, http.StatusOK).contains(t, "Changes wait for the next start: memory.")
	b.get(path+"?tab=nosuch").requireStatus(t, http.StatusNotFound)
	b.get("/vms/"+string(fleet.NewID[fleet.VMID]())).requireStatus(t, http.StatusNotFound)
	b.get("/vms/nonsense").requireStatus(t, http.StatusNotFound)
}

func TestVMActionQueuedOrRefusedWithReason(t *testing.T) {
	p, _, _, vms := newFleetPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	path := "/vms/" + string(vms["web-02"]) + "/actions"
	b.post(path, url.Values{"action": {"start"}}).requireStatus(t, http.StatusSeeOther)
	a := b.post("/vms/"+string(vms["web-01"])+"/actions", url.Values{"action": {"shutdown"}}, htmxFormHeaders("")...).requireStatus(t, http.StatusNoContent)
	if got := a.header.Get("HX-Trigger"); !strings.Contains(got, `"kind":"ok"`) || !strings.Contains(got, "Shut down web-01: queued on host-1.") {
		t.Errorf("the toast is %q", got)
	}
	a = b.post("/vms/"+string(vms["broken"])+"/actions", url.Values{"action": {"pause"}}, htmxFormHeaders("")...).requireStatus(t, http.StatusConflict)
	if got, _ := url.PathUnescape(a.header.Get("X-Quantix-Message")); !strings.Contains(got, "does not exist on its host") {
		t.Errorf("the refusal says %q", got)
	}
	b.get("/tasks").requireStatus(t, http.StatusOK).contains(t, "Start", "web-02", "Shut down")
	b.get("/").requireStatus(t, http.StatusOK).contains(t, "Dashboard", "2 running")
}

func TestFailedVMStartShownOnPage(t *testing.T) {
	p, project, _, _ := newFleetPortal(t)
	id := string(p.addVM(project, p.addHost("host-9", 0), "stuck", fleet.Stopped, func(vm *fleet.VM) {
		vm.Spec.Power = fleet.Running
		vm.Status.Error, vm.Status.ErrorOf = "internal error: no <firmware>", fleet.VMStart
	}))
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	words := "internal error: no &lt;firmware&gt;"
	b.get("/").requireStatus(t, http.StatusOK).contains(t, "2 need attention")
	a := b.get("/vms?tab=attention").requireStatus(t, http.StatusOK)
	a.contains(t, ">stuck<", ">broken<", "Start failed", `<span class="bad">2</span>`)
	if strings.Contains(a.pageContent(), ">web-02<") {
		t.Error("web-02 is listed although it is off on purpose")
	}
	b.get("/vms?filter=attention:no").requireStatus(t, http.StatusOK).contains(t, ">web-02<")
	b.get("/vms/"+id).requireStatus(t, http.StatusOK).contains(t, "Start failed on host-9.", words, "Leave it off")
	b.post("/vms/"+id+"/actions", url.Values{"action": {"stop"}}).requireStatus(t, http.StatusSeeOther)
	a = b.get("/vms/"+id).requireStatus(t, http.StatusOK)
	a.contains(t, "Stopping")
	a.excludes(t, "Leave it off")
	b.get("/vms?tab=attention").requireStatus(t, http.StatusOK).excludes(t, "vm-"+id)
}

func newVMForm(project fleet.ProjectID, pool fleet.PoolID) url.Values {
	return url.Values{
		"key": {fleet.NewID[string]()}, "name": {"fresh-1"}, "projectId": {string(project)}, "hostId": {""}, "spec.cpus": {"2"}, "spec.memoryMiB": {"1.5", "GiB"},
		"spec.firmware": {"uefi"}, "labels": {"env=prod\ntier=web"}, "start": {"yes"},
		"spec.disks[0].source": {"empty"}, "spec.disks[0].poolId": {string(pool)}, "spec.disks[0].sizeBytes": {"20"},
		"spec.disks[2].source": {"image"}, "spec.disks[2].poolId": {string(pool)}, "spec.disks[2].image": {string(pool) + "/debian-12.qcow2"},
		"spec.nics[0].network": {"libvirt:default"},
	}
}

func TestCreateVMFormSentTwiceCreatesOneVM(t *testing.T) {
	p, project, pool, _ := newFleetPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	b.get("/vms/new").requireStatus(t, http.StatusOK).contains(t, "shared-nfs", "debian-12.qcow2", "installer.iso", "network default", `name="spec.disks[__i__].sizeBytes"`)

	form := newVMForm(project, pool)
	to := b.post("/vms", form).requireStatus(t, http.StatusSeeOther).header.Get("Location")
	b.get(to).requireStatus(t, http.StatusOK).contains(t, "<h1>fresh-1</h1>", "Creating", "1.5 GiB", "20 GiB", "env=prod")
	if again := b.post("/vms", form).requireStatus(t, http.StatusSeeOther).header.Get("Location"); again != to {
		t.Errorf("the same form sent twice created two VMs: %s, %s", to, again)
	}
}

// Sections for rarely used settings are closed and summarize their values. A section with an error is open.
func TestCreateVMFormOpensSectionWithError(t *testing.T) {
	p, project, pool, _ := newFleetPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	b.get("/vms/new").requireStatus(t, http.StatusOK).contains(t, `<details class="section fold" id="vm-CPU">`, `name="spec.cpu.model"`, "Model: Default (best of the host)")
	form := newVMForm(project, pool)
	form["spec.security.tpm"], form["spec.cpu.sockets"], form["spec.display.keyboard"] = []string{"false", "yes"}, []string{"3"}, []string{"de"}
	b.post("/vms", form).requireStatus(t, http.StatusUnprocessableEntity).contains(t, `<details class="section fold" id="vm-CPU" open>`, "Sockets × cores × threads is 3, and the VM has 2 vCPUs.",
		"Sockets: 3", "TPM 2.0: on", "Keyboard: German", `<option value="de" selected>`)
	form.Set("spec.cpu.sockets", "2")
	b.post("/vms", form).requireStatus(t, http.StatusUnprocessableEntity).contains(t, "too old")
	p.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{inventory,vmFields}', '["cpu.sockets","security.tpm","display.keyboard"]')`)
	to := b.post("/vms", form).requireStatus(t, http.StatusSeeOther).header.Get("Location")
	b.get(to).requireStatus(t, http.StatusOK).contains(t, "<dt>Sockets</dt>", "<dt>TPM 2.0</dt>", "<dt>Keyboard</dt>", "German")
	b.get(to+"?tab=configure").requireStatus(t, http.StatusOK).contains(t, "TPM 2.0: on", `value="2"`)
}

func TestRefusedCreateVMFormShowsEnteredValues(t *testing.T) {
	p, project, pool, _ := newFleetPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	form := newVMForm(project, pool)
	form.Set("name", "Not A Name")
	form.Set("spec.cpus", "many")
	form.Set("spec.disks[0].sizeBytes", "big")
	a := b.post("/vms", form).requireStatus(t, http.StatusUnprocessableEntity)
	a.contains(t, "<html", `value="Not A Name"`, `id="name-error"`, `value="many"`, `id="spec-cpus-error"`, `value="big"`, `id="spec-disks-0--sizeBytes-error"`)
	a = b.post("/vms", form, htmxFormHeaders("vm-form")...).requireStatus(t, http.StatusUnprocessableEntity)
	a.excludes(t, "<html")
	a.contains(t, `id="vm-form"`, `value="Not A Name"`)

	form = newVMForm(project, pool)
	form.Set("name", "web-01")
	b.post("/vms", form).requireStatus(t, http.StatusConflict).contains(t, "already", `value="web-01"`)

	form.Set("add", "spec.disks")
	b.post("/vms", form).requireStatus(t, http.StatusOK).contains(t, `name="spec.disks[2].sizeBytes"`, `value="web-01"`)
	form.Del("add")
	form.Set("drop", "spec.disks[0]")
	b.post("/vms", form).requireStatus(t, http.StatusOK).excludes(t, `name="spec.disks[1].sizeBytes"`)
}

// A disk larger than the pool's free space is refused with the reason. Users with the permission can then choose to
// overcommit.
func TestCreateVMRefusedWhenDiskExceedsPoolFreeSpace(t *testing.T) {
	p, project, pool, _ := newFleetPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	a := b.get("/vms/new").requireStatus(t, http.StatusOK)
	a.contains(t, "shared-nfs · 1.5 TiB free")
	a.excludes(t, "Overcommit the pool")
	p.execSQL(`UPDATE assignments SET status = status || '{"provisionedBytes": 10737418240, "availableBytes": 21474836480}' WHERE noun = 'pool'`)
	b.get("/vms/new").requireStatus(t, http.StatusOK).contains(t, "shared-nfs · 20 GiB free (10 GiB provisioned)")
	form := newVMForm(project, pool)
	a = b.post("/vms", form).requireStatus(t, http.StatusUnprocessableEntity)
	a.contains(t, "10 GiB not provisioned to volumes, and the new disks may grow to 23 GiB", "Overcommit", `name="overcommit"`)
	form.Set("overcommit", "yes")
	b.post("/vms", form).requireStatus(t, http.StatusSeeOther)

	tenant := p.newSignedInBrowser("tom", fleet.RoleNone)
	p.execSQL("INSERT INTO project_members (project_id, user_id, role) SELECT id, 'tom', 'member' FROM projects")
	form = newVMForm(project, pool)
	form.Set("name", "fresh-2")
	a = tenant.post("/vms", form).requireStatus(t, http.StatusUnprocessableEntity)
	a.contains(t, "no room for 23 GiB in pool shared-nfs")
	a.excludes(t, `name="overcommit"`)
}

func TestEditVMRefusedForOutdatedAndInvalidInput(t *testing.T) {
	p, _, _, vms := newFleetPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	path := "/vms/" + string(vms["web-01"])
	b.get(path+"?tab=configure").requireStatus(t, http.StatusOK).contains(t, `name="spec.cpus" type="text" value="2"`, "next boot", "power off first")
	b.get("/vms/"+string(vms["web-02"])+"?tab=configure").requireStatus(t, http.StatusOK).excludes(t, "next boot", "power off first")
	form := url.Values{"generation": {"1"}, "name": {"web-1"}, "labels": {"env=test"}, "spec.cpus": {"4"}, "spec.memoryMiB": {"8", "GiB"}, "description": {"shop front"}}
	b.post(path+"/edit", form).requireStatus(t, http.StatusSeeOther)
	b.get(path).requireStatus(t, http.StatusOK).contains(t, "<h1>web-1</h1>", "env=test", "8 GiB", "shop front")
	b.post(path+"/edit", form).requireStatus(t, http.StatusConflict).contains(t, `value="web-1"`) // an outdated generation
	form.Set("generation", "2")
	form.Set("spec.cpus", "0")
	b.post(path+"/edit", form, htmxFormHeaders("vm-edit")...).requireStatus(t, http.StatusUnprocessableEntity).contains(t, `id="spec-cpus-error"`)
	form.Set("spec.cpus", "4")
	form.Set("spec.firmware", "bios")
	b.post(path+"/edit", form, htmxFormHeaders("vm-edit")...).requireStatus(t, http.StatusUnprocessableEntity).contains(t, "only while the VM is off")
}

func TestNICsHotPluggedByFormAndPatch(t *testing.T) {
	p, project, _, vms := newFleetPortal(t)
	p.addNetwork("lab-net", p.addHost("host-3", 0))
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	id := vms["web-01"]
	path := "/vms/" + string(id)
	form := b.get(path+"?tab=configure").requireStatus(t, http.StatusOK)
	form.contains(t, `Network <span class="badge now">now</span>`, `name="spec.nics[__i__].network"`, "network default")
	form.excludes(t, "lab-net")
	typed := url.Values{"generation": {"1"}, "name": {"web-01"}, "spec.nics": {""}, "add": {"spec.nics"}, "description": {"half typed"}}
	again := b.post(path+"/edit", typed).requireStatus(t, http.StatusOK)
	again.contains(t, `name="spec.nics[0].mac"`, "half typed", `name="spec.boot.menu"`)
	again.excludes(t, `name="spec.boot.machine"`) // the machine type cannot be edited
	typed.Del("add")
	typed.Set("spec.nics[3].network", "libvirt:default")
	typed.Set("spec.nics[3].mac", "")
	b.post(path+"/edit", typed).requireStatus(t, http.StatusSeeOther)

	member := p.newAPIClient("mia", "", map[fleet.ProjectID]fleet.Role{project: fleet.RoleMember})
	vm, err := member.VM(t.Context(), id)
	if err != nil || len(vm.Spec.NICs) != 1 || vm.Spec.NICs[0].Network != "default" || vm.Spec.NICs[0].MAC == "" {
		t.Fatalf("%+v, %v", vm.Spec.NICs, err)
	}
	first := vm.Spec.NICs[0].MAC
	patch := func(nics string) answer { return member.call("PATCH", "/api/v1"+path, `{"spec":{"nics":[`+nics+`]}}`) }
	patch(`{"network":"lab-net"}`).requireProblem(t, 422, "spec.nics[0].network")
	patch(`{"bridge":"br-secret"}`).requireProblem(t, 422, "spec.nics[0].bridge")
	patch(`{"network":"default","mac":"52:54:00:00:00:09"}`).requireProblem(t, 422, "spec.nics[0].mac")
	patch(`{"network":"default","mac":"`+first+`"},{"network":"default"}`).requireStatus(t, http.StatusOK).contains(t,
		`"changes":[{"field":"spec.nics[1]"`, ` on network default, anti-spoofing on added","when":"now"}`)
	patch("").requireStatus(t, http.StatusOK).contains(t, `"nics":[]`, "NIC "+first+" on network default removed")

	p.execSQL(`UPDATE vms SET status = status || jsonb_build_object('nextBoot', '["nics"]'::jsonb, 'nics', jsonb_build_array(jsonb_build_object('mac', $2::text, 'source', 'network default'))) WHERE id = $1`, id, first)
	b.get(path).requireStatus(t, http.StatusOK).contains(t, first, "waits for the guest to release it")
	p.execSQL(`UPDATE vms SET observed_generation = generation, status = status || jsonb_build_object('pendingUnplug', jsonb_build_array(jsonb_build_object('field', 'nics', 'what', 'NIC ' || $2::text))) WHERE id = $1`, id, first)
	page := b.get(path).requireStatus(t, http.StatusOK)
	page.contains(t, "Changes wait for the next start: NIC "+first+" (the guest has not released it).", "Pending unplug")
	page.excludes(t, "waits for the guest")
	b.get("/vms?columns=waits").requireStatus(t, http.StatusOK).contains(t, "NIC "+first+" (the guest has not released it)")
	p.execSQL(`UPDATE vms SET status = status - 'nextBoot' - 'pendingUnplug' WHERE id = $1`, id)
	b.get(path).requireStatus(t, http.StatusOK).contains(t, first, "added on the host")
}

func TestDeleteVMDialogKeepsDisksByDefault(t *testing.T) {
	p, project, pool, _ := newFleetPortal(t)
	host := p.addHost("host-9", 0)
	id := p.addVM(project, host, "old", fleet.Stopped, func(vm *fleet.VM) {
		vm.Spec.Disks = []fleet.Disk{{PoolID: pool, Volume: "old-1.qcow2", SizeBytes: 20 << 30}}
	})
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	path := "/vms/" + string(id) + "/delete"
	b.get(path).requireStatus(t, http.StatusOK).contains(t, "old-1.qcow2", "20 GiB", "<html")
	d := b.getFragment(path, "dialog").requireStatus(t, http.StatusOK)
	d.excludes(t, "<html")
	d.contains(t, `data-confirm-name="old"`, `id="dialog-title"`, `value="keep" checked`)
	if n := strings.Count(d.body, "<button") - strings.Count(d.body, `type="button"`); n != 1 {
		t.Errorf("the dialog has %d submit buttons, want one: %s", n, d.body)
	}
	b.post(path, url.Values{"disks": {"delete"}, "confirm": {"other"}}, htmxFormHeaders("dialog")...).requireStatus(t, http.StatusUnprocessableEntity).contains(t, "dialog-title", `value="delete" checked`)
	a := b.post(path, url.Values{"disks": {"delete"}, "confirm": {"old"}}, htmxFormHeaders("dialog")...).requireStatus(t, http.StatusNoContent)
	if a.header.Get("HX-Redirect") != "/vms" {
		t.Errorf("after the deletion: %v", a.header)
	}
	b.get("/vms/"+string(id)).requireStatus(t, http.StatusOK).contains(t, "Deleting")
}

func TestDeletingRunningVMRequiresTypedName(t *testing.T) {
	p, _, _, vms := newFleetPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	path := "/vms/" + string(vms["web-01"]) + "/delete"
	b.get(path).requireStatus(t, http.StatusOK).contains(t, "The VM is running and will be powered off first.", `data-confirm-name="web-01"`)
	for _, typed := range []string{"", "web-02"} {
		b.post(path, url.Values{"disks": {"keep"}, "confirm": {typed}}, htmxFormHeaders("dialog")...).requireStatus(t, http.StatusUnprocessableEntity).contains(t, `id="confirm-error"`, "Type web-01 to confirm")
	}
	if n := p.countRows("vms WHERE name = 'web-01' AND deleted_at IS NULL"); n != 1 {
		t.Error("the VM was deleted without typing its name")
	}
	b.post(path, url.Values{"disks": {"keep"}, "confirm": {"web-01"}}, htmxFormHeaders("dialog")...).requireStatus(t, http.StatusNoContent)
}

// For an object that the user may not see, the response is the same as for a missing object.
func TestVMsOfOtherProjectsHidden(t *testing.T) {
	p, _, _, vms := newFleetPortal(t)
	other := p.addProject("finance")
	b := p.newSignedInBrowser("vera", fleet.RoleNone)
	p.execSQL("INSERT INTO project_members (project_id, user_id, role) VALUES ($1, 'vera', 'member')", other)
	gone := string(fleet.NewID[fleet.VMID]())
	for _, suffix := range []string{"", "?tab=configure", "/console", "/delete"} {
		hidden, missing := b.get("/vms/"+string(vms["web-01"])+suffix), b.get("/vms/"+gone+suffix)
		if hidden.status != http.StatusNotFound || missing.status != http.StatusNotFound {
			t.Errorf("%s: %d and %d", suffix, hidden.status, missing.status)
		}
		if a, b := strings.ReplaceAll(hidden.pageContent(), string(vms["web-01"]), gone), missing.pageContent(); a != b {
			t.Errorf("%s: a hidden VM and a missing one are answered differently", suffix)
		}
	}
	b.post("/vms/"+string(vms["web-01"])+"/actions", url.Values{"action": {"stop"}}).requireStatus(t, http.StatusNotFound)
	b.get("/vms").requireStatus(t, http.StatusOK).excludes(t, "web-01")
	b.get("/search?q=web-01").requireStatus(t, http.StatusOK).excludes(t, ">web-01<", "<h2>VMs</h2>")
	b.get("/vms/new").requireStatus(t, http.StatusOK)
}
