//go:build linux && ordeal

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/lab"
	"quantix/internal/template"
)

const (
	guestUser     = "anna"
	guestPassword = "correct-horse"
	guestKey      = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHKqsL5yCzDzZrGpFhO6mZQvVOSyCzDzZrGpFhO6mZQv anna@desk"
)

// cloudRig is a portal and a real host of one test. A pool of the host contains the lab's Debian cloud image.
type cloudRig struct {
	*faultRig
	hostID fleet.HostID
}

func newCloudRig(t *testing.T, name string, index int) cloudRig {
	t.Helper()
	build, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	image, err := lab.CloudImage(build, lab.CacheDir())
	if err != nil {
		t.Fatal(err)
	}
	r := newRigWithoutHost(t, name, index)
	dir := filepath.Join(r.dir, "pool")
	r.extra = []string{"--pool-roots", dir}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "cp", image, filepath.Join(dir, "cloud.qcow2")).CombinedOutput(); err != nil {
		t.Fatalf("copy the image: %v: %s", err, out)
	}
	r.joinHost()
	a := r.api()
	host := a.hostByName(t, r.name)
	pool := requestJSON[fleet.PoolView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/pools", map[string]any{
		"name": "cloud", "hostIds": []fleet.HostID{host.ID}, "spec": map[string]any{"kind": "dir", "path": dir},
	})
	eventually(t, guestLimit, "the image in the pool", func() (bool, string) {
		got, err := a.send(t.Context(), http.MethodGet, "/api/v1/pools/"+string(pool.ID)+"/volumes", nil)
		return err == nil && strings.Contains(string(got.body), "cloud.qcow2"), fmt.Sprint(string(got.body), err)
	})
	requestJSON[fleet.Project](t, a, http.StatusCreated, http.MethodPost, "/api/v1/projects", map[string]any{"name": "cloud"})
	a.publishNetworks(t)
	return cloudRig{faultRig: r, hostID: host.ID}
}

// serialOf opens the serial console of the running VM.
func (r cloudRig) serialOf(t *testing.T, id fleet.VMID) *serialConsole {
	t.Helper()
	return openSerial(t, r.virsh(t, "ttyconsole", string(id)))
}

