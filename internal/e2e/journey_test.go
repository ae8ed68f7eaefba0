//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
)

// guestLimit is the time limit for a tiny guest to boot, or to react to its power button, without KVM on a busy
// machine.
const guestLimit = 150 * time.Second

// TestCreateUseAndDeleteVM does what a new user does first, only on the pages: sign in, create a pool and a VM on a
// real libvirt host, type into the VM's console, shut the VM down and delete it.
func TestCreateUseAndDeleteVM(t *testing.T) {
	t.Parallel()
	s := labProgram.get(t)
	p := newTab(t, s.URL)
	p.signIn(s)

	pool, name := uniqueName("journey"), uniqueName("tourist")
	p.createPool(pool, filepath.Join(labDir(), "pools", pool))
	p.createVM(name, pool)
	p.markDocument()
	p.waitWithin(guestLimit, ".head", "Running")
	p.checkNotReloaded()
	id := fleet.VMID(strings.TrimPrefix(p.path(), "/vms/"))
	vm := s.api().getVM(t, id)
	if len(vm.Status.Disks) != 1 {
		t.Fatalf("the VM has the disks %v, want one", vm.Status.Disks)
	}
	disk := vm.Status.Disks[0].Path
	if _, err := os.Stat(disk); err != nil {
		t.Errorf("the disk of the VM: %v", err)
	}

	p.click(".head nav.tabs a", "Console")
	p.waitPath("/vms/" + string(id) + "/console")
	waitBooted(t, s.Hosts[0], name)
	p.typeIntoConsole(s.Hosts[0], name)
	p.plugNICs(s.api(), s.Hosts[0], id)
	p.growRunningVM(s.api(), s.Hosts[0], id, pool)

	p.click(".head nav.tabs a", "Summary")
	p.waitText(".head", "Running")
	p.markDocument()
	p.click(".head button", "Shut down")
	p.waitText("dialog[open] h2", "Shut down "+name+"?")
	p.typeKeys("\r")
	p.waitWithin(guestLimit, ".head", "Stopped")
	p.checkNotReloaded()

	if _, err := evalJS[bool](p, `document.querySelector("[role=treeitem][data-key^='host:'] .row").dispatchEvent(new MouseEvent("contextmenu", {bubbles: true, button: 2, clientX: 80, clientY: 160}))`); err != nil {
		t.Fatal(err)
	}
	p.waitTrue("the host's actions at its row in the tree", `document.querySelector("#context-menu:popover-open a[href*='/hosts/']") !== null`)
	p.typeKeys("\u001b")

	p.pickMenuItem(".head summary", "Actions", "Delete")
	p.waitText("#dialog", name)
	p.click("#dialog label", "Delete disks")
	p.waitText("#dialog button.danger", "Move to recycle bin")
	p.click("#dialog label", "Delete permanently")
	p.fillInput("#dialog #confirm", name)
	p.waitText("#dialog button.danger", "Delete VM and disks")
	p.typeKeys("\r")
	p.waitPath("/vms")
	eventually(t, stepLimit, "the end of the VM on its host", func() (bool, string) {
		names := virsh(t, s.Hosts[0], "list", "--all", "--name")
		return !strings.Contains(names, name), names
	})
	eventually(t, stepLimit, "the end of the disk's file", func() (bool, string) {
		_, err := os.Stat(disk)
		return os.IsNotExist(err), disk
	})
	eventually(t, stepLimit, "the VM's page to be gone", func() (bool, string) {
		got, err := s.api().send(t.Context(), http.MethodGet, "/api/v1/vms/"+string(id), nil)
		return err == nil && got.status == http.StatusNotFound, string(got.body)
	})
}

