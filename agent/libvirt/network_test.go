//go:build linux

package libvirt_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// leaseIn is an address of the network that no lease has.
func leaseIn(t *testing.T, name string) string {
	t.Helper()
	_, rest, _ := strings.Cut(virsh(t, "net-dumpxml", name, "--inactive"), "<ip address='")
	gateway, _, _ := strings.Cut(rest, "'")
	return strings.TrimSuffix(gateway, ".1") + ".77"
}

func serverPID(t *testing.T, name string) int {
	t.Helper()
	text, err := os.ReadFile("/run/libvirt/network/" + name + ".pid")
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func endServer(t *testing.T, name string) {
	t.Helper()
	pid := serverPID(t, name)
	signal(t, pid, syscall.SIGKILL)
	waitFor(t, "dnsmasq has ended", func() bool {
		line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		return err != nil || len(line) == 0
	})
}

func foreignNetwork(t *testing.T, name string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "network.xml")
	if err := os.WriteFile(file, []byte("<network><name>"+name+"</name></network>"), 0o600); err != nil {
		t.Fatal(err)
	}
	virsh(t, "net-define", file)
	t.Cleanup(func() { virsh(t, "net-undefine", name) })
	virsh(t, "net-start", name)
	t.Cleanup(func() { virsh(t, "net-destroy", name) })
}
