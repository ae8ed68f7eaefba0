//go:build linux

package lab_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"quantix/internal/lab"
	"quantix/internal/testkit/tier"
)

// tinyGuest is a domain without a disk: SeaBIOS runs and finds no boot device.
const tinyGuest = `<domain type='qemu'>
  <name>tiny</name>
  <memory unit='MiB'>64</memory>
  <vcpu>1</vcpu>
  <os><type arch='x86_64' machine='pc'>hvm</type></os>
  <devices>
    <interface type='network'><source network='default'/><model type='virtio'/></interface>
    <graphics type='vnc'><listen type='socket'/></graphics>
    <video><model type='vga'/></video>
  </devices>
</domain>`

func TestLabHostStopRemovesProcessesBridgesAndRules(t *testing.T) {
	t.Parallel()
	h := startHost(t, "leaver")
	startGuest(t, h, tinyGuest, "tiny")
	bridge := bridgeOf(t, h)
	mac, namespace := addressOf(bridge), ""
	if out, err := h.Command(t.Context(), "readlink", "/proc/1/ns/pid").Output(); err != nil || mac == "" {
		t.Fatal(mac, err)
	} else {
		namespace = strings.TrimSpace(string(out))
	}
	checkClosedToOthers(t, h)
	inside := processesIn(namespace)
	if len(inside) == 0 {
		t.Fatalf("no process is in %s", namespace)
	}
	nsFile, err := os.Open(inside[0]) // keeps the namespace's number in use, so that another test's host does not get it
	if err != nil {
		t.Fatal(err)
	}
	defer nsFile.Close()
	for range 2 {
		if err := h.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if left := processesIn(namespace); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	now := addressOf(bridge)
	if now == mac {
		t.Errorf("the bridge %s is left", bridge)
	}
	rules, _ := exec.Command("iptables-save").Output()
	// Compare complete words: qxlab20 of another lab is not this lab's qxlab2.
	if now == "" && slices.Contains(strings.Fields(string(rules)), bridge) {
		t.Errorf("firewall rules of %s are left:\n%s", bridge, rules)
	}
	mounts, _ := os.ReadFile("/proc/self/mounts")
	if strings.Contains(string(mounts), filepath.Dir(h.Socket())) {
		t.Errorf("mounts of the host are left:\n%s", mounts)
	}
	if err := h.Command(t.Context(), "true").Run(); err == nil {
		t.Error("a command runs in a stopped host")
	}
}

// checkClosedToOthers fails the test unless the user nobody is denied access to the host's libvirtd, which would give
// that user root access.
func checkClosedToOthers(t *testing.T, h *lab.Host) {
	t.Helper()
	for _, uri := range []string{h.URI(), h.URI() + "-ro"} {
		cmd := exec.CommandContext(t.Context(), "virsh", "-c", uri, "uri")
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if out, err := cmd.CombinedOutput(); !strings.Contains(string(out), "Permission denied") {
			t.Errorf("the user nobody at %s: %v: %s", uri, err, out)
		}
	}
}

// addressOf returns a bridge's MAC address, or "" if the bridge does not exist. A newer host may get the number of a
// stopped host, and therefore its bridge name. Only the MAC address identifies one host's bridge.
func addressOf(bridge string) string {
	at, _ := os.ReadFile("/sys/class/net/" + bridge + "/address")
	return strings.TrimSpace(string(at))
}

// ownerOf is an environment variable. A test process with this variable starts a host in the directory that its value
// names, and keeps the host running until the process is killed.
const ownerOf = "QUANTIX_TEST_LAB_HOST"

func TestMain(m *testing.M) {
	if dir := os.Getenv(ownerOf); dir != "" {
		h, err := lab.StartHost(context.Background(), lab.Options{Dir: dir, Name: "orphan"})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		namespace, err := h.Command(context.Background(), "readlink", "/proc/1/ns/pid").Output()
		fmt.Println(strings.TrimSpace(string(namespace)), err)
		select {}
	}
	release, err := tier.AcquireGuestSlot()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	release()
	os.Exit(code)
}

func TestInvalidOptionsRefused(t *testing.T) {
	t.Parallel()
	for _, o := range []lab.Options{
		{Dir: "relative", Name: "a"},
		{Dir: "/tmp/" + strings.Repeat("x", 90), Name: "a"},
		{Dir: "/tmp/a b", Name: "a"},
		{Dir: hostDir(t), Name: "Not a name"},
	} {
		if h, err := lab.StartHost(t.Context(), o); err == nil {
			t.Errorf("started a host with %+v", o)
			_ = h.Stop(context.Background())
		}
	}
}

func startHost(t *testing.T, name string, peers ...string) *lab.Host {
	t.Helper()
	return startHostIn(t, hostDir(t), name, peers...)
}

// startHostIn starts a host that ends with the test. If the start fails, it marks the test as failed and returns nil.
func startHostIn(t *testing.T, dir, name string, peers ...string) *lab.Host {
	t.Helper()
	began := time.Now()
	h, err := lab.StartHost(t.Context(), lab.Options{Dir: dir, Name: name, Peers: peers, Env: []string{"HOME_OF=lab"}})
	if err != nil {
		t.Error(err)
		return nil
	}
	t.Logf("%s started in %v", name, time.Since(began))
	t.Cleanup(func() {
		began := time.Now()
		if err := h.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		t.Logf("%s stopped in %v", name, time.Since(began))
	})
	return h
}

// hostDir returns a new directory with a short path, because the paths of t.TempDir may be too long for Unix sockets.
// All users can enter the directory; the host then denies them access.
func hostDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "qx")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func virsh(t *testing.T, h *lab.Host, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), guestLimit)
	defer cancel()
	out, err := h.Virsh(ctx, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func defineDomain(t *testing.T, h *lab.Host, domain string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "domain.xml")
	if err := os.WriteFile(file, []byte(domain), 0o600); err != nil {
		t.Fatal(err)
	}
	virsh(t, h, "define", file)
}

func startGuest(t *testing.T, h *lab.Host, domain, name string) {
	t.Helper()
	defineDomain(t, h, domain)
	virsh(t, h, "start", name)
}

func bridgeOf(t *testing.T, h *lab.Host) string {
	t.Helper()
	for line := range strings.Lines(virsh(t, h, "net-info", "default")) {
		if name, ok := strings.CutPrefix(line, "Bridge:"); ok {
			return strings.TrimSpace(name)
		}
	}
	t.Fatal("the default network has no bridge")
	return ""
}

// processesIn lists the processes in the given PID namespace.
func processesIn(namespace string) (pids []string) {
	links, _ := filepath.Glob("/proc/[0-9]*/ns/pid")
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && to == namespace {
			pids = append(pids, link)
		}
	}
	return pids
}

// signalWhenUp starts cmd, sends it sig after its first line of output, and returns the rest of its output.
func signalWhenUp(t *testing.T, cmd *exec.Cmd, sig syscall.Signal) string {
	t.Helper()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout = in
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	if _, err := out.Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	// The output ends only when no process inside the host has the pipe open.
	_ = out.SetReadDeadline(time.Now().Add(5 * time.Second))
	var rest strings.Builder
	if _, err := out.WriteTo(&rest); err != nil {
		t.Errorf("the command is still running: %v", err)
	}
	_ = cmd.Wait()
	return rest.String()
}

// guestLimit is the time limit for each action of an emulated guest.
const guestLimit = 2 * time.Minute