// plugNICs adds a NIC to the running guest with the form, and removes the NIC by PATCH.
func (p *tab) plugNICs(a api, h readyHost, id fleet.VMID) {
	p.Helper()
	before := a.getVM(p.T, id)
	nics := func(n int) {
		p.Helper()
		eventually(p, stepLimit, fmt.Sprintf("%d NICs of the running guest", n), func() (bool, string) {
			list, vm := virsh(p.T, h, "domiflist", string(id)), a.getVM(p.T, id)
			return strings.Count(list, "virtio") == n && len(vm.Status.NICs) == n && len(vm.Status.NextBoot) == 0, fmt.Sprintf("%s\n%+v", list, vm.Status)
		})
	}
	had := len(before.Spec.NICs)
	p.click(".head nav.tabs a", "Configure")
	p.waitPath("/vms/" + string(id) + "?tab=configure")
	p.click("#vm-edit button", "Add NIC")
	p.chooseOption(fmt.Sprintf("select[name='spec.nics[%d].network']", had), "network default")
	p.click("#vm-edit footer button.primary", "Save")
	p.waitPath("/vms/" + string(id))
	nics(had + 1)
	got, err := a.send(p.Context(), http.MethodPatch, "/api/v1/vms/"+string(id), map[string]any{"spec": map[string]any{"nics": before.Spec.NICs}})
	if err != nil || got.status != http.StatusOK {
		p.Fatalf("remove the NIC: %d %s %v", got.status, got.body, err)
	}
	nics(had)
}

// growRunningVM adds a vCPU, memory and a disk to the running guest with the form, checks that the guest sees them, and
// removes the disk again.
func (p *tab) growRunningVM(a api, h readyHost, id fleet.VMID, pool string) {
	p.Helper()
	before := a.getVM(p.T, id)
	had := len(before.Spec.Disks)
	// The guest agent may crash when a device is hot-plugged. The guest then restarts the agent, so failed commands are
	// retried.
	guest := func(command string) int {
		var out struct{ Return []any }
		eventually(p, stepLimit, "the guest's answer to "+command, func() (bool, string) {
			text, err := tryVirsh(p.T, h, "qemu-agent-command", string(id), "--timeout", "10", `{"execute":"`+command+`"}`)
			if err != nil {
				return false, err.Error()
			}
			if err := json.Unmarshal([]byte(text), &out); err != nil {
				p.Fatalf("%s: %v: %s", command, err, text)
			}
			return true, ""
		})
		return len(out.Return)
	}
	cpus, blocks, disks := guest("guest-get-vcpus"), guest("guest-get-memory-blocks"), guest("guest-get-disks")

	p.open("/vms/" + string(id) + "?tab=configure")
	p.fillInput("#spec-cpus", "2")
	p.fillInput("#spec-memoryMiB", "512")
	p.click("#vm-edit button", "Add disk")
	p.chooseOption(fmt.Sprintf("select[name='spec.disks[%d].poolId']", had), pool)
	p.fillInput(fmt.Sprintf("input[name='spec.disks[%d].sizeBytes']", had), "1")
	p.click("#vm-edit footer button.primary", "Save")
	p.waitPath("/vms/" + string(id))
	eventually(p, stepLimit, "what was added, in the guest", func() (bool, string) {
		c, m, d := guest("guest-get-vcpus"), guest("guest-get-memory-blocks"), guest("guest-get-disks")
		vm := a.getVM(p.T, id)
		return c == cpus+1 && m == blocks+2 && d > disks && vm.Status.CPUs == 2 && vm.Status.MemoryMiB == 512 && len(vm.Status.Disks) == had+1 && len(vm.Status.NextBoot) == 0,
			fmt.Sprintf("%d vCPUs, %d blocks of memory, %d disks: %+v", c, m, d, vm.Status)
	})

	p.open("/vms/" + string(id) + "?tab=configure")
	p.click(fmt.Sprintf("#vm-edit [name=drop][value='spec.disks[%d]']", had), "")
	p.click("#vm-edit footer button.primary", "Save")
	p.waitPath("/vms/" + string(id))
	eventually(p, stepLimit, "the disk to be gone from the guest", func() (bool, string) {
		d, vm := guest("guest-get-disks"), a.getVM(p.T, id)
		return d == disks && len(vm.Status.Disks) == had && len(vm.Status.NextBoot) == 0, fmt.Sprintf("%d disks: %+v", d, vm.Status)
	})
}

