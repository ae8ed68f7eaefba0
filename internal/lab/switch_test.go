//go:build linux && ordeal

package lab_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantix/internal/lab"
)

// A host on a switch has its own network namespace and NAT network. After its end, nothing remains on the machine.
func TestHostOnSwitchHasOwnNetworkNamespace(t *testing.T) {
	t.Parallel()
	s, err := lab.NewSwitch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/var/tmp", "qxsw")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	h, err := lab.StartHost(t.Context(), lab.Options{Dir: filepath.Join(dir, "h"), Name: "switched", Switch: s, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	inside := func(args ...string) string {
		t.Helper()
		out, err := h.Command(t.Context(), args[0], args[1:]...).CombinedOutput()
		if err != nil {
			t.Errorf("%v: %v: %s", args, err, out)
		}
		return string(out)
	}
	devices := inside("ls", "/sys/class/net")
	for _, want := range []string{"eth0", "eth1", "lo", "qxlab"} {
		if !strings.Contains(devices, want) {
			t.Errorf("the host lacks %s: %s", want, devices)
		}
	}
	if strings.Contains(devices, "qxsw") {
		t.Errorf("the host sees the machine's devices: %s", devices)
	}
	if routes := inside("ip", "route"); !strings.Contains(routes, "default via "+s.Address()+" dev eth0") || !strings.Contains(routes, "src "+h.Address()) {
		t.Errorf("its routes are %s", routes)
	}
	if got := virsh(t, h, "net-list", "--name"); got != "default" {
		t.Errorf("active networks = %q, want default", got)
	}
	inside("bash", "-c", "exec 3<>/dev/udp/"+s.Address()+"/9 && echo >&3")
	if err := h.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	number := strings.Split(s.Address(), ".")[2]
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat("/sys/class/net/qxsw" + number); err == nil {
		t.Error("the switch is still there")
	}
}
