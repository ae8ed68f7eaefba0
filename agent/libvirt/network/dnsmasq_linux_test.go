package network

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// A missing dnsmasq is reported only if libvirtd's processes are visible. Another process with the process ID of the
// former dnsmasq does not count as dnsmasq.
func TestMissingDnsmasqReportedOnlyIfProcessesVisible(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	socket := filepath.Join(dir, "libvirt-sock")
	if !isDnsmasqRunning(socket, "lan") {
		t.Error("dnsmasq is reported missing although libvirtd is not visible")
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if isDnsmasqRunning(socket, "lan-of-nobody") {
		t.Error("a dnsmasq that never ran counts as running")
	}
	if err := os.Mkdir(filepath.Join(dir, "network"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "network", "lan-of-nobody.pid"), []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if isDnsmasqRunning(socket, "lan-of-nobody") {
		t.Error("another process with the recorded ID counts as dnsmasq")
	}
}
