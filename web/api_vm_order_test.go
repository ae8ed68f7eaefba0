package web_test

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

// A client may send a field's default value. The portal then stores and returns the VM as if the field had been
// omitted.
func TestExplicitDefaultValuesStoredAsOmitted(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	project, host := p.addProject("shop"), p.addHost("h1", 0)
	pool := p.addPool("fast", host)
	p.addNetwork("default", host)
	admin := p.newAPIClient("ann", fleet.RoleAdmin, nil)
	body := fmt.Sprintf(`{"projectId":%q,"name":"web","spec":{"cpus":1,"memoryMiB":512,
"disks":[{"poolId":%q,"sizeBytes":1073741824,"bus":"virtio","cache":"default","io":"default","discard":"unmap","encryption":"none"}],
"nics":[{"network":"default","model":"virtio"}],"boot":{"machine":"q35"},"security":{"confidential":"none"},
"display":{"video":"vga","pointer":"tablet","sound":"none"},"devices":{"watchdog":"none","watchdogAction":"reset","balloon":"on","guestAgent":"on"},
"policy":{"autostart":"off","restart":"off","haPriority":"normal"}}}`, project, pool)
	var vm fleet.VMView
	if err := json.Unmarshal([]byte(admin.call("POST", "/api/v1/vms", body).requireStatus(t, http.StatusCreated).body), &vm); err != nil {
		t.Fatal(err)
	}
	for _, f := range fleet.OptionalFields() {
		if !f.Default(vm.Spec) {
			t.Errorf("%s is %v", f.Name, f.Value(vm.Spec))
		}
	}
	if d, n := vm.Spec.Disks[0], vm.Spec.NICs[0]; d.Bus != "" || d.Cache != "" || d.IO != "" || d.Discard != "" || d.Encryption != "" || n.Model != "" {
		t.Errorf("the disk is %+v, the NIC %+v", d, n)
	}
	path := "/api/v1/vms/" + string(vm.ID)
	a := admin.call("PATCH", path, `{"spec":{"display":{"video":"vga","pointer":"tablet"},"devices":{"watchdogAction":"reset"}}}`).requireStatus(t, http.StatusOK)
	if a.header.Get("ETag") != `"1"` {
		t.Errorf("a patch with only defaults made generation %s", a.header.Get("ETag"))
	}
	admin.call("PATCH", path, `{"spec":{"display":{"video":"cirrus"}}}`).requireProblem(t, http.StatusUnprocessableEntity, "spec.display.video")
}

func TestCreateVMReturnsTask(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	project := p.addProject("shop")
	p.addHost("h1", 0)
	admin := p.newAPIClient("ann", fleet.RoleAdmin, nil)
	a := admin.call("POST", "/api/v1/vms", vmBody(project, "web"), "Idempotency-Key", "k1").requireStatus(t, http.StatusCreated)
	task := a.header.Get("Quantix-Task")
	if text := admin.call("GET", "/api/v1/tasks/"+task, "").requireStatus(t, http.StatusOK).body; task == "" || !strings.Contains(text, "vm.apply") {
		t.Errorf("the task %q is %s", task, text)
	}
	if again := admin.call("POST", "/api/v1/vms", vmBody(project, "web"), "Idempotency-Key", "k1").requireStatus(t, http.StatusCreated); again.header.Get("Quantix-Task") != task {
		t.Errorf("the repeated request returns the task %q, not %q", again.header.Get("Quantix-Task"), task)
	}
}

func TestDuplicateJSONNamesRefused(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	project, host := p.addProject("shop"), p.addHost("h1", 0)
	id := p.addVM(project, host, "web", fleet.Stopped)
	admin := p.newAPIClient("ann", fleet.RoleAdmin, nil)
	for body, says := range map[string]string{
		`{"name":"a","name":"b"}`: "/name", `{"spec":{"cpus":1,"cpus":2}}`: "/spec/cpus", `{"labels":{"a":"1","\u0061":"2"}}`: "/labels/a",
	} {
		for method, path := range map[string]string{"POST": "/api/v1/vms", "PATCH": "/api/v1/vms/" + string(id)} {
			if got := admin.call(method, path, body).requireProblem(t, http.StatusBadRequest, ""); !strings.Contains(got.Detail, says) {
				t.Errorf("%s %s: %q", method, body, got.Detail)
			}
		}
	}
}

// The curl command and the YAML document shown by the form create the same VM as the form.
func TestCurlAndYAMLFromVMFormCreateVM(t *testing.T) {
	p, project, pool, _ := newFleetPortal(t)
	admin := p.newAPIClient("ann", fleet.RoleAdmin, nil)
	b := p.newSignedInBrowser("mara", fleet.RoleAdmin)
	form := newVMForm(project, pool)
	form.Set("description", "it's 007: \"yes\"\n# no comment")
	shown := html.UnescapeString(b.post("/vms/new/summary", form, htmxFormHeaders("vm-summary-body")...).requireStatus(t, http.StatusOK).body)
	call := regexp.MustCompile(`(?s)-d '(\{.*?\n\})'`).FindStringSubmatch(shown)
	object := regexp.MustCompile(`(?s)(apiVersion: quantix/v1\n.*?)</`).FindStringSubmatch(shown)
	if call == nil || object == nil {
		t.Fatalf("the page shows no call or no object: %s", shown)
	}
	var made [2]fleet.VMView
	for i, c := range []struct{ body, kind, name string }{{strings.ReplaceAll(call[1], `'\''`, "'"), "application/json", "by-call"}, {object[1], "application/yaml", "by-yaml"}} {
		body := strings.ReplaceAll(c.body, "fresh-1", c.name)
		if err := json.Unmarshal([]byte(admin.call("POST", "/api/v1/vms", body, "Content-Type", c.kind).requireStatus(t, http.StatusCreated).body), &made[i]); err != nil {
			t.Fatal(err)
		}
		if vm := made[i]; vm.Name != c.name || vm.Description != "it's 007: \"yes\"\n# no comment" || vm.Spec.MemoryMiB != 1536 || vm.Labels["env"] != "prod" {
			t.Errorf("%s made %+v", c.kind, vm)
		}
	}
	for body, says := range map[string]string{
		"apiVersion: quantix/v2\nname: x": "quantix/v1", "kind: Pool\nname: x": "Only VMs", "name: a\nname: b": "already defined", "a: &x 1\nb: *x": "aliases", "name: x\n---\nname: y": "more than one document", "\t": "not valid YAML",
	} {
		if a := admin.call("POST", "/api/v1/vms", body, "Content-Type", "application/yaml"); a.status < 400 || a.status >= 500 || !strings.Contains(a.body, says) {
			t.Errorf("%q: %d %s", body, a.status, a.body)
		}
	}
}
