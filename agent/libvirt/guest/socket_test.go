//go:build linux

package guest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/lab"
)

// unixAgentCaller sends commands like the vsock caller, but over a Unix socket, because the tests'
// kernel has no vsock to a
func unixAgentCaller(t *testing.T, socket string) agentCaller {
	return func(command string, limit time.Duration) (string, error) {
		c, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
			t.Fatal(err)
		}
		return sendCommand(c, command)
	}
}

// A real guest agent answers without libvirt, even after a client that disconnected in the middle of a command.
func TestGuestAgentAnswersOverSocket(t *testing.T) {
	t.Parallel()
	files, err := lab.GuestImage(t.Context(), lab.CacheDir())
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.MkdirTemp("/tmp", "qxga") // socket paths must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	unpack := exec.CommandContext(t.Context(), "sh", "-c", `cd "$1" && gzip -dc "$2" | cpio -idm --quiet && mkdir -p tmp`, "sh", root, files.Initrd)
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("unpack the agent: %v: %s", err, out)
	}
	ga := exec.CommandContext(t.Context(), "chroot", root, "/sbin/qemu-ga", "--method", "unix-listen", "--path", "/tmp/s", "--statedir", "/tmp", "--pidfile", "/tmp/pid")
	if err := ga.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ga.Process.Kill(); _ = ga.Wait() })
	socket := filepath.Join(root, "tmp/s")
	late, tick := time.After(20*time.Second), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for there := false; !there; {
		select {
		case <-tick.C:
			_, err := os.Stat(socket)
			there = err == nil
		case <-late:
			t.Fatal("the agent does not listen")
		}
	}
	ask := unixAgentCaller(t, socket)
	for range 3 {
		var seen guestRun
		if err := seen.queryAgent(ask); err != nil || seen.status.Agent != fleet.AgentAnswers || seen.status.Version == "" || seen.status.Hostname == "" {
			t.Fatalf("%+v, %v", seen.status, err)
		}
		broken, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(broken, `{"execute":"guest-info","argum`)
		broken.Close()
	}
	if _, err := callAgent[struct{}](ask, agentAnswerTimeout, "guest-no-such-thing", nil); !isCommandUnavailable(err) || errors.Is(err, errNoAnswer) {
		t.Errorf("an unknown command: %v", err)
	}
}