// createPool creates a directory pool on the first host with the form.
func (p *tab) createPool(name, path string) {
	p.Helper()
	p.open("/pools")
	p.click("a", "New pool")
	p.waitPath("/pools/new")
	p.fillInput("#name", name)
	p.fillInput("#path", path)
	p.click("label", "host-1")
	p.click("button.primary", "Create pool")
	p.waitPath("/pools/")
	p.waitText("h1", name)
	p.waitText("table.matrix", "Active")
}

// createVM creates and starts a VM from the tiny guest's image on the first host with the form.
func (p *tab) createVM(name, pool string) {
	p.Helper()
	p.open("/vms")
	p.click("a", "New VM")
	p.waitPath("/vms/new")
	p.fillInput("#name", name)
	p.chooseOption("#projectId", "lab")
	p.chooseOption("#hostId", "host-1")
	p.chooseOption("#spec-firmware", "BIOS")
	p.fillInput("#spec-cpus", "1")
	p.fillInput("#spec-memoryMiB", "256")
	p.chooseOption("#spec-memoryMiB-unit", "MiB")
	p.click("#vm-CPU > summary", "CPU")
	p.fillInput("#spec-cpu-max", "2")
	p.click("#vm-Memory > summary", "Memory")
	p.fillInput("#spec-memory-maxMiB", "1024")
	p.chooseOption("select[name='spec.disks[0].source']", "Copy of an image")
	p.chooseOption("select[name='spec.disks[0].image']", "tiny-guest.qcow2")
	p.chooseOption("select[name='spec.disks[0].poolId']", pool)
	p.fillInput("input[name='spec.disks[0].sizeBytes']", "")
	if on, err := evalJS[bool](p, `document.querySelector("#start").checked`); err == nil && !on {
		p.click("label", "Power on after creation")
	}
	p.click("footer button.primary", "Create VM")
	p.waitTrue("the VM's page", `/^\/vms\/[0-9a-f-]{36}$/.test(location.pathname)`)
	p.waitText("h1", name)
}

// waitWithin is waitText with its own time limit.
func (p *tab) waitWithin(limit time.Duration, sel, text string) {
	p.Helper()
	eventually(p, limit, text+" in "+sel, func() (bool, string) {
		shown := p.visibleText(sel)
		return strings.Contains(shown, text), sel + " shows " + shown
	})
}

// drawnPixels is a script that counts the console's pixels that differ from its most frequent color. The count measures
// how much text is shown.
const drawnPixels = `(() => {
  const c = document.querySelector("#console canvas");
  if (!c || !c.width) return 0;
  const d = new Uint32Array(c.getContext("2d").getImageData(0, 0, c.width, c.height).data.buffer);
  const n = new Map();
  for (const point of d) n.set(point, (n.get(point) || 0) + 1);
  return d.length - Math.max(...n.values());
})()`

// cursorPixels is a number of pixels: more than a blinking cursor has, and fewer than a line of text has.
const cursorPixels = 150

// waitBooted waits for the guest agent. Without this, a key may arrive while the guest's kernel takes control of the
// emulated keyboard controller. That key would stay in the controller and block all further interrupts of the keyboard.
func waitBooted(t testing.TB, h readyHost, name string) {
	t.Helper()
	eventually(t, guestLimit, name+"'s guest agent", func() (bool, string) {
		ctx, cancel := context.WithTimeout(t.Context(), stepLimit)
		defer cancel()
		out, err := exec.CommandContext(ctx, "virsh", "-q", "-c", h.LibvirtURI, "qemu-agent-command", "--timeout", "5", name, `{"execute":"guest-ping"}`).CombinedOutput()
		return err == nil, string(out)
	})
}

