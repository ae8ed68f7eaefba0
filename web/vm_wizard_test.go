package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

func TestWizardSummaryShowsVMAndPlacement(t *testing.T) {
	p, project, pool, _ := newFleetPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	b.get("/vms/new").requireStatus(t, http.StatusOK).contains(t, "Name and source", "libvirt XML", `aria-pressed="true">Image<`, "Windows 11", `id="vm-summary"`)
	form := newVMForm(project, pool)
	form.Set("name", "it's-me")
	a := b.post("/vms/new/summary", form, htmxFormHeaders("vm-summary-body")...).requireStatus(t, http.StatusOK)
	a.contains(t, "Placement appears when these are fixed", "2 vCPUs", "1.5 GiB")
	form.Set("name", "")
	a = b.post("/vms/new/summary", form, htmxFormHeaders("vm-summary-body")...).requireStatus(t, http.StatusOK)
	a.contains(t, "Host: host-2", "1 other host suitable, 0 hosts not suitable.", "apiVersion: quantix/v1", "kind: VM", "Authorization: Bearer $QUANTIX_TOKEN", "memoryMiB: 1536", "env: prod")
	a.excludes(t, "<html", `: &#34;&#34;`)
	if p.countRows("vms") != 4 {
		t.Error("a summary created VMs")
	}
	form["spec.memoryMiB"] = []string{"900", "GiB"}
	b.post("/vms/new/summary", form, htmxFormHeaders("vm-summary-body")...).requireStatus(t, http.StatusOK).contains(t, "No suitable host.", "0 other hosts suitable, 2 hosts not suitable.")

	// Users who may not see hosts learn whether the VM can be placed, but not the name of the host.
	tom := p.newTenantBrowser("tom", project)
	a = tom.post("/vms/new/summary", newVMForm(project, pool), htmxFormHeaders("vm-summary-body")...).requireStatus(t, http.StatusOK)
	a.contains(t, "There is enough capacity.")
	a.excludes(t, "host-1", "host-2")
	form = newVMForm(p.addProject("other"), pool)
	a = tom.post("/vms/new/summary", form, htmxFormHeaders("vm-summary-body")...)
	a.excludes(t, "host-1", "There is enough capacity")
}

// A password without a user name applies to the image's default user.
func TestPasswordWithoutUserNameAppliesToDefaultUser(t *testing.T) {
	p, project, pool, _ := newFleetPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	p.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{inventory,vmFields}', '["firstBoot"]')`)
	form := newVMForm(project, pool)
	form.Set("firstBoot.kind", "cloud-init")
	form.Set("firstBoot.cloudInit.users[0].password", "correct horse")
	b.post("/vms/new/summary", form, htmxFormHeaders("vm-summary-body")...).requireStatus(t, http.StatusOK).contains(t, "cloud-init, the image&#39;s default user", "host-2")
	form.Set("firstBoot.cloudInit.users[0].sudo", "yes")
	b.post("/vms", form).requireStatus(t, http.StatusUnprocessableEntity).contains(t, "Name the user, or leave out sudo", "cloud-init: the image&#39;s default user")
	form.Del("firstBoot.cloudInit.users[0].sudo")
	b.post("/vms", form).requireStatus(t, http.StatusSeeOther)
}

