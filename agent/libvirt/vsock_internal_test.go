//go:build linux

package libvirt

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/lab"
)

// unixAgentCaller is vsockAgentCaller over a Unix socket, because the tests' kernel has no vsock to a guest.
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
		return sendGuestCommand(c, command)
	}
}

// A real guest agent answers without libvirt, even after a client that disconnected in the middle of a command.
func TestGuestAgentAnswersOverSocket(t *testing.T) {
	t.Parallel()
	guest, err := lab.GuestImage(t.Context(), lab.CacheDir())
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.MkdirTemp("/tmp", "qxga") // socket paths must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	unpack := exec.CommandContext(t.Context(), "sh", "-c", `cd "$1" && gzip -dc "$2" | cpio -idm --quiet && mkdir -p tmp`, "sh", root, guest.Initrd)
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
	if _, err := callAgent[struct{}](ask, agentAnswerTimeout, "guest-no-such-thing", nil); !isCommandUnavailable(err) || errors.Is(err, errNoAgentAnswer) {
		t.Errorf("an unknown command: %v", err)
	}
}

// A malicious program may run instead of the guest agent; its answers are limited in size and time.
func TestGuestAgentAnswersAreBounded(t *testing.T) {
	t.Parallel()
	sync := func(in *bufio.Reader) string {
		line, _ := in.ReadString('\n')
		_, id, _ := strings.Cut(line, `"id":`)
		return strings.TrimRight(id, "}\n")
	}
	for name, c := range map[string]struct {
		says func(in *bufio.Reader, out io.Writer)
		want string // empty: no answer counts
	}{
		"an answer": {func(in *bufio.Reader, out io.Writer) {
			fmt.Fprintf(out, "\xff{\"return\": %s}\n", sync(in))
			_, _ = in.ReadString('\n')
			fmt.Fprint(out, `{"return": {"version": "7.2.0"}}`+"\n")
		}, "7.2.0"},
		"an answer after stale ones": {func(in *bufio.Reader, out io.Writer) {
			fmt.Fprintf(out, "{\"return\": {}}\n\xff{\"return\": 5}\n\xff{\"return\": %s}\n", sync(in))
			_, _ = in.ReadString('\n')
			fmt.Fprint(out, `{"return": {"version": "7.2.1"}}`+"\n")
		}, "7.2.1"},
		"no answer":     {func(in *bufio.Reader, _ io.Writer) { _, _ = io.Copy(io.Discard, in) }, ""},
		"disconnect":    {func(*bufio.Reader, io.Writer) {}, ""},
		"wrong sync ID": {func(in *bufio.Reader, out io.Writer) { sync(in); fmt.Fprint(out, "\xff{\"return\": 5}\n") }, ""},
		"endless answer": {func(in *bufio.Reader, out io.Writer) {
			fmt.Fprintf(out, "\xff{\"return\": %s}\n", sync(in))
			for range 4 << 10 {
				if _, err := fmt.Fprint(out, strings.Repeat("a", 1<<10)); err != nil {
					return
				}
			}
		}, ""},
		"endless output before sync": {func(_ *bufio.Reader, out io.Writer) {
			for {
				if _, err := fmt.Fprint(out, strings.Repeat("a", 1<<16)); err != nil {
					return
				}
			}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			here, there := net.Pipe()
			go func() {
				c.says(bufio.NewReader(there), there)
				there.Close()
			}()
			defer here.Close()
			var n guestRun
			err := n.queryAgent(func(command string, _ time.Duration) (string, error) {
				_ = here.SetDeadline(time.Now().Add(time.Second)) // the connection may have ended already
				return sendGuestCommand(here, command)
			})
			if c.want != "" && n.status.Version != c.want || c.want == "" && (!errors.Is(err, errNoAgentAnswer) || len(err.Error()) > 200) {
				t.Errorf("%+v, %.300v", n.status, err)
			}
		})
	}
}

// A command to a guest without an agent on its vsock fails within the time limit.
func TestVSOCKWithoutAgentTimesOut(t *testing.T) {
	t.Parallel()
	_, err := vsockAgentCaller(t.Context(), 4_000_000)(`{"execute":"guest-ping"}`, 200*time.Millisecond)
	if !errors.Is(err, errNoAgentAnswer) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := vsockAgentCaller(ctx, 4_000_000)(`{"execute":"guest-ping"}`, time.Hour); !errors.Is(err, errNoAgentAnswer) {
		t.Error(err)
	}
}
