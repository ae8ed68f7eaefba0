package web_test

import (
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

// addVMWithTemplate creates a stopped VM and a template with the VM's image, in a project with the member tom.
func (p *portal) addVMWithTemplate(t *testing.T) (vm fleet.VMID, template, version string, project fleet.ProjectID) {
	t.Helper()
	project = p.addProject("shop")
	host := p.addHost("h1", 0)
	pool := p.addPool("nfs", host)
	p.execSQL(`UPDATE hosts SET status = jsonb_set(status, '{inventory,vmFields}', '["devices.watchdog"]') WHERE id = $1`, host)
	p.addNetwork("default", host)
	vm = p.addVM(project, host, "web", fleet.Stopped)
	p.execSQL(`UPDATE vms SET spec = spec || jsonb_build_object('disks', jsonb_build_array(jsonb_build_object('poolId', $2::text, 'volume', 'web-1.qcow2', 'sizeBytes', 3221225472,
		'imageId', i.id, 'versionId', v.id, 'overlay', true)), 'devices', '{"watchdog":"i6300esb"}'::jsonb), status = '{"power":"stopped","cpus":1,"memoryMiB":1024}', observed_generation = generation
		FROM images i JOIN image_versions v ON v.image_id = i.id WHERE i.name = 'debian-12.qcow2 of nfs' AND vms.id = $1`, vm, pool)
	template, version = string(fleet.NewID[fleet.TemplateID]()), string(fleet.NewID[fleet.TemplateVersionID]())
	p.execSQL("INSERT INTO templates (id, project_id, name, created_by) VALUES ($1, $2, 'Web base', 'mara')", template, project)
	p.execSQL("INSERT INTO template_grants (template_id, project_id, granted_by) VALUES ($1, $2, 'mara')", template, project)
	p.execSQL(`INSERT INTO template_versions (id, template_id, number, spec, note, created_by) SELECT $1, $2, 1, (spec - 'power') || '{"nics":[]}' || jsonb_build_object('disks', jsonb_build_array((spec->'disks'->0) || '{"volume":"","overlay":false}')), 'nginx <b>1</b>', 'mara' FROM vms WHERE id = $3`, version, template, vm)
	return vm, template, version, project
}

var keyFieldPattern = regexp.MustCompile(`name="key" value="([^"]+)"`)

func TestFormCreatesVMFromTemplate(t *testing.T) {
	p := newPortal(t)
	_, template, version, project := p.addVMWithTemplate(t)
	tom := p.newSignedInBrowser("tom", fleet.RoleNone)
	p.execSQL("INSERT INTO project_members (project_id, user_id, role) VALUES ($1, 'tom', 'member')", project)
	tom.get("/templates").requireStatus(t, http.StatusOK).contains(t, "Web base", "/templates/"+template)
	page := tom.get("/templates/"+template).requireStatus(t, http.StatusOK)
	page.contains(t, "Version 1", "nginx &lt;b&gt;1&lt;/b&gt;", "Intel 6300ESB", "(linked)", "/vms/new?template="+template)
	page.excludes(t, "pool nfs on", "Stored in")
	form := tom.get("/vms/new?template="+template).requireStatus(t, http.StatusOK)
	form.contains(t, "New VM from Web base", `name="from.templateId" value="`+template+`"`, `name="from.versionId" value="`+version+`"`, "Disk 1 of Web base, version 1 (3 GiB)", "Watchdog: Intel 6300ESB", `value="3"`)

	sent := url.Values{
		"key": {keyFieldPattern.FindStringSubmatch(form.body)[1]}, "name": {"front-{nn}"}, "count": {"3"}, "first": {"9"}, "projectId": {string(project)}, "hostId": {""},
		"from.templateId": {template}, "from.versionId": {version}, "spec.cpus": {"1"}, "spec.memoryMiB": {"1", "GiB"}, "spec.firmware": {"bios"}, "spec.devices.watchdog": {"i6300esb"},
		"spec.disks[0].source": {"overlay"}, "spec.disks[0].sizeBytes": {"3"},
	}
	for _, field := range []string{"image", "poolId"} {
		m := regexp.MustCompile(`(?s)<select[^>]*name="spec\.disks\[0\]\.` + field + `".*?<option[^>]*value="([^"]+)" selected`).FindStringSubmatch(form.body)
		if m == nil {
			t.Fatalf("the form has no value for %s", field)
		}
		sent.Set("spec.disks[0]."+field, m[1])
	}
	wrong := maps.Clone(sent)
	wrong.Set("name", "front")
	tom.post("/vms", wrong).requireStatus(t, http.StatusUnprocessableEntity).contains(t, "VMs need a counter in their name:", "New VM from Web base", "Disk 1 of Web base")
	first := tom.post("/vms", sent).requireStatus(t, http.StatusSeeOther)
	again := tom.post("/vms", sent).requireStatus(t, http.StatusSeeOther) // the same form sent twice
	if at := first.header.Get("Location"); !strings.HasPrefix(at, "/tasks/") || at != again.header.Get("Location") {
		t.Errorf("the form redirects to %s, and the second time to %s", at, again.header.Get("Location"))
	}
	if n := p.countRows("tasks WHERE parent_id IS NOT NULL AND subject_name IN ('front-09', 'front-10', 'front-11')"); n != 3 {
		t.Errorf("%d VMs are queued", n)
	}
	sent.Set("key", string(fleet.NewID[fleet.VMID]()))
	sent.Set("name", "single")
	sent.Del("count")
	tom.post("/vms", sent).requireStatus(t, http.StatusSeeOther)
	if n := p.countRows("vms WHERE name = 'single' AND spec @> '{\"disks\":[{\"overlay\":true}],\"devices\":{\"watchdog\":\"i6300esb\"}}'"); n != 1 {
		t.Errorf("%d VMs are created", n)
	}

	// Users of other projects cannot see the template.
	sam := p.newSignedInBrowser("sam", fleet.RoleNone)
	p.execSQL("INSERT INTO project_members (project_id, user_id, role) VALUES ($1, 'sam', 'member')", p.addProject("other"))
	sam.get("/templates").requireStatus(t, http.StatusOK).excludes(t, "Web base")
	for _, path := range []string{"/templates/" + template, "/vms/new?template=" + template, "/menus/template/" + template, "/templates/" + template + "/delete"} {
		sam.get(path).requireStatus(t, http.StatusNotFound)
	}
	sam.post("/templates/"+template+"/deprecate", url.Values{"version": {version}, "deprecated": {"yes"}}).requireStatus(t, http.StatusNotFound)
	sam.post("/vms", sent).requireStatus(t, http.StatusNotFound)
}

func TestFormsCreateTemplatesAndClones(t *testing.T) {
	p := newPortal(t)
	vm, template, version, project := p.addVMWithTemplate(t)
	tom := p.newSignedInBrowser("tom", fleet.RoleNone)
	p.execSQL("INSERT INTO project_members (project_id, user_id, role) VALUES ($1, 'tom', 'member')", project)
	at := "/vms/" + string(vm)
	tom.get("/menus/vm/"+string(vm)).requireStatus(t, http.StatusOK).contains(t, "Clone", "/vms/new?clone="+string(vm), "Make a template", at+"/template")
	tom.get(at+"/template").requireStatus(t, http.StatusOK).contains(t, "A new template", "A version of Web base", "The images of the disks")
	tom.post(at+"/template", url.Values{"name": {" "}}).requireStatus(t, http.StatusUnprocessableEntity).contains(t, "Enter a name: one line of at most 200 bytes.")
	tom.post(at+"/template", url.Values{"to": {template}, "disks": {"images"}, "note": {"two"}}).requireStatus(t, http.StatusSeeOther)
	tom.get("/templates/"+template).requireStatus(t, http.StatusOK).contains(t, "Version 2", "two")
	tom.post("/templates/"+template+"/deprecate", url.Values{"version": {version}, "deprecated": {"yes"}}).requireStatus(t, http.StatusSeeOther)
	tom.get("/vms/new?template="+template+"&version="+version).requireStatus(t, http.StatusOK).contains(t, "The version is deprecated and allows no new VMs.")
	tom.get("/templates/"+template+"/versions/delete?version="+version).requireStatus(t, http.StatusOK).contains(t, "Linked clones are backed by version 1", "VM web")
	tom.post("/templates/"+template+"/versions/delete?version="+version, url.Values{"confirm": {"Web base"}}).requireStatus(t, http.StatusConflict)
	tom.get("/templates/"+template+"/versions/delete").requireStatus(t, http.StatusNotFound)
	tom.post("/templates/"+template+"/grants", url.Values{"project": {"all"}}).requireStatus(t, http.StatusForbidden)

	form := tom.get("/vms/new?clone="+string(vm)).requireStatus(t, http.StatusOK)
	form.contains(t, "Clone web", `name="from.vmId" value="`+string(vm)+`"`, "Copy of disk 1 (3 GiB)", `name="spec.disks[0].source" value="clone"`)
	pool := regexp.MustCompile(`(?s)<select[^>]*name="spec\.disks\[0\]\.poolId".*?<option[^>]*value="([^"]+)"`).FindStringSubmatch(form.body)[1]
	tom.post("/vms", url.Values{
		"key": {keyFieldPattern.FindStringSubmatch(form.body)[1]}, "name": {"web-2"}, "projectId": {string(project)}, "from.vmId": {string(vm)}, "spec.cpus": {"2"}, "spec.memoryMiB": {"1", "GiB"},
		"spec.firmware": {"bios"}, "spec.disks[0].source": {"clone"}, "spec.disks[0].poolId": {pool},
	}).requireStatus(t, http.StatusSeeOther)
	if n := p.countRows("jobs WHERE kind = 'volume.copy' AND args->'volume'->>'source' = 'web-1.qcow2'"); n != 1 {
		t.Errorf("%d copies are queued", n)
	}
	p.execSQL(`UPDATE vms SET status = '{"power":"running"}' WHERE id = $1`, vm)
	form = tom.get("/vms/new?clone="+string(vm)).requireStatus(t, http.StatusOK)
	form.contains(t, "from a temporary snapshot", `value="web-clone"`)
	if regexp.MustCompile(`name="start"[^>]*checked`).MatchString(form.body) {
		t.Error("the form of a clone has power-on ticked")
	}
}

func TestVMComparedWithTemplateVersion(t *testing.T) {
	p := newPortal(t)
	vm, template, version, project := p.addVMWithTemplate(t)
	tom := p.newTenantBrowser("tom", project)
	of := "template=" + template + "%2F" + version
	at := "/vms/compare?id=" + string(vm)
	a := tom.get(at).requireStatus(t, http.StatusOK)
	a.contains(t, "Compare with a template", "Web base · version 1 · source of this VM", `value="`+template+"/"+version+`"`)
	a.excludes(t, "Compared fields")
	tom.get("/choices/templates?q=base&of="+string(vm)).requireStatus(t, http.StatusOK).contains(t, "Web base · version 1 · source of this VM")

	a = tom.get(at+"&"+of).requireStatus(t, http.StatusOK)
	a.contains(t, "1 field of", "NICs", "on network default", "Web base, version 1", "/templates/"+template, "Show all fields", `value="`+template+"/"+version+`" selected`)
	a.excludes(t, "Watchdog", "web-1.qcow2", "52:54:00", "<th scope=\"row\">Name</th>", "CD-ROM")
	a = tom.get(at+"&"+of+"&all=1").requireStatus(t, http.StatusOK)
	a.contains(t, "Watchdog", "Intel 6300ESB", "of 3 GiB", "Show differences only")
	a.excludes(t, "Labels</th>", "Shared folders")
	// Without a version, the VM is compared with the template's newest version.
	tom.get(at+"&template="+template).requireStatus(t, http.StatusOK).contains(t, "Web base, version 1", "1 field of")

	// On the page that is opened from the template, the user chooses the VM.
	tom.get("/templates/"+template).requireStatus(t, http.StatusOK).contains(t, "Compare with a VM…", "/vms/compare?"+of)
	tom.get("/vms/compare?"+of).requireStatus(t, http.StatusOK).contains(t, "Web base, version 1", "Compare with a VM", "web · shop")
	tom.get("/vms/"+string(vm)).requireStatus(t, http.StatusOK).contains(t, "Compare…")

	// A disk without a size gets the size of the template's image, and the default for anti-spoofing depends on the
	// creator. The comparison shows neither as a difference.
	p.execSQL(`UPDATE template_versions SET spec = (SELECT jsonb_set(spec - 'power', '{disks,0}', (spec->'disks'->0) || '{"volume":"","sizeBytes":0}') FROM vms WHERE id = $1) WHERE id = $2`, vm, version)
	p.execSQL(`UPDATE vms SET spec = jsonb_set(spec, '{nics,0,antiSpoofing}', 'true') WHERE id = $1`, vm)
	tom.get(at+"&"+of).requireStatus(t, http.StatusOK).contains(t, "No field differs", "those of a new VM from the template")

	for address, status := range map[string]int{
		at + "&with=" + string(vm) + "&" + of:                   http.StatusBadRequest,
		at + "&id=" + string(vm) + "&" + of:                     http.StatusBadRequest,
		at + "&template=nonsense":                               http.StatusNotFound,
		at + "&template=" + template + "/nonsense":              http.StatusNotFound,
		"/vms/compare?id=" + template + "&template=" + template: http.StatusNotFound,
	} {
		tom.get(address).requireStatus(t, status)
	}
	// A user who may not see the VM or the template gets no information about that object.
	blue := p.addProject("blue")
	own := p.addVM(blue, p.addHost("host-7", 0), "own", fleet.Stopped)
	sam := p.newTenantBrowser("sam", blue)
	sam.get("/vms/compare?id="+string(own)).requireStatus(t, http.StatusOK).excludes(t, "Web base")
	sam.get("/choices/templates?q=base").requireStatus(t, http.StatusOK).excludes(t, "Web base")
	for _, hidden := range []string{"/vms/compare?id=" + string(own) + "&" + of, "/vms/compare?" + of, at} {
		sam.get(hidden).requireStatus(t, http.StatusNotFound).excludes(t, "Web base", "web · shop")
	}
	// A published template can be compared with a VM of another project.
	p.execSQL("INSERT INTO template_grants (template_id, granted_by) VALUES ($1, 'mara')", template)
	sam.get("/vms/compare?id="+string(own)+"&"+of).requireStatus(t, http.StatusOK).contains(t, "Web base, version 1", "own", "Watchdog")
}
