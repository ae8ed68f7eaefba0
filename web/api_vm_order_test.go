package web_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"quantix/internal/fleet"
)

// A program may name what a VM gets anyway: it is kept, and told, as the default.
func TestDefaultsCanBeNamed(t *testing.T) {
	t.Parallel()
	p := newPortal(t)
	project, host := p.addProject("shop"), p.addHost("h1", 0)
	pool := p.addPool("fast", host)
	p.addNetwork("default", host)
	admin := p.program("ann", fleet.RoleAdmin, nil)
	body := fmt.Sprintf(`{"projectId":%q,"name":"web","spec":{"cpus":1,"memoryMiB":512,
"disks":[{"poolId":%q,"sizeBytes":1073741824,"bus":"virtio","cache":"default","io":"default","discard":"unmap","encryption":"none"}],
"nics":[{"network":"default","model":"virtio"}],"boot":{"machine":"q35"},"security":{"confidential":"none"},
"display":{"video":"vga","pointer":"tablet","sound":"none"},"devices":{"watchdog":"none","watchdogAction":"reset","balloon":"on","guestAgent":"on"},
"policy":{"autostart":"off","restart":"off","haPriority":"normal"}}}`, project, pool)
	var vm fleet.VMView
	if err := json.Unmarshal([]byte(admin.call("POST", "/api/v1/vms", body).is(t, http.StatusCreated).body), &vm); err != nil {
		t.Fatal(err)
	}
	for _, f := range fleet.Parts() {
		if !f.Default(vm.Spec) {
			t.Errorf("%s is %v", f.Name, f.Value(vm.Spec))
		}
	}
	if d, n := vm.Spec.Disks[0], vm.Spec.NICs[0]; d.Bus != "" || d.Cache != "" || d.IO != "" || d.Discard != "" || d.Encryption != "" || n.Model != "" {
		t.Errorf("the disk is %+v, the card %+v", d, n)
	}
	path := "/api/v1/vms/" + string(vm.ID)
	a := admin.call("PATCH", path, `{"spec":{"display":{"video":"vga","pointer":"tablet"},"devices":{"watchdogAction":"reset"}}}`).is(t, http.StatusOK)
	if a.header.Get("ETag") != `"1"` {
		t.Errorf("naming defaults has made generation %s", a.header.Get("ETag"))
	}
	admin.call("PATCH", path, `{"spec":{"display":{"video":"cirrus"}}}`).refused(t, http.StatusUnprocessableEntity, "spec.display.video")
}
