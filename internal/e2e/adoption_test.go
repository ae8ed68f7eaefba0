//go:build linux && ordeal

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

// TestRunningDomainAdoptedEditedAndReleased adopts a running domain that virsh made, edits it and releases it, all by the
// pages. Its QEMU runs on, and the definition is as before the adoption except for the edit.
func TestRunningDomainAdoptedEditedAndReleased(t *testing.T) {
	t.Parallel()
	s := labProgram.get(t)
	a, host, name := s.api(), s.Hosts[0], uniqueName("legacy")
	virsh(t, host, "vol-create-as", "shared", name+".qcow2", "4M", "--format", "qcow2")
	file := t.TempDir() + "/domain.xml"
	writeFile(t, file, fmt.Sprintf(`<domain type='qemu'><name>%s</name><memory unit='MiB'>128</memory><vcpu>1</vcpu><os><type arch='x86_64'>hvm</type></os>
		<devices><disk type='file'><driver name='qemu' type='qcow2'/><source file='%s'/><target dev='vda' bus='virtio'/></disk>
		<sound model='ich9'/><graphics type='vnc'><listen type='socket'/></graphics></devices></domain>`, name, virsh(t, host, "vol-path", name+".qcow2", "--pool", "shared")))
	virsh(t, host, "define", file)
	virsh(t, host, "start", name)
	id := fleet.VMID(virsh(t, host, "domuuid", name))
	pid, before := guestPID(t, name), virsh(t, host, "dumpxml", name, "--inactive")

	p := newTab(t, s.URL)
	p.signIn(s)
	p.open("/vms?tab=found")
	p.waitText("#found-rows", name)
	p.click("#found-rows a", name)
	p.waitText(".head", "Discovered")
	p.click(".head a", "Adopt…")
	p.waitText("dialog", "Adopt "+name+"?")
	p.waitText("dialog", name+".qcow2 in pool shared")
	p.chooseOption("dialog select[name=projectId]", "lab")
	p.savePicture("adopt-dialog")
	p.click("dialog button", "Adopt VM")
	p.waitPath("/tasks/")
	eventually(t, stepLimit, "the adoption", func() (bool, string) {
		task := listFirstPage[fleet.Task](t, a, "/api/v1/tasks?filter=kind:found.adopt+target:"+name)[0]
		return task.State == fleet.JobDone, string(task.State) + " " + task.Error
	})
	p.waitText(".head", "Done")
	vm := a.getVM(t, id)
	if vm.Phase != fleet.PhaseRunning || vm.Name != name || vm.Adoption == nil || len(vm.Status.Drift)+len(vm.Status.Faults)+len(vm.Status.NextBoot) > 0 {
		t.Errorf("the adopted VM is %s with %+v, want it running without drift", vm.Phase, vm.Status)
	}
	if now := guestPID(t, name); now != pid {
		t.Errorf("QEMU is process %d, before the adoption it was %d", now, pid)
	}

	page := "/vms/" + string(id)
	p.open(page)
	p.waitText(".head", "Running")
	p.open(page + "?tab=configure")
	p.waitText("#verbatim", "sound")
	p.savePicture("adopted-vm")
	requestJSON[fleet.VMView](t, a, http.StatusOK, http.MethodPatch, "/api/v1/vms/"+string(id), map[string]any{"description": "adopted", "spec": map[string]any{"memoryMiB": 160}})
	eventually(t, stepLimit, "the edit on the host", func() (bool, string) {
		got := a.getVM(t, id)
		return got.ObservedGeneration == got.Generation && strings.Contains(virsh(t, host, "dumpxml", name, "--inactive"), ">163840</memory>"), string(got.Phase)
	})
	p.open(page)
	p.waitText(".head", "Needs restart")

	p.pickMenuItem(".head summary", "Actions", "Release…")
	p.waitText("dialog", "its guest runs on")
	p.savePicture("release-dialog")
	p.click("dialog button", "Release VM")
	p.waitPath("/tasks/")
	p.waitText(".head", "Done")
	p.open("/vms?tab=found")
	p.waitText("#found-rows", name)
	if now := guestPID(t, name); now != pid {
		t.Errorf("QEMU is process %d, before the adoption it was %d", now, pid)
	}
	after := strings.ReplaceAll(virsh(t, host, "dumpxml", name, "--inactive"), ">163840<", ">131072<")
	if after != before {
		t.Errorf("after the release the definition is\n%s\nbefore the adoption it was\n%s", after, before)
	}
	virsh(t, host, "destroy", name)
	virsh(t, host, "undefine", name)
	virsh(t, host, "vol-delete", name+".qcow2", "--pool", "shared")
}

