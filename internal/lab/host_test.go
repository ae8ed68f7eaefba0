//go:build linux

package lab_test

import (
	"bufio"
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
)

// tinyGuest has no disk: SeaBIOS runs and finds nothing to boot.
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

func TestHostsRunSideBySide(t *testing.T) {
	t.Parallel()
	one, two := make(chan *lab.Host, 1), make(chan *lab.Host, 1)
	go func() { one <- startHost(t, "host-a") }()
	go func() { two <- startHost(t, "host-b") }()
	a, b := <-one, <-two
	if a == nil || b == nil {
		t.FailNow()
	}
	if a.HostUUID() == b.HostUUID() {
		t.Errorf("both hosts have the UUID %s", a.HostUUID())
	}
	for _, h := range []struct {
		*lab.Host
		name string
	}{{a, "host-a"}, {b, "host-b"}} {
		if got := virsh(t, h.Host, "hostname"); got != h.name {
			t.Errorf("hostname = %q, want %q", got, h.name)
		}
		if got := virsh(t, h.Host, "net-list", "--name", "--autostart"); got != "default" {
			t.Errorf("active networks = %q, want default", got)
		}
		if caps := virsh(t, h.Host, "capabilities"); !strings.Contains(caps, h.HostUUID()) {
			t.Errorf("capabilities of %s lack its UUID %s", h.name, h.HostUUID())
		}
		// One name on both hosts: neither may see the other's.
		start(t, h.Host, tinyGuest, "tiny")
		if got := virsh(t, h.Host, "list", "--name"); got != "tiny" {
			t.Errorf("guests of %s = %q, want tiny", h.name, got)
		}
	}
}

func TestGuestSurvivesLibvirtd(t *testing.T) {
	t.Parallel()
	h := startHost(t, "survivor")
	start(t, h, tinyGuest, "tiny")
	ctx := t.Context()
	if err := h.KillLibvirtd(ctx); err != nil {
		t.Fatal(err)
	}
	if out, err := h.Virsh(ctx, "list"); err == nil {
		t.Fatalf("libvirtd still answers: %s", out)
	}
	if err := h.StartLibvirtd(ctx); err != nil {
		t.Fatal(err)
	}
	if got := virsh(t, h, "domstate", "tiny"); got != "running" {
		t.Fatalf("guest is %q after libvirtd's restart, want running", got)
	}
}