// The form preselects the default pool and network and shows the reason. Without a default it preselects none.
func TestFormPreselectsDefaultPoolAndNetwork(t *testing.T) {
	p, project, pool, _ := newFleetPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	host := p.addHost("host-3", 0)
	small := p.addPool("a-small", host)
	p.addNetwork("a-isolated", host)
	p.execSQL(`UPDATE assignments SET status = '{"active":true}' WHERE network_id IS NOT NULL`)
	wantShown := func(a answer, pool, network string) {
		t.Helper()
		for field, want := range map[string]string{"spec.disks[0].poolId": pool, "spec.nics[0].network": network, "spec.disks[__i__].poolId": pool, "spec.nics[__i__].network": network} {
			if got := fieldValueShown(t, a, field); got != want {
				t.Errorf("%s is %q, want %q", field, got, want)
			}
		}
	}
	a := b.get("/vms/new").requireStatus(t, http.StatusOK)
	a.contains(t, `<option value="" selected>Choose a pool</option>`, `<option value="" selected>Choose a network</option>`)
	wantShown(a, "", "")
	p.execSQL(`DELETE FROM pool_grants WHERE pool_id = $1`, small)
	p.execSQL(`DELETE FROM network_grants USING networks n WHERE n.id = network_id AND n.name = 'a-isolated'`)
	a = b.get("/vms/new").requireStatus(t, http.StatusOK)
	a.contains(t, "Default: shared-nfs (only pool).", "Default: default (only network).")
	wantShown(a, string(pool), "libvirt:default")

	// When the user changes the project, the preselected defaults change too. Options that the user chose stay.
	other := p.addProject("other")
	p.execSQL(`UPDATE projects SET default_pool_id = $1 WHERE id = $2`, small, other)
	p.execSQL(`INSERT INTO pool_grants (pool_id, project_id, granted_by) VALUES ($1, $2, 'mara')`, small, other)
	form := url.Values{
		"key": {"k"}, "projectId": {string(other)}, "begin": {"project"}, "proposed.pool": {string(pool)}, "proposed.network": {"libvirt:default"},
		"spec.disks[0].source": {"empty"}, "spec.disks[0].poolId": {string(pool)}, "spec.nics[0].network": {"libvirt:a-isolated"},
	}
	a = b.post("/vms", form).requireStatus(t, http.StatusOK)
	a.contains(t, "Default: a-small (default of the project).")
	if got := fieldValueShown(t, a, "spec.disks[0].poolId"); got != string(small) {
		t.Errorf("the pool is %s, want the other project's default", got)
	}
	if got := fieldValueShown(t, a, "spec.nics[0].network"); got != "libvirt:a-isolated" {
		t.Errorf("the network is %s, want the user's choice", got)
	}

	// No host has the network of the pasted XML, so the form chooses the default network. Without a default network,
	// the form chooses no network and is refused.
	xml := strings.Replace(strings.ReplaceAll(pastedXML, "MORE", ""), "network='default'", "network='VM Network'", 1)
	a = b.post("/vms", url.Values{"key": {"k"}, "projectId": {string(project)}, "source": {"xml"}, "xml": {xml}, "begin": {"read"}}).requireStatus(t, http.StatusOK)
	if got := fieldValueShown(t, a, "spec.nics[0].network"); got != "libvirt:default" {
		t.Errorf("the network is %s, want the default", got)
	}
	p.execSQL(`INSERT INTO network_grants (network_id) SELECT id FROM networks WHERE name = 'a-isolated'`)
	b.get("/vms/new").requireStatus(t, http.StatusOK).contains(t, `<option value="" selected>Choose a network</option>`)
	want := newVMForm(project, pool)
	want.Set("spec.nics[0].network", "")
	want.Set("spec.nics[0].row", "yes")
	b.post("/vms", want).requireStatus(t, http.StatusUnprocessableEntity).contains(t, "Choose a network.")
}