// TestDiscoveredVMsActedOnAdoptedAndReleasedTogether pauses two discovered VMs by one action, adopts both, takes a snapshot
// of one right after the adoption, and releases both by one action. Their QEMUs run on.
func TestDiscoveredVMsActedOnAdoptedAndReleasedTogether(t *testing.T) {
	t.Parallel()
	s := labProgram.get(t)
	a, host, prefix := s.api(), s.Hosts[0], uniqueName("together")
	names, pids := []string{prefix + "-a", prefix + "-b"}, map[string]int{}
	for _, name := range names {
		virsh(t, host, "vol-create-as", "shared", name+".qcow2", "4M", "--format", "qcow2")
		file := t.TempDir() + "/domain.xml"
		writeFile(t, file, fmt.Sprintf(`<domain type='qemu'><name>%s</name><memory unit='MiB'>128</memory><vcpu>1</vcpu><os><type arch='x86_64'>hvm</type></os>
			<devices><disk type='file'><driver name='qemu' type='qcow2'/><source file='%s'/><target dev='vda' bus='virtio'/></disk></devices></domain>`, name, virsh(t, host, "vol-path", name+".qcow2", "--pool", "shared")))
		virsh(t, host, "define", file)
		virsh(t, host, "start", name)
		pids[name] = guestPID(t, name)
	}
	p := newTab(t, s.URL)
	p.signIn(s)
	selectBoth := func(list string) {
		t.Helper()
		p.open(list)
		p.waitText("table", names[1])
		p.click("input[data-select-all]", "")
		p.waitText(".bulk", "2 selected")
	}
	found, managed := "/vms?tab=found&filter=name:"+prefix+"*", "/vms?filter=adopted:yes+name:"+prefix+"*"
	selectBoth(found)
	p.click(".bulk summary", "Power")
	p.click(".bulk .menu-list button", "Pause")
	p.waitPath("/tasks/")
	p.waitText(".head", "Done")
	for _, name := range names {
		if got := virsh(t, host, "domstate", name); got != "paused" {
			t.Errorf("%s is %s, want it paused", name, got)
		}
	}
	selectBoth(found)
	p.click(".bulk button", "Adopt")
	p.waitText("dialog", "Adopt 2 VMs?")
	p.chooseOption("dialog select[name=projectId]", "lab")
	p.click("dialog button", "Adopt 2 VMs")
	p.waitPath("/tasks/")
	p.waitText(".head", "Done")

	first := fleet.VMID(virsh(t, host, "domuuid", names[0]))
	p.open("/vms/" + string(first))
	p.waitText(".body", "by admin from")
	task := requestJSON[fleet.Task](t, a, http.StatusAccepted, http.MethodPost, "/api/v1/vms/"+string(first)+"/snapshots", map[string]any{"name": "first"})
	a.waitTask(t, task, fleet.JobDone)
	if vm := a.getVM(t, first); vm.Status == nil || len(vm.Status.Drift)+len(vm.Status.Faults)+len(vm.Status.NextBoot) > 0 {
		t.Errorf("after the snapshot the VM is %+v, want it without drift", vm.Status)
	}
	selectBoth(managed)
	p.click(".bulk button", "Release")
	p.waitText("dialog", "Release 2 VMs?")
	p.click("dialog button", "Release 2 VMs")
	p.waitPath("/tasks/")
	p.waitText(".head", "Done")
	p.open(found)
	p.waitText("#found-rows", names[1])
	for _, name := range names {
		if now := guestPID(t, name); now != pids[name] {
			t.Errorf("the QEMU of %s is process %d, before it was %d", name, now, pids[name])
		}
		if text := virsh(t, host, "dumpxml", name, "--inactive"); strings.Contains(text, "quantix:vm") {
			t.Errorf("the released definition of %s is\n%s", name, text)
		}
		virsh(t, host, "destroy", name)
		virsh(t, host, "undefine", name)
	}
}