func (r cloudRig) virsh(t *testing.T, args ...string) string {
	t.Helper()
	out, err := r.host.Command(t.Context(), "virsh", append([]string{"-q"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("virsh %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestVMLifecycle does on the pages what users do with VMs that run a distribution's image. It checks each result
// inside the guest.
func TestVMLifecycle(t *testing.T) {
	t.Parallel()
	r := newCloudRig(t, "lively", 23)
	r.api() // signs in once and changes the one-time password
	requestJSON[fleet.Customization](t, r.api(), http.StatusCreated, http.MethodPost, "/api/v1/customizations", map[string]any{
		"name": "colored", "firstBoot": map[string]any{"kind": "cloud-init", "cloudInit": map[string]any{
			"users": []map[string]any{{"name": guestUser, "password": guestPassword, "sudo": true, "sshKeys": []string{guestKey}}},
			"files": []map[string]any{{"path": "/etc/color", "content": "{{var.color}} of {{vm.name}} {{vm.index}}\n", "mode": "0640"}},
			"run":   []string{"echo told-to-run > /etc/proof"},
		}},
	})
	t.Run("BIOS", func(t *testing.T) {
		t.Parallel()
		l := newGuestLife(t, r, "web-07", func(p *tab) {
			p.chooseOption("#spec-firmware", "BIOS")
			p.chooseOption("[name='firstBoot.kind']", "cloud-init")
			p.fillInput("[name='firstBoot.cloudInit.users[0].name']", guestUser)
			p.fillInput("[name='firstBoot.cloudInit.users[0].password']", guestPassword)
			p.fillInput("[name='firstBoot.cloudInit.users[0].sshKeys']", guestKey)
			p.click("#vm-first-boot label", "Passwordless sudo")
			p.fillInput("[name='firstBoot.cloudInit.run']", "echo told-to-run > /etc/proof")
		})
		l.checkFirstBoot("told-to-run", "1")
		l.runProgram()
		l.hotPlug()
		l.revertSnapshot()
		l.cloneTemplate().exportAndImport("web-09")
	})
	t.Run("UEFI", func(t *testing.T) {
		t.Parallel()
		l := newGuestLife(t, r, "safe-12", func(p *tab) {
			p.chooseOption("#spec-firmware", "UEFI")
			p.click("#vm-Security > summary", "Security")
			p.click("#vm-Security label", "TPM 2.0")
			p.chooseOption("[name='firstBoot.kind']", "Customization spec")
			p.chooseOption("[name='firstBoot.customizationId']", "colored")
			p.fillInput("[name='firstBoot.variables']", "color=deep red")
		})
		l.checkFirstBoot("deep red of safe-12 12", "640", "told-to-run", "1")
		if got := l.console.runCommand("ls -1d /sys/firmware/efi /sys/class/tpm/tpm0"); got != "/sys/class/tpm/tpm0\n/sys/firmware/efi" {
			t.Errorf("of UEFI and a TPM the guest has %q", got)
		}
		l.hotPlug()
		l.revertSnapshot()
	})
}

// guestLife is a VM with a browser tab on its pages and a shell on its serial console.
type guestLife struct {
	*tab
	r       cloudRig
	a       api
	id      fleet.VMID
	name    string
	console *serialConsole
}

// newGuestLife creates a VM from the Debian image with the wizard. fill sets the wizard's other fields. Then it signs
// in to the guest as the first-boot user.
func newGuestLife(t *testing.T, r cloudRig, name string, fill func(p *tab)) *guestLife {
	t.Helper()
	p := newTab(t, r.portal.url)
	p.open("/sign-in")
	p.enterCredentials("admin", r.portal.password)
	p.waitPath("/")
	l := &guestLife{tab: p, r: r, a: r.api(), name: name}
	p.open("/vms")
	p.click("a", "New VM")
	p.waitPath("/vms/new")
	p.fillInput("#name", name)
	p.chooseOption("#projectId", "cloud")
	p.chooseOption("#hostId", r.name)
	p.fillInput("#spec-cpus", "1")
	p.fillInput("#spec-memoryMiB", "512")
	p.chooseOption("#spec-memoryMiB-unit", "MiB")
	p.click("#vm-CPU > summary", "CPU")
	p.fillInput("#spec-cpu-max", "2")
	p.click("#vm-Memory > summary", "Memory")
	p.fillInput("#spec-memory-maxMiB", "1024")
	p.chooseOption("select[name='spec.disks[0].source']", "Copy of an image")
	p.chooseOption("select[name='spec.disks[0].image']", "cloud.qcow2")
	p.chooseOption("select[name='spec.disks[0].poolId']", "cloud")
	p.fillInput("input[name='spec.disks[0].sizeBytes']", "2")
	p.click("#vm-first-boot > summary", "First boot")
	fill(p)
	p.waitText("#vm-summary-body", "Host: "+r.name)
	p.waitTrue("the first boot is in sight", `(document.activeElement.blur(), document.querySelector("#vm-first-boot").scrollIntoView(), true)`)
	p.waitText("#vm-summary-body", "First boot")
	p.savePicture("readme-wizard-" + name)
	p.createGuest(l)
	return l
}

// createGuest sends the form of a new VM, waits for the VM's guest, and signs in to the guest.
func (p *tab) createGuest(l *guestLife) {
	p.Helper()
	if on, err := evalJS[bool](p, `document.querySelector("#start").checked`); err == nil && !on {
		p.click("label", "Power on after creation")
	}
	p.click("footer button.primary", "Create VM")
	p.waitTrue("the VM's page", `/^\/vms\/[0-9a-f-]{36}$/.test(location.pathname)`)
	l.id = fleet.VMID(strings.TrimPrefix(p.path(), "/vms/"))
	l.a.waitPhase(p.T, guestLimit, l.id, fleet.PhaseRunning)
	l.console = l.r.serialOf(p.T, l.id)
	l.console.signIn(l.name, guestUser, guestPassword)
}

// checkFirstBoot fails the test unless the guest shows the wanted effects of its first-boot settings. Neither the
// definition nor the agent's log may contain these settings.
func (l *guestLife) checkFirstBoot(want ...string) {
	l.Helper()
	got := l.console.runCommand("exec 2>/dev/null; sudo cat /etc/color /etc/proof; stat -c %a /etc/color; sudo grep -c anna@desk .ssh/authorized_keys")
	for _, w := range want {
		if !strings.Contains("\n"+got+"\n", "\n"+w+"\n") {
			l.Errorf("the guest lacks %q: %q", w, got)
		}
	}
	if n := l.runNumber("cat /sys/block/vda/size"); n != 2<<21 {
		l.Errorf("the disk has %d sectors", n)
	}
	if text := l.r.virsh(l.T, "dumpxml", string(l.id)); strings.Contains(text, guestUser) || strings.Contains(text, "$6$") {
		l.Error("the definition contains the first-boot settings")
	}
	if log, err := os.ReadFile(filepath.Join(l.r.dir, "agent.log")); err != nil && !errors.Is(err, os.ErrNotExist) || strings.Contains(string(log), "$6$") {
		l.Errorf("the agent's log contains the first-boot settings: %v", err)
	}
}

// runProgram allows programs in the guest by the VM's policy, runs one through the guest agent, and checks its output.
func (l *guestLife) runProgram() {
	l.Helper()
	at := "/api/v1/vms/" + string(l.id)
	order := map[string]any{"action": "exec", "program": "/bin/sh", "args": []string{"-c", "hostname; id -u; echo no >&2"}}
	requestJSON[any](l, l.a, http.StatusConflict, http.MethodPost, at+"/guest", order)
	requestJSON[fleet.VMView](l, l.a, http.StatusOK, http.MethodPatch, at, map[string]any{"spec": map[string]any{"policy": map[string]any{"guestExec": true}}})
	l.waitIdle()
	task := requestJSON[fleet.Task](l, l.a, http.StatusAccepted, http.MethodPost, at+"/guest", order)
	eventually(l, guestLimit, "the program's end", func() (bool, string) {
		t := requestJSON[fleet.Task](l, l.a, http.StatusOK, http.MethodGet, "/api/v1/tasks/"+string(task.ID), nil)
		return t.State.IsFinal(), string(t.State)
	})
	run := requestJSON[fleet.GuestRun](l, l.a, http.StatusOK, http.MethodGet, "/api/v1/tasks/"+string(task.ID)+"/guest-run", nil)
	if o := run.Output; o == nil || o.ExitCode != 0 || o.Stdout != l.name+"\n0\n" || o.Stderr != "no\n" {
		l.Errorf("the program ended with %+v", run.Output)
	}
}

// runNumber runs a command in the guest and returns the number that it prints.
func (l *guestLife) runNumber(command string) int {
	l.Helper()
	text := l.console.runCommand(command)
	n, err := strconv.Atoi(text)
	if err != nil {
		l.Fatalf("%s printed %q", command, text)
	}
	return n
}

// detectedHardware returns what the guest itself detects: online CPUs, memory in MiB, number of disks and of NICs.
func (l *guestLife) detectedHardware() (cpus, memory, disks, nics int) {
	l.Helper()
	l.console.runCommand("for c in /sys/devices/system/cpu/cpu[1-9]*/online; do echo 1 | sudo tee $c >/dev/null; done 2>/dev/null")
	return l.runNumber("nproc"), l.runNumber("awk '/^MemTotal/ {print int($2 / 1024)}' /proc/meminfo"), l.runNumber("ls /sys/block | grep -c ^vd"), l.runNumber("ls -d /sys/class/net/e* 2>/dev/null | wc -l")
}

// hotPlug adds a vCPU, memory, a disk and a NIC to the running VM in one edit. The guest must detect all of them
// without a restart.
func (l *guestLife) hotPlug() {
	l.Helper()
	before := l.a.getVM(l.T, l.id)
	cpus, memory, disks, nics := l.detectedHardware()
	l.open("/vms/" + string(l.id) + "?tab=configure")
	l.fillInput("#spec-cpus", "2")
	l.fillInput("#spec-memoryMiB", "768")
	l.click("#vm-edit button", "Add disk")
	l.chooseOption(fmt.Sprintf("select[name='spec.disks[%d].poolId']", len(before.Spec.Disks)), "cloud")
	l.fillInput(fmt.Sprintf("input[name='spec.disks[%d].sizeBytes']", len(before.Spec.Disks)), "1")
	l.click("#vm-edit button", "Add NIC")
	l.chooseOption(fmt.Sprintf("select[name='spec.nics[%d].network']", len(before.Spec.NICs)), "network default")
	l.click("#vm-edit footer button.primary", "Save")
	l.waitPath("/vms/" + string(l.id))
	eventually(l, guestLimit, "what was added, in the guest", func() (bool, string) {
		c, m, d, n := l.detectedHardware()
		return c == cpus+1 && m > memory+200 && d == disks+1 && n == nics+1, fmt.Sprintf("%d CPUs, %d MiB, %d disks, %d NICs", c, m, d, n)
	})
	eventually(l, stepLimit, "what was added, on the page", func() (bool, string) {
		vm := l.a.getVM(l.T, l.id)
		return vm.Status.CPUs == 2 && vm.Status.MemoryMiB == 768 && len(vm.Status.NextBoot)+len(vm.Status.Drift) == 0, fmt.Sprintf("%+v", vm.Status)
	})
}

// revertSnapshot takes a snapshot with memory, deletes a file and kills a program in the guest, and reverts to the
// snapshot. The file must exist again, and the program must continue.
func (l *guestLife) revertSnapshot() {
	l.Helper()
	l.console.runCommand("echo precious > ~/precious; sync")
	l.console.runCommand("(i=0; while :; do i=$((i+1)); echo $i > /tmp/count; sleep 0.2; done) >/dev/null 2>&1 & echo $! > ~/pid")
	count := func() int { return l.runNumber("sleep 1; until grep . /tmp/count; do sleep 0.1; done") }
	eventually(l, guestLimit, "the program counts", func() (bool, string) { n := count(); return n > 3, strconv.Itoa(n) })

	l.open("/vms/" + string(l.id) + "?tab=snapshots")
	l.click(".card button, .card a", "Take snapshot")
	l.waitText("#dialog", "Take a snapshot")
	l.fillInput("#dialog [name=name]", "before the mishap")
	l.waitTrue("memory is offered first", `document.querySelector("#dialog [name=memory]").checked`)
	l.click("#dialog button.primary", "Take snapshot")
	l.waitWithin(guestLimit, ".snaps", "before the mishap")
	l.waitText(".snaps .badge", "memory")
	l.waitIdle()
	was := count()
	l.savePicture("readme-snapshots-" + l.name)

	l.console.runCommand("kill -9 $(cat ~/pid); rm ~/precious /tmp/count; sync")
	if got := l.console.runCommand("cat ~/precious /tmp/count 2>&1 | grep -c 'No such file'"); got != "2" {
		l.Fatalf("before the revert the guest has %q", got)
	}
	run := l.r.virsh(l.T, "domid", string(l.id))
	l.pickMenuItem(".snap details summary, .snap summary", "", "Revert to it")
	l.waitText("#dialog", "Revert "+l.name)
	l.click("#dialog button.danger", "Revert")
	eventually(l, guestLimit, "a new run of the guest", func() (bool, string) {
		out, err := l.r.host.Command(l.Context(), "virsh", "-q", "domid", string(l.id)).CombinedOutput()
		now := strings.TrimSpace(string(out))
		return err == nil && now != run && now != "-", now
	})
	l.waitIdle()
	l.console = l.r.serialOf(l.T, l.id)
	if got := l.console.runCommand("sudo sh -c 'echo 3 > /proc/sys/vm/drop_caches'; cat ~/precious; kill -0 $(cat ~/pid) && echo alive"); got != "precious\nalive" {
		l.Errorf("after the revert the guest has %q", got)
	}
	back := count()
	if back == 0 || back > was+600 {
		l.Errorf("after the revert the program is at %d, and was at %d", back, was)
	}
	eventually(l, guestLimit, "the program to continue", func() (bool, string) { n := count(); return n > back, strconv.Itoa(n) })
	if vm := l.a.getVM(l.T, l.id); vm.Phase != fleet.PhaseRunning || len(vm.Status.NextBoot)+len(vm.Status.Drift)+len(vm.Status.Faults) > 0 {
		l.Errorf("after the revert the VM is %s: %+v", vm.Phase, vm.Status)
	}
	l.open("/vms/" + string(l.id) + "?tab=snapshots")
	l.pickMenuItem(".snap details summary, .snap summary", "", "Delete…")
	l.waitText("#dialog", "Delete the snapshot")
	l.click("#dialog button.danger", "Delete")
	l.waitWithin(guestLimit, "main", "No snapshots")
	l.waitIdle()
	if again := count(); again <= back {
		l.Errorf("after the merge the program is at %d, and was at %d", again, back)
	}
}

// waitIdle waits until no task of the VM is running.
func (l *guestLife) waitIdle() {
	l.Helper()
	eventually(l, guestLimit, "the end of the VM's tasks", func() (bool, string) {
		for _, t := range listFirstPage[fleet.Task](l, l.a, "/api/v1/tasks?filter=target:"+l.name) {
			if !t.State.IsFinal() {
				return false, string(t.Kind) + " is " + string(t.State)
			}
			if t.State != fleet.JobDone {
				l.Fatalf("%s is %s: %s", t.Kind, t.State, t.Error)
			}
		}
		return true, ""
	})
}

// cloneTemplate creates a template of the VM, and a linked clone of the template with first-boot settings of its own.
func (l *guestLife) cloneTemplate() *guestLife {
	l.Helper()
	l.console.runCommand("echo inherited | sudo tee /etc/heirloom; sync")
	l.forceOff()
	l.pickMenuItem(".head summary", "Actions", "Make a template")
	l.waitText("#dialog", "Make a template of "+l.name)
	l.fillInput("#dialog [name=name]", "web")
	l.click("#dialog button.primary", "Make template")
	l.waitPath("/templates/")
	l.waitWithin(guestLimit, "main", "Version 1")
	eventually(l, guestLimit, "the template's images", func() (bool, string) {
		t := findByName[template.View](l, l.a, "templates", "web")
		return t.Versions[0].WhyUnusable() == "", t.Versions[0].WhyUnusable()
	})
	l.open(l.path())
	l.click(".head a", "New VM from this template")
	l.waitPath("/vms/new")
	clone := &guestLife{tab: l.tab, r: l.r, a: l.a, name: "web-08"}
	l.fillInput("#name", clone.name)
	l.chooseOption("#projectId", "cloud")
	l.chooseOption("#hostId", l.r.name)
	for i := range 2 {
		l.chooseOption(fmt.Sprintf("select[name='spec.disks[%d].source']", i), "Overlay on an image")
		l.chooseOption(fmt.Sprintf("select[name='spec.disks[%d].poolId']", i), "cloud")
	}
	l.click("#vm-first-boot > summary", "First boot")
	l.chooseOption("[name='firstBoot.kind']", "cloud-init")
	l.createGuest(clone)
	if got := clone.console.runCommand("cat /etc/heirloom; hostname"); got != "inherited\nweb-08" {
		l.Errorf("the clone's guest has %q", got)
	}
	disk := l.a.getVM(l.T, clone.id).Status.Disks[0].Path
	out, err := exec.CommandContext(l.Context(), "qemu-img", "info", "-U", "--backing-chain", disk).CombinedOutput()
	if err != nil || strings.Count(string(out), "image:") != 2 {
		l.Errorf("the clone's disk is no overlay: %v: %s", err, out)
	}
	return clone
}