// The heading of each section summarizes the section's values. The page updates the headings while the user types.
func TestSectionHeadingsSummarizeFormValues(t *testing.T) {
	p, project, pool, _ := newFleetPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	now := func(section, text string) string {
		return `<span class="muted" id="` + section + `-now">` + text + `</span>`
	}
	display := "Graphics card: VGA, Keyboard: Default (raw key codes), Pointer: Tablet (follows the pointer), Sound card: None, SPICE: off"
	b.get("/vms/new").requireStatus(t, http.StatusOK).contains(t, now("vm-Display-and-input", display), now("vm-several", "one VM"), now("vm-rules", "none"),
		now("vm-first-boot", "none"), now("spec-disks-0--Limits", "none"), `id="spec-nics-__i__--Options-now"`)

	form := newVMForm(project, pool)
	for name, value := range map[string]string{
		"spec.display.video": "qxl", "count": "3", "firstBoot.kind": "cloud-init", "firstBoot.cloudInit.users[0].name": "anna", "firstBoot.cloudInit.users[0].password": "correct horse",
		"spec.disks[4].source": "empty", "spec.disks[4].sizeBytes": "5", "spec.disks[4].bus": "sata", "spec.drives": "", "spec.drives[0].slot": "cdrom2", "spec.rules[2].of": "vm",
	} {
		form.Set(name, value)
	}
	a := b.post("/vms/new/summary", form, htmxFormHeaders("vm-summary-body")...).requireStatus(t, http.StatusOK)
	swapped := func(section, text string) string {
		return `<span class="muted" id="` + section + `-now" hx-swap-oob="true">` + text
	}
	a.contains(t, swapped("vm-Display-and-input", "Graphics card: QXL, Keyboard"), swapped("vm-several", "3 VMs<"), swapped("vm-first-boot", "cloud-init: user anna<"),
		swapped("spec-disks-4--Options", "Bus: SATA, Cache"), swapped("vm-Other-devices", "More drives: 1, "), swapped("vm-rules", "1 rule<"))
	a.excludes(t, "correct horse", `id="spec-disks-3-`)
}

// The form shows the select for the VM's source beside the name, at the top.
func TestNameSectionOfNewVMOffersImageAndISO(t *testing.T) {
	p, project, pool, _ := newFleetPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	beside := func(a answer, field string) {
		t.Helper()
		name, picker, place := strings.Index(a.body, ` name="name"`), strings.Index(a.body, ` name="`+field+`"`), strings.Index(a.body, ` name="projectId"`)
		if name < 0 || picker < name || place < picker || strings.Count(a.body, ` name="`+field+`"`) != 1 {
			t.Errorf("the name is at %d, %s at %d, the project at %d", name, field, picker, place)
		}
	}
	beside(b.get("/vms/new").requireStatus(t, http.StatusOK), "spec.disks[0].image")
	form := newVMForm(project, pool)
	form.Set("begin", "iso")
	beside(b.post("/vms", form).requireStatus(t, http.StatusOK), "spec.iso")
}

func TestSourceAndPresetPrefillForm(t *testing.T) {
	p, project, pool, _ := newFleetPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	form := newVMForm(project, pool)
	form.Set("begin", "preset:windows-11")
	a := b.post("/vms", form).requireStatus(t, http.StatusOK)
	a.contains(t, `aria-pressed="true">Windows 11<`, "TPM 2.0: on", `value="64"`, `aria-pressed="true">ISO<`, "Cores per socket: 4", `value="fresh-1"`, `name="spec.cpus" type="text" value="4"`)
	form.Set("begin", "preset:legacy")
	a = b.post("/vms", form).requireStatus(t, http.StatusOK)
	a.contains(t, "Pointer: Mouse", `name="spec.cpus" type="text" value="1"`, "Machine: i440fx (pc), for old guests", "Bus: IDE (machine pc only)", ">NVMe<", ">Raw file<")
	a.excludes(t, "TPM 2.0: on")
	form.Set("begin", "image")
	b.post("/vms", form).requireStatus(t, http.StatusOK).contains(t, `<option value="image" selected>Copy of an image`)
	form.Set("begin", "blank")
	b.post("/vms", form).requireStatus(t, http.StatusOK).contains(t, `<option value="empty" selected>Empty disk`)
	for _, odd := range []string{"preset:", "preset:no such", "template!", "begin"} {
		form.Set("begin", odd)
		b.post("/vms", form).requireStatus(t, http.StatusBadRequest)
	}
	if p.countRows("vms") != 4 {
		t.Error("prefilling a form created VMs")
	}
}

