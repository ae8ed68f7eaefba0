//go:build linux && ordeal

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
)

// followLimit is how long a page may say what was before somebody migrated its VM.
const followLimit = 10 * time.Second

// TestVirshMigrateIsFollowed migrates a guest with virsh, behind the portal's back, there and back again: its page names the new
// host, its console and its orders go there, and the guest notices nothing.
func TestVirshMigrateIsFollowed(t *testing.T) {
	t.Parallel()
	s := labProgram.get(t)
	a := s.api()
	name := unique("nomad")
	disk := map[string]any{"poolId": a.pool(t, "shared").ID, "image": map[string]any{"poolId": a.pool(t, "shared").ID, "volume": "tiny-guest.qcow2"}}
	vm := ask[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
		"name": name, "projectId": a.project(t, "lab").ID, "hostId": a.host(t, "host-1").ID, "start": true,
		"spec": map[string]any{"cpus": 1, "memoryMiB": 256, "disks": []any{disk}},
	})
	a.waitPhase(t, guestLimit, vm.ID, fleet.PhaseRunning)
	p := newTab(t, s.URL)
	p.signIn(s)
	page := "/vms/" + string(vm.ID)
	p.open(page + "/console")
	booted(t, s.Hosts[0], name)
	p.typeIntoConsole(s.Hosts[0], name)

	p.open(page)
	p.waitText(".head", "host-1")
	p.mark()
	s.migrate(t, name, 0, 1, "--persistent", "--undefinesource")
	p.followed("host-2")
	if got := a.vm(t, vm.ID); got.HostName != "host-2" || got.Status.Reason != "migrated" || got.Attention || len(got.Status.Drift) > 0 {
		t.Errorf("after the migration the VM is %+v, %+v", got, got.Status)
	}
	p.open(page + "/console")
	p.waitTrue("the console's connection", `document.querySelector("#console").dataset.state === "connected"`)
	args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", guest(t, name)))
	if err != nil || !strings.Contains(string(args), "-incoming") {
		t.Errorf("the guest was not taken over in the middle of its run, but started: %v %q", err, args)
	}

	// Back, and what it leaves this time is a definition that is off.
	p.open(page)
	p.mark()
	s.migrate(t, name, 1, 0, "--persistent")
	p.followed("host-1")
	eventually(t, stepLimit, "the definition that is left behind", func() (bool, string) {
		got := a.vm(t, vm.ID)
		return len(got.Elsewhere) == 1 && got.Elsewhere[0].HostName == "host-2" && got.Elsewhere[0].Power == fleet.Stopped && !got.Attention, ""
	})
	p.waitText("main", "Where it is")
	ask[fleet.Task](t, a, http.StatusAccepted, http.MethodPost, "/api/v1"+page+"/actions", map[string]any{"action": "stop"})
	p.waitText(".head", "Stopped")
	p.sameDocument()
	for _, h := range s.Hosts {
		if state := virsh(t, h, "domstate", name); state != "shut off" {
			t.Errorf("on %s it is %s", h.Name, state)
		}
	}
	ask[fleet.Task](t, a, http.StatusAccepted, http.MethodPost, "/api/v1"+page+"/actions", map[string]any{"action": "start"})
	a.waitPhase(t, guestLimit, vm.ID, fleet.PhaseRunning)
	if names := virsh(t, s.Hosts[0], "list", "--name"); !strings.Contains(names, name) {
		t.Errorf("it was not started where it is; there run %s", names)
	}
	virsh(t, s.Hosts[1], "undefine", name)
	ask[fleet.Task](t, a, http.StatusAccepted, http.MethodDelete, "/api/v1"+page+"?disks=true&confirm="+name, nil)
}

// followed demands that the page, which is not loaded anew, names the host before long.
func (p *tab) followed(host string) {
	p.Helper()
	p.waitWithin(followLimit, ".head", host)
	p.waitWithin(followLimit, ".head", "Running")
	p.sameDocument()
}

// migrate moves a guest between two hosts of the lab, as a person beside Quantix would.
func (s *play) migrate(t *testing.T, name string, from, to int, how ...string) {
	t.Helper()
	virsh(t, s.Hosts[from], append([]string{"migrate", "--live", "--p2p", "--unsafe", name, s.Hosts[to].LibvirtURI}, how...)...)
}
