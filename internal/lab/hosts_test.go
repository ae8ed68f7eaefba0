//go:build linux && ordeal

package lab_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"quantix/internal/lab"
)

func TestLabHostsAreIsolated(t *testing.T) {
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
		// Both hosts have a guest with the same name. Neither may see the guest of the other host.
		startGuest(t, h.Host, tinyGuest, "tiny")
		if got := virsh(t, h.Host, "list", "--name"); got != "tiny" {
			t.Errorf("guests of %s = %q, want tiny", h.name, got)
		}
	}
}

func TestGuestSurvivesLibvirtdCrash(t *testing.T) {
	t.Parallel()
	h := startHost(t, "survivor")
	startGuest(t, h, tinyGuest, "tiny")
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

func TestLabHostEndsWhenOwnerProcessKilled(t *testing.T) {
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

func TestLabHostRestartPreservesDefinitionsAndUUID(t *testing.T) {
	t.Parallel()
	dir := hostDir(t)
	h := startHostIn(t, dir, "again")
	uuid := h.HostUUID()
	defineDomain(t, h, tinyGuest)
	if err := h.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	h = startHostIn(t, dir, "again")
	if h.HostUUID() != uuid {
		t.Errorf("the host's UUID is %s after a restart, was %s", h.HostUUID(), uuid)
	}
	if got := virsh(t, h, "list", "--all", "--name"); got != "tiny" {
		t.Errorf("defined guests after a restart: %q, want tiny", got)
	}
}

func TestSecondLabHostInDirectoryRefused(t *testing.T) {
	t.Parallel()
	dir := hostDir(t)
	startHostIn(t, dir, "first")
	if h, err := lab.StartHost(t.Context(), lab.Options{Dir: dir, Name: "second"}); err == nil {
		_ = h.Stop(context.Background())
		t.Error("a second host started in the directory of the first")
	}
}

func TestGuestMigratesLiveBetweenHosts(t *testing.T) {
	t.Parallel()
	from := startHost(t, "from", "to")
	to := startHost(t, "to", "from")
	startGuest(t, from, tinyGuest, "tiny")
	virsh(t, from, "migrate", "--live", "--p2p", "--persistent", "--undefinesource", "tiny", to.URI())
	if got := virsh(t, to, "domstate", "tiny"); got != "running" {
		t.Errorf("the guest is %q after its migration, want running", got)
	}
	if got := virsh(t, from, "list", "--all", "--name"); got != "" {
		t.Errorf("the source still has %q", got)
	}
}

func TestCommandForwardsOutputStatusAndSignals(t *testing.T) {
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