const pastedXML = `<domain type='kvm'>
<name>old-shop</name>
<memory unit='GiB'>3</memory>
<vcpu>6</vcpu>
<os firmware='efi'><type>hvm</type></os>
<devices>
<disk type='file' device='disk'><source file='PATH/debian-12.qcow2'/><target dev='vda' bus='virtio'/></disk>
<disk type='file' device='disk'><source file='/elsewhere/data.qcow2'/><target dev='vdb' bus='virtio'/></disk>
<disk type='file' device='cdrom'><source file='PATH/installer.iso'/><target dev='sda'/></disk>
<interface type='network'><source network='default'/><model type='virtio'/></interface>
<tpm><backend type='emulator'/></tpm>
MORE
</devices>
</domain>`

func TestPastedXMLPrefillsForm(t *testing.T) {
	p, project, pool, _ := newFleetPortal(t)
	var path string
	if err := p.pool.QueryRow(t.Context(), "SELECT spec->>'path' FROM pools WHERE id = $1", pool).Scan(&path); err != nil {
		t.Fatal(err)
	}
	xml := func(more string) string {
		return strings.ReplaceAll(strings.ReplaceAll(pastedXML, "PATH", path), "MORE", more)
	}
	send := func(b *browser, text string) answer {
		return b.post("/vms", url.Values{"key": {"k"}, "projectId": {string(project)}, "hostId": {""}, "source": {"xml"}, "xml": {text}, "begin": {"read"}})
	}
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	a := send(b, xml("<hostdev mode='subsystem' type='pci'/>")).requireStatus(t, http.StatusOK)
	a.contains(t, `value="old-shop"`, `name="spec.cpus" type="text" value="6"`, "TPM 2.0: on", `<option value="image:`, `value="`+string(pool)+`/installer.iso" selected`,
		"Ignored, because it affects more than the VM: 1 line.", "Line 12", "A device of the host.", "The file of the disk vdb is not an image in a pool", "becomes a copy of the volume debian-12.qcow2", `value="libvirt:default" selected`)

	// The form also reads drives, the bus of disks and the model of NICs from the XML.
	a = send(b, strings.NewReplacer("dev='vda' bus='virtio'/>", "dev='vda' bus='sata'/><iotune><total_iops_sec>543</total_iops_sec></iotune><boot order='2'/>", "type='virtio'/>", "type='e1000e'/><boot order='1'/>").Replace(xml(
		"<disk device='floppy'><target dev='fda'/></disk><disk device='cdrom'><target dev='sdb'/><boot order='3'/></disk>"))).requireStatus(t, http.StatusOK)
	for field, value := range map[string]string{
		"spec.disks[0].bus": "sata", "spec.disks[0].limits.totalIops": "543", "spec.disks[0].bootOrder": "2", "spec.nics[0].model": "e1000e", "spec.nics[0].bootOrder": "1",
		"spec.drives[0].slot": "floppy1", "spec.drives[1].slot": "cdrom2", "spec.drives[1].bootOrder": "3",
	} {
		if got := fieldValueShown(t, a, field); got != value {
			t.Errorf("%s is %q, want %q", field, got, value)
		}
	}

	send(b, "<domain type='kvm'><vcpu>x</vcpu></domain>").requireStatus(t, http.StatusUnprocessableEntity).contains(t, `id="xml-error"`, "Line 1:", "is no whole number")
	send(b, "<!DOCTYPE d [<!ENTITY a SYSTEM 'file:///etc/passwd'>]><domain/>").requireStatus(t, http.StatusUnprocessableEntity).contains(t, "a document type is not read")

	// Tenants may not use devices and files of the host, and do not see the paths of pools.
	tom := p.newTenantBrowser("tom", project)
	a = send(tom, xml("")).requireStatus(t, http.StatusUnprocessableEntity)
	a.contains(t, "give the VM access to the host", "A file of the host.", "affects more than the VM: 2 lines.")
	a.excludes(t, "becomes a copy")
	plain := "<domain type='kvm'><name>mine</name><memory unit='GiB'>1</memory><vcpu>1</vcpu><devices><disk type='volume'><source pool='shared-nfs' volume='secret.qcow2'/><target dev='vda'/></disk></devices></domain>"
	a = send(tom, plain).requireStatus(t, http.StatusOK)
	a.contains(t, `value="mine"`, "is not an image in a pool")
	a.excludes(t, "becomes a copy")
}

