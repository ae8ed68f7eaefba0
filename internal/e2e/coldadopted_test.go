//go:build linux && ordeal

package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

// TestAdoptedVMMigratesColdWithItsDefinition adopts a VM that is off, migrates it with its disk to another real host, starts
// and releases it there. Except for the disk's path, its definition is that of the old host.
func TestAdoptedVMMigratesColdWithItsDefinition(t *testing.T) {
	t.Parallel()
	s := newSwitchedLab(t, "cold-adopted")
	name, dir := "Old_crm", "/var/lib/libvirt/images/"+uniqueName("cold")
	pool := requestJSON[fleet.PoolView](t, s.api, http.StatusCreated, http.MethodPost, "/api/v1/pools", map[string]any{
		"name": filepath.Base(dir), "hostIds": []fleet.HostID{s.hosts[0].ID, s.hosts[1].ID}, "spec": map[string]any{"kind": "dir", "path": dir},
	})
	eventually(t, guestLimit, "the pool on both hosts", func() (bool, string) {
		on := requestJSON[fleet.PoolView](t, s.api, http.StatusOK, http.MethodGet, "/api/v1/pools/"+string(pool.ID), nil).Hosts
		up := func(h fleet.PoolHost) bool { return h.State == fleet.PoolActive }
		return len(on) == 2 && up(on[0]) && up(on[1]), fmt.Sprintf("%+v", on)
	})
	disk := filepath.Join(dir, "crm.qcow2")
	virsh(t, s.Hosts[0], "vol-create-as", pool.Name, "crm.qcow2", "4M", "--format", "qcow2")
	file := t.TempDir() + "/domain.xml"
	writeFile(t, file, fmt.Sprintf(`<domain type='qemu'><name>%s</name><title>Büro</title><memory unit='MiB'>128</memory><vcpu>1</vcpu>
		<os><type arch='x86_64' machine='q35'>hvm</type></os><clock offset='localtime'/>
		<devices><disk type='file'><driver name='qemu' type='qcow2'/><source file='%s'/><target dev='vda' bus='virtio'/></disk>
		<sound model='ich9'/><graphics type='vnc'><listen type='socket'/></graphics></devices></domain>`, name, disk))
	virsh(t, s.Hosts[0], "define", file)
	id := fleet.VMID(virsh(t, s.Hosts[0], "domuuid", name))
	before := virsh(t, s.Hosts[0], "dumpxml", name, "--inactive")
	eventually(t, stepLimit, "the adoption", func() (bool, string) {
		got, err := s.send(t.Context(), http.MethodPost, "/api/v1/hosts/"+string(s.hosts[0].ID)+"/discovered-vms/"+string(id)+"/adopt", map[string]any{
			"projectId": s.projectByName(t, "lab").ID, "name": "crm",
		})
		return err == nil && got.status == http.StatusAccepted, string(got.body)
	})
	page := "/api/v1/vms/" + string(id)
	eventually(t, stepLimit, "the adopted VM", func() (bool, string) {
		got, err := s.send(t.Context(), http.MethodGet, page, nil)
		return err == nil && got.status == http.StatusOK, string(got.body)
	})
	s.waitPhase(t, guestLimit, id, fleet.PhaseStopped)

	task := requestJSON[fleet.Task](t, s.api, http.StatusAccepted, http.MethodPost, page+"/migrate", map[string]any{"hostId": s.hosts[1].ID})
	eventually(t, guestLimit, "the migration", func() (bool, string) {
		now := requestJSON[fleet.Task](t, s.api, http.StatusOK, http.MethodGet, "/api/v1/tasks/"+string(task.ID), nil)
		return now.State == fleet.JobDone, string(now.State) + " " + now.Note + " " + now.Error
	})
	s.waitPhase(t, guestLimit, id, fleet.PhaseStopped)
	vm := s.getVM(t, id)
	want := strings.ReplaceAll(before, disk, filepath.Join(dir, vm.Spec.Disks[0].Volume))
	requestJSON[any](t, s.api, http.StatusAccepted, http.MethodPost, page+"/actions", map[string]any{"action": "start"})
	s.waitPhase(t, guestLimit, id, fleet.PhaseRunning)
	requestJSON[any](t, s.api, http.StatusAccepted, http.MethodPost, page+"/release", nil)
	eventually(t, guestLimit, "the released definition", func() (bool, string) {
		is := virsh(t, s.Hosts[1], "dumpxml", name, "--inactive")
		return is == want, is
	})
	if vm.HostID != s.hosts[1].ID || len(vm.Status.Drift)+len(vm.Status.Faults) > 0 {
		t.Errorf("the VM was on %s with %+v", vm.HostName, vm.Status)
	}
	if out := virsh(t, s.Hosts[0], "list", "--all", "--name"); strings.Contains(out, name) {
		t.Errorf("the old host still has the VM: %s", out)
	}
}
