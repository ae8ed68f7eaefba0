package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"quantix/internal/fleet"
	"quantix/internal/lab"
)

// loginLimit is how long a whole Debian may take to its login, emulated on a busy machine.
const loginLimit = 4 * time.Minute

// serial is a guest's serial console with somebody before it.
type serial struct {
	t    *testing.T
	pty  *os.File
	said bytes.Buffer
}

func openSerial(t *testing.T, path string) *serial {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	set, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	set.Lflag &^= unix.ECHO | unix.ICANON | unix.ISIG
	set.Iflag &^= unix.ICRNL
	set.Oflag &^= unix.OPOST
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, set); err != nil {
		t.Fatal(err)
	}
	pty := os.NewFile(uintptr(fd), path)
	t.Cleanup(func() { pty.Close() })
	return &serial{t: t, pty: pty}
}

// expect reads until the guest has said it, and returns what it said up to there.
func (s *serial) expect(what string, limit time.Duration) string {
	s.t.Helper()
	form := regexp.MustCompile(what)
	if err := s.pty.SetReadDeadline(time.Now().Add(limit)); err != nil {
		s.t.Fatal(err)
	}
	buf := make([]byte, 4096)
	for {
		if at := form.FindIndex(s.said.Bytes()); at != nil {
			return string(s.said.Next(at[1]))
		}
		n, err := s.pty.Read(buf)
		s.said.Write(buf[:n])
		if err != nil {
			text := s.said.String()
			s.t.Fatalf("the guest does not say %q: %v; it said %q", what, err, text[max(0, len(text)-600):])
		}
	}
}

func (s *serial) say(line string) {
	s.t.Helper()
	if _, err := s.pty.WriteString(line + "\r"); err != nil {
		s.t.Fatal(err)
	}
}

// A person gives a VM from a cloud image a user, and signs in as it over the serial console.
func TestAGuestIsWhatItWasToldAtItsFirstBoot(t *testing.T) {
	t.Parallel()
	build, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	image, err := lab.CloudImage(build, lab.CacheDir())
	if err != nil {
		t.Fatal(err)
	}
	r := newBareRig(t, "cloudy", 23)
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
	host := a.host(t, r.name)
	pool := ask[fleet.PoolView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/pools", map[string]any{
		"name": "cloud", "hostIds": []fleet.HostID{host.ID}, "spec": map[string]any{"kind": "dir", "path": dir},
	})
	eventually(t, guestLimit, "the image in the pool", func() (bool, string) {
		got, err := a.send(t.Context(), http.MethodGet, "/api/v1/pools/"+string(pool.ID)+"/volumes", nil)
		return err == nil && strings.Contains(string(got.body), "cloud.qcow2"), fmt.Sprint(string(got.body), err)
	})
	project := ask[fleet.Project](t, a, http.StatusCreated, http.MethodPost, "/api/v1/projects", map[string]any{"name": "cloud"})
	const password = "correct-horse"
	vm := ask[fleet.VMView](t, a, http.StatusCreated, http.MethodPost, "/api/v1/vms", map[string]any{
		"name": "web-07", "projectId": project.ID, "hostId": host.ID, "start": true,
		"spec": map[string]any{
			"cpus": 1, "memoryMiB": 512,
			"disks": []map[string]any{{"poolId": pool.ID, "sizeBytes": 2 << 30, "image": map[string]any{"poolId": pool.ID, "volume": "cloud.qcow2"}}},
		},
		"firstBoot": map[string]any{"kind": "cloud-init", "variables": map[string]any{"color": "deep red"}, "cloudInit": map[string]any{
			"users": []map[string]any{{"name": "anna", "password": password, "sudo": true, "sshKeys": []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHKqsL5yCzDzZrGpFhO6mZQvVOSyCzDzZrGpFhO6mZQv anna@desk"}}},
			"files": []map[string]any{{"path": "/etc/color", "content": "{{var.color}} of {{vm.name}} {{vm.index}}\n", "mode": "0640"}},
			"run":   []string{"echo told-to-run > /etc/proof"},
		}},
	})
	a.waitPhase(t, guestLimit, vm.ID, fleet.PhaseRunning)
	out, err := r.host.Command(t.Context(), "virsh", "-q", "ttyconsole", string(vm.ID)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	console := openSerial(t, strings.TrimSpace(string(out)))
	console.expect(`web-07 login: `, loginLimit)
	console.say("anna")
	console.expect(`assword: `, loginLimit)
	console.say(password)
	console.expect(`\$ `, loginLimit)
	console.say("export PS1=; sudo cat /etc/color /etc/proof; sudo grep -c anna@desk .ssh/authorized_keys; stat -c %a /etc/color; echo e''nd")
	got := console.expect(`end\r?\n`, loginLimit)
	for _, want := range []string{"deep red of web-07 7", "told-to-run", "\n1\r", "640"} {
		if !strings.Contains(got, want) {
			t.Errorf("the guest lacks %q: %q", want, got)
		}
	}
	if text, err := r.host.Command(t.Context(), "virsh", "dumpxml", string(vm.ID)).Output(); err != nil || strings.Contains(string(text), "anna") || strings.Contains(string(text), "$6$") {
		t.Errorf("the definition tells what the guest is told: %v", err)
	}
	if log, err := os.ReadFile(filepath.Join(r.dir, "agent.log")); err != nil && !errors.Is(err, os.ErrNotExist) || strings.Contains(string(log), "$6$") {
		t.Errorf("the agent's log tells it: %v", err)
	}
}