// typeIntoConsole types into the guest's shell until the guest's terminal has the output. The console must then show
// that output, and must show less after the screen is cleared.
func (p *tab) typeIntoConsole(h readyHost, name string) {
	p.Helper()
	const text = "quantix was here"
	p.waitTrue("the console's connection", `document.querySelector("#console").dataset.state === "connected"`)
	var typed time.Time
	eventually(p, guestLimit, "what was typed, on the guest's terminal", func() (bool, string) {
		screen := guestTerminalText(p.T, h, name)
		if strings.Contains(screen, text) {
			return true, ""
		}
		if time.Since(typed) < 10*time.Second {
			return false, screen
		}
		p.click("#console canvas", "")
		focus, err := evalJS[string](p, `document.activeElement.tagName + (document.hasFocus() ? "" : " of a page without focus")`)
		if err != nil || focus != "CANVAS" {
			return false, fmt.Sprintf("the focus after a click on the screen: %s, %v", focus, err)
		}
		typed = time.Now()
		// The output must differ from the typed command, which the terminal shows, too.
		p.typeKeys("clear; echo quan''tix was here; echo quan''tix was here\r")
		return false, screen
	})
	var full int
	points := func(what string, ok func(now int) bool) (now int) {
		p.Helper()
		eventually(p, guestLimit, what, func() (bool, string) {
			var err error
			now, err = evalJS[int](p, drawnPixels)
			return err == nil && ok(now), fmt.Sprintf("%d points are drawn, %d were, %v", now, full, err)
		})
		return now
	}
	full = points("the console's picture of it", func(now int) bool { return now > 5*cursorPixels })
	p.savePicture("journey-console")
	p.typeKeys("clear\r")
	eventually(p, guestLimit, "an empty terminal", func() (bool, string) {
		screen := guestTerminalText(p.T, h, name)
		return !strings.Contains(screen, text), screen
	})
	points("the console's picture of the empty terminal", func(now int) bool { return now < full-4*cursorPixels })
}

// guestTerminalText returns the text on the guest's first virtual terminal without line ends, which it reads through
// the guest agent. If the guest agent does not answer, it returns the error's text.
func guestTerminalText(t testing.TB, h readyHost, name string) string {
	t.Helper()
	out, err := execInGuest(t, h, name, "/bin/cat", "/dev/vcs1")
	if err != nil {
		return err.Error()
	}
	return out
}

// execInGuest runs a program in the guest through the guest agent, and returns its output and errors.
func execInGuest(t testing.TB, h readyHost, name, path string, arguments ...string) (string, error) {
	t.Helper()
	ask := func(execute string, args map[string]any, out any) error {
		order, err := json.Marshal(map[string]any{"execute": execute, "arguments": args})
		if err != nil {
			return err
		}
		text, err := tryVirsh(t, h, "qemu-agent-command", name, "--timeout", "10", string(order))
		if err != nil {
			return err
		}
		return json.Unmarshal([]byte(text), &struct{ Return any }{out})
	}
	var run struct{ PID int }
	if err := ask("guest-exec", map[string]any{"path": path, "arg": arguments, "capture-output": true}, &run); err != nil {
		return "", err
	}
	var status struct {
		Exited bool
		Out    []byte `json:"out-data"`
		Err    []byte `json:"err-data"`
	}
	eventually(t, guestLimit, "the end of "+path+" in the guest", func() (bool, string) {
		err := ask("guest-exec-status", map[string]any{"pid": run.PID}, &status)
		return err == nil && status.Exited, fmt.Sprint(err)
	})
	return string(status.Out) + string(status.Err), nil
}

// virsh runs virsh on a host's libvirt, like an administrator who bypasses Quantix.
func virsh(t testing.TB, h readyHost, args ...string) string {
	t.Helper()
	out, err := tryVirsh(t, h, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func tryVirsh(t testing.TB, h readyHost, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stepLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "virsh", append([]string{"-q", "-c", h.LibvirtURI}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("virsh %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}
