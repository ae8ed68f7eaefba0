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

// followLimit is the time within which a page must show that its VM was migrated.
const followLimit = 10 * time.Second

// TestVirshMigrationUpdatesVMHost migrates a guest to another host and back with virsh, without the portal. The page
// must name the new host, console and actions must work there, and the guest must continue to run.
func TestVirshMigrationUpdatesVMHost(t *testing.T) {
	t.Parallel()
	s := labProgram.get(t)
	a := s.api()
	name := uniqueName("nomad")
	disk := map[string]any{"poolId": a.poolByName(t, "shared").ID, "image": map[string]any{"poolId": a.poolByName(t, "shared").ID, "volume": "tiny-guest.qcow2"}}
	vm := requestJSON[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
		"name": name, "projectId": a.projectByName(t, "lab").ID, "hostId": a.hostByName(t, "host-1").ID, "start": true,
		"spec": map[string]any{"cpus": 1, "memoryMiB": 256, "disks": []any{disk}},
	})
	a.waitPhase(t, guestLimit, vm.ID, fleet.PhaseRunning)
	p := newTab(t, s.URL)
	p.signIn(s)
	page := "/vms/" + string(vm.ID)
	p.open(page + "/console")
	waitBooted(t, s.Hosts[0], name)
	p.typeIntoConsole(s.Hosts[0], name)

	p.open(page)
	p.waitText(".head", "host-1")
	p.markDocument()
	s.virshMigrate(t, name, 0, 1, "--persistent", "--undefinesource")
	p.waitMigrated("host-2")
	if got := a.getVM(t, vm.ID); got.HostName != "host-2" || got.Status.Reason != "migrated" || got.Attention || len(got.Status.Drift) > 0 {
		t.Errorf("after the migration the VM is %+v, %+v", got, got.Status)
	}
	p.open(page + "/console")
	p.waitTrue("the console's connection", `document.querySelector("#console").dataset.state === "connected"`)
	args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", guestPID(t, name)))
	if err != nil || !strings.Contains(string(args), "-incoming") {
		t.Errorf("the guest was restarted instead of migrated live: %v %q", err, args)
	}

	// Migrate the VM back to host-1 without --undefinesource. A definition of the VM, shut off, remains on the source
	// host.
	p.open(page)
	p.markDocument()
	s.virshMigrate(t, name, 1, 0, "--persistent")
	p.waitMigrated("host-1")
	eventually(t, stepLimit, "the definition that is left behind", func() (bool, string) {
		got := a.getVM(t, vm.ID)
		return len(got.Sightings) == 1 && got.Sightings[0].HostName == "host-2" && got.Sightings[0].Power == fleet.Stopped && !got.Attention, ""
	})
	p.waitText("main", "Hosts with this VM")
	requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodPost, "/api/v1"+page+"/actions", map[string]any{"action": "stop"})
	p.waitText(".head", "Stopped")
	p.checkNotReloaded()
	for _, h := range s.Hosts {
		if state := virsh(t, h, "domstate", name); state != "shut off" {
			t.Errorf("on %s the guest is %s", h.Name, state)
		}
	}
	requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodPost, "/api/v1"+page+"/actions", map[string]any{"action": "start"})
	a.waitPhase(t, guestLimit, vm.ID, fleet.PhaseRunning)
	if names := virsh(t, s.Hosts[0], "list", "--name"); !strings.Contains(names, name) {
		t.Errorf("the VM was not started on its host, which runs %s", names)
	}
	virsh(t, s.Hosts[1], "undefine", name)
	requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodDelete, "/api/v1"+page+"?disks=true&purge=true&confirm="+name, nil)
}

// waitMigrated waits until the page shows the host without a reload.
func (p *tab) waitMigrated(host string) {
	p.Helper()
	p.waitWithin(followLimit, ".head", host)
	p.waitWithin(followLimit, ".head", "Running")
	p.checkNotReloaded()
}

// virshMigrate migrates a guest live between two hosts of the lab with virsh, like an administrator who bypasses
// Quantix.
func (s *playground) virshMigrate(t *testing.T, name string, from, to int, how ...string) {
	t.Helper()
	virsh(t, s.Hosts[from], append([]string{"migrate", "--live", "--p2p", "--unsafe", name, s.Hosts[to].LibvirtURI}, how...)...)
}
