//go:build linux && ordeal

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/healthevent"
)

// writeLabFile replaces a file in /run/libvirt of a host of the lab, and lets its agent run all checks at once.
func writeLabFile(t *testing.T, host int, name, text string) {
	t.Helper()
	file := filepath.Join(hostDir(host), "run", name)
	if err := os.WriteFile(file+".new", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(file) })
	if err := syscall.Kill(labAgentPID(t, hostDir(host)), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}

// TestHealthPolicyEvacuatesHostWithFailedGPU writes an XID error into the kernel log of a real host. Its agent reports it, the
// policy taints the host, the running VM migrates live, and the page names the policy. A failing disk then cordons the host
// and raises an alarm. It is not parallel, because other tests place VMs on the host.
func TestHealthPolicyEvacuatesHostWithFailedGPU(t *testing.T) {
	s := labProgram.get(t)
	a := s.api()
	shared, from := a.poolByName(t, "shared").ID, a.hostByName(t, "host-1")
	vm := requestJSON[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
		"name": uniqueName("worker"), "projectId": a.projectByName(t, "lab").ID, "hostId": from.ID, "start": true,
		"spec": map[string]any{"cpus": 1, "memoryMiB": 256, "disks": []any{map[string]any{"poolId": shared, "image": map[string]any{"poolId": shared, "volume": "tiny-guest.qcow2"}}}},
	})
	a.waitPhase(t, guestLimit, vm.ID, fleet.PhaseRunning)
	waitBooted(t, s.Hosts[0], vm.Name)
	p := newTab(t, s.URL)
	p.signIn(s)

	p.open("/policies/new")
	p.fillInput("#expression", `event.chek == "gpu"`)
	p.waitText("#expression-check", `Line 1, column 6: event has no field "chek"`)

	host := func() fleet.HostView {
		return requestJSON[fleet.HostView](t, a, http.StatusOK, http.MethodGet, "/api/v1/hosts/"+string(from.ID), nil)
	}
	taint := fleet.ParseTaint(a.policyByName(t, "gpu-failed").Spec.Actions.Taint)
	hasTaint := func() bool { return strings.Contains(fmt.Sprint(host().Spec.Taints), taint.Key) }
	p.open("/hosts/" + string(from.ID))
	p.markDocument()
	writeLabFile(t, 0, labKernelLog, "NVRM: Xid (PCI:0000:41:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n")
	eventually(t, 2*guestLimit, "the taint", func() (bool, string) { return hasTaint(), fmt.Sprint(host().Spec.Taints) })
	p.waitText("main", "Policy gpu-failed tainted this host")
	p.waitText("main", "because of XID 79 on gpu/0000:41:00.0.")
	p.checkNotReloaded()
	p.capture("host-health-policy")
	eventually(t, 4*guestLimit, "the VM on the other host", func() (bool, string) {
		got := a.getVM(t, vm.ID)
		return got.HostName == "host-2" && got.Phase == fleet.PhaseRunning, fmt.Sprintf("%s, %s, %s", got.HostName, got.Phase, got.Status.Error)
	})
	if args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", guestPID(t, vm.Name))); err != nil || !strings.Contains(string(args), "-incoming") {
		t.Errorf("the VM was restarted instead of migrated live: %v %q", err, args)
	}

	for _, c := range requestJSON[healthevent.HostHealth](t, a, http.StatusOK, http.MethodGet, "/api/v1/hosts/"+string(from.ID)+"/health", nil).Conditions {
		if c.Code == "xid-79" {
			in := map[string]any{"check": c.Check, "object": c.Object, "code": c.Code}
			if got, err := a.send(t.Context(), http.MethodPost, "/api/v1/hosts/"+string(from.ID)+"/health/resolve", in); err != nil || got.status != http.StatusNoContent {
				t.Fatalf("resolve: %d %s, %v", got.status, got.body, err)
			}
		}
	}
	eventually(t, stepLimit, "the end of the taint", func() (bool, string) { return !hasTaint(), fmt.Sprint(host().Spec.Taints) })
	p.waitNoText("main", "Policy gpu-failed")

	writeLabFile(t, 0, labDisk, failingDisk)
	eventually(t, guestLimit, "the cordon", func() (bool, string) { return !host().Spec.Schedulable, "schedulable" })
	p.waitText("main", "Policy disk-failing cordoned this host")
	eventually(t, guestLimit, "the alarm", func() (bool, string) {
		alarms := listFirstPage[fleet.Alarm](t, a, "/api/v1/alarms?filter=state:open+object:host-1")
		return strings.Contains(fmt.Sprint(alarms), "(Health policy disk-failing)"), fmt.Sprint(alarms)
	})
	writeLabFile(t, 0, labDisk, passingDisk)
	eventually(t, guestLimit, "the end of the cordon", func() (bool, string) { return host().Spec.Schedulable, "cordoned" })

	requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodPost, "/api/v1/vms/"+string(vm.ID)+"/actions", map[string]any{"action": "stop"})
	a.waitPhase(t, guestLimit, vm.ID, fleet.PhaseStopped)
	requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodDelete, "/api/v1/vms/"+string(vm.ID)+"?disks=true&purge=true&confirm="+vm.Name, nil)
}