func TestPlanPageLinksToFormWithPlannedValues(t *testing.T) {
	p, project, pool, vms := newFleetPortal(t)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	to := b.post("/vms/plan", newVMForm(project, pool)).requireStatus(t, http.StatusSeeOther).header.Get("Location")
	a := b.get(to).requireStatus(t, http.StatusOK)
	a.contains(t, "Review fresh-1", "Asking host-2…", "Create VM")
	if p.countRows("vms") != 4 {
		t.Fatal("a plan created a VM")
	}
	b.get("/vms/new?plan="+strings.TrimPrefix(to, "/plans/")).requireStatus(t, http.StatusOK).contains(t, `value="fresh-1"`, "env=prod", `<option value="image" selected>Copy`, `value="20"`)
	p.execSQL(`UPDATE vm_plans SET asked_at = now() - interval '1 minute'`)
	b.get(to).requireStatus(t, http.StatusOK).contains(t, "No answer from host-2.")
	p.execSQL(`UPDATE vm_plans SET drawing = '{"lines":[{"op":"add","text":"<name>&lt;b&gt;</name>"}]}'`)
	a = b.getFragment(to, "plan-xml").requireStatus(t, http.StatusOK)
	a.contains(t, "&lt;name&gt;&amp;lt;b")
	a.excludes(t, "<html")
	at := b.post(to, url.Values{}).requireStatus(t, http.StatusSeeOther).header.Get("Location")
	b.get(at).requireStatus(t, http.StatusOK).contains(t, "<h1>fresh-1</h1>")
	b.post(to, url.Values{}).requireStatus(t, http.StatusNotFound)

	path := "/vms/" + string(vms["web-02"])
	edit := url.Values{"name": {"web-02"}, "labels": {"a=b"}, "description": {""}, "spec.cpus": {"6"}, "spec.memoryMiB": {"4", "GiB"}, "spec.firmware": {"bios"}, "generation": {"1"}}
	to = b.post(path+"/plan", edit).requireStatus(t, http.StatusSeeOther).header.Get("Location")
	b.get(to).requireStatus(t, http.StatusOK).contains(t, "vCPUs 2 → 6", "Takes effect immediately.", "Asking host-2…")
	b.get(path+"?tab=configure&plan="+strings.TrimPrefix(to, "/plans/")).requireStatus(t, http.StatusOK).contains(t, `value="6"`, "a=b")
	b.post(path+"/plan", url.Values{"name": {"web-02"}, "labels": {""}, "description": {""}, "generation": {"1"}}).requireStatus(t, http.StatusConflict).contains(t, "The form changes nothing")
	p.execSQL(`UPDATE vms SET generation = generation + 1 WHERE id = $1`, vms["web-02"])
	b.post(to, url.Values{}).requireStatus(t, http.StatusConflict).contains(t, "Somebody changed this VM meanwhile")
	b.get("/plans/nonsense").requireStatus(t, http.StatusNotFound)
	p.newSignedInBrowser("nils", fleet.RoleAdmin).get(to).requireStatus(t, http.StatusNotFound)
}

// fieldValueShown returns the value of the field on the form's page: the text, or the value of the selected option.
func fieldValueShown(t *testing.T, a answer, field string) string {
	t.Helper()
	name := regexp.QuoteMeta(` name="` + field + `"`)
	if m := regexp.MustCompile(`<input[^>]*` + name + `[^>]* value="([^"]*)"`).FindStringSubmatch(a.body); m != nil {
		return m[1]
	}
	if m := regexp.MustCompile(`(?s)<select[^>]*` + name + `[^>]*>(.*?)</select>`).FindStringSubmatch(a.body); m != nil {
		if chosen := regexp.MustCompile(`value="([^"]*)" selected`).FindStringSubmatch(m[1]); chosen != nil {
			return chosen[1]
		}
	}
	return "nowhere"
}