func TestStopLeavesNothing(t *testing.T) {
	t.Parallel()
	h := startHost(t, "leaver")
	start(t, h, tinyGuest, "tiny")
	bridge := bridgeOf(t, h)
	mac, namespace := addressOf(bridge), ""
	if out, err := h.Command(t.Context(), "readlink", "/proc/1/ns/pid").Output(); err != nil || mac == "" {
		t.Fatal(mac, err)
	} else {
		namespace = strings.TrimSpace(string(out))
	}
	inside := processesIn(namespace)
	if len(inside) == 0 {
		t.Fatalf("no process is in %s", namespace)
	}
	held, err := os.Open(inside[0]) // a namespace that nobody holds gives its number to the next one, which may be another test's
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
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
	if now == "" && slices.Contains(strings.Fields(string(rules)), bridge) { // as a word: another lab's qxlab20 is not our qxlab2
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

// addressOf is a bridge's MAC; "": there is none. A host that has started since may have the number of one that ended, and with it
// the name: the address is one host's alone.
func addressOf(bridge string) string {
	at, _ := os.ReadFile("/sys/class/net/" + bridge + "/address")
	return strings.TrimSpace(string(at))
}

// ownerOf names, in the environment of a process of this test, the directory of the host that it starts and holds.
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
	os.Exit(m.Run())
}

func TestHostEndsWithItsProgram(t *testing.T) {
	t.Parallel()
	dir := hostDir(t)
	owner := exec.Command(os.Args[0])
	owner.Env = append(os.Environ(), ownerOf+"="+dir)
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	_ = owner.Process.Kill()
	_ = owner.Wait()
	namespace, ok := strings.CutSuffix(line, " <nil>\n")
	if !ok {
		t.Fatalf("the host did not start: %s", line)
	}
	eventually(t, "the host's processes end", func() bool { return len(processesIn(namespace)) == 0 })
	network, err := os.ReadFile(filepath.Join(dir, "etc/qemu/networks/default.xml"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(network), "bridge name='")
	bridge, _, _ := strings.Cut(rest, "'")
	_, rest, _ = strings.Cut(string(network), "mac address='")
	if mac, _, _ := strings.Cut(rest, "'"); mac == "" || addressOf(bridge) == mac {
		t.Errorf("the bridge %s is left", bridge)
	}
}

func TestRestartKeepsDefinitionsAndUUID(t *testing.T) {
	t.Parallel()
	dir := hostDir(t)
	h := startIn(t, dir, "again")
	uuid := h.HostUUID()
	define(t, h, tinyGuest)
	if err := h.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	h = startIn(t, dir, "again")
	if h.HostUUID() != uuid {
		t.Errorf("the host's UUID is %s after a restart, was %s", h.HostUUID(), uuid)
	}
	if got := virsh(t, h, "list", "--all", "--name"); got != "tiny" {
		t.Errorf("defined guests after a restart: %q, want tiny", got)
	}
}

func TestOneHostADirectory(t *testing.T) {
	t.Parallel()
	dir := hostDir(t)
	startIn(t, dir, "first")
	if h, err := lab.StartHost(t.Context(), lab.Options{Dir: dir, Name: "second"}); err == nil {
		_ = h.Stop(context.Background())
		t.Error("a second host started in the directory of the first")
	}
}

func TestGuestMigrates(t *testing.T) {
	t.Parallel()
	from := startHost(t, "from", "to")
	to := startHost(t, "to", "from")
	start(t, from, tinyGuest, "tiny")
	virsh(t, from, "migrate", "--live", "--p2p", "--persistent", "--undefinesource", "tiny", to.URI())
	if got := virsh(t, to, "domstate", "tiny"); got != "running" {
		t.Errorf("the guest is %q after its migration, want running", got)
	}
	if got := virsh(t, from, "list", "--all", "--name"); got != "" {
		t.Errorf("the source still has %q", got)
	}
}

func TestCommandStandsForTheProcessInside(t *testing.T) {
	t.Parallel()
	h := startHost(t, "commander")

	cmd := h.Command(t.Context(), "sh", "-c", `read line; echo "$line on $(hostname), $HOME_OF"; exit 3`)
	cmd.Stdin = strings.NewReader("hello\n")
	out, _ := cmd.Output()
	if got, want := string(out), "hello on commander, lab\n"; got != want || cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("output %q, status %d; want %q, 3", got, cmd.ProcessState.ExitCode(), want)
	}

	cmd = h.Command(t.Context(), "sh", "-c", `trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.01; done`)
	if out := signalWhenUp(t, cmd, syscall.SIGTERM); out != "bye\n" || cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("after SIGTERM: output %q, status %d; want bye, 7", out, cmd.ProcessState.ExitCode())
	}

	cmd = h.Command(t.Context(), "sh", "-c", `echo up; exec sleep 1000`)
	if out := signalWhenUp(t, cmd, syscall.SIGKILL); out != "" {
		t.Errorf("after SIGKILL the command still wrote %q", out)
	}
}

func TestOptionsAreChecked(t *testing.T) {
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
	return startIn(t, hostDir(t), name, peers...)
}

// startIn starts a host that ends with the test. It returns nil, and the test has failed, where it does not start.
func startIn(t *testing.T, dir, name string, peers ...string) *lab.Host {
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

// hostDir is short where t.TempDir's names may be too long for Unix sockets.
func hostDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "qx")
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

func define(t *testing.T, h *lab.Host, domain string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "domain.xml")
	if err := os.WriteFile(file, []byte(domain), 0o600); err != nil {
		t.Fatal(err)
	}
	virsh(t, h, "define", file)
}

func start(t *testing.T, h *lab.Host, domain, name string) {
	t.Helper()
	define(t, h, domain)
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

// processesIn lists the processes whose PID namespace is the one named.
func processesIn(namespace string) (pids []string) {
	links, _ := filepath.Glob("/proc/[0-9]*/ns/pid")
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && to == namespace {
			pids = append(pids, link)
		}
	}
	return pids
}

// signalWhenUp runs cmd, sends it sig when it has written its first line, and returns what it writes after.
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
	// End of file comes when no process inside holds the pipe any more.
	_ = out.SetReadDeadline(time.Now().Add(5 * time.Second))
	var rest strings.Builder
	if _, err := out.WriteTo(&rest); err != nil {
		t.Errorf("the command lives on: %v", err)
	}
	_ = cmd.Wait()
	return rest.String()
}
