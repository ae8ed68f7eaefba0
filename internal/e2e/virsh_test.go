//go:build linux && ordeal

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

// createDisklessVM creates a VM without disks and pool. It keeps running, because its firmware waits for a boot device.
func (s *playground) createDisklessVM(t *testing.T, name, host string) fleet.VMView {
	t.Helper()
	a := s.api()
	return requestJSON[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
		"name": name, "projectId": a.projectByName(t, "lab").ID, "hostId": a.hostByName(t, host).ID,
		"spec": map[string]any{"cpus": 1, "memoryMiB": 128},
	})
}

// TestVirshChangesShowOnPages changes VMs with virsh. The pages must show each change without a reload.
func TestVirshChangesShowOnPages(t *testing.T) {
	t.Parallel()
	s := labProgram.get(t)
	host := s.Hosts[1]
	name, stranger := uniqueName("beside"), uniqueName("stranger")
	vm := s.createDisklessVM(t, name, host.Name)
	s.api().waitPhase(t, stepLimit, vm.ID, fleet.PhaseStopped)
	p := newTab(t, s.URL)
	p.signIn(s)

	p.withoutPolls()
	p.open("/vms/" + string(vm.ID))
	p.waitText(".head", "Stopped")
	p.markDocument()
	virsh(t, host, "start", name)
	p.waitText(".head", "Running")
	virsh(t, host, "suspend", name)
	p.waitText(".head", "Paused")
	virsh(t, host, "resume", name)
	p.waitText(".head", "Running")
	virsh(t, host, "destroy", name)
	p.waitText(".head", "Stopped")
	p.checkNotReloaded()

	p.open("/vms?tab=found")
	p.markDocument()
	defineDomain(t, host, stranger)
	p.waitText("#found-rows", stranger)
	p.checkNotReloaded()
	p.checkPollsOff()
	p.click("#found-rows a", stranger)
	p.waitText(".head", "Discovered")
	for _, action := range []string{"Edit", "Delete", "Snapshot"} { // power actions and the console are possible
		if buttons := p.visibleText("main button, main a.btn"); strings.Contains(buttons, action) {
			t.Errorf("a VM not created by Quantix offers the action %s: %s", action, buttons)
		}
	}
	virsh(t, host, "undefine", stranger)
}

// defineDomain defines a domain with virsh.
func defineDomain(t *testing.T, host readyHost, name string) {
	t.Helper()
	file := t.TempDir() + "/domain.xml"
	writeFile(t, file, fmt.Sprintf(`<domain type='qemu'><name>%s</name><memory unit='MiB'>64</memory><os><type arch='x86_64'>hvm</type></os></domain>`, name))
	virsh(t, host, "define", file)
}
