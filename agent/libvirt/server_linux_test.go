package libvirt

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// A missing dnsmasq is reported only if libvirtd's processes are visible. Another process with its old ID is not
// mistaken for it.
func TestAMissingServerIsJudgedOnlyWhereItCanBeSeen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	socket := filepath.Join(dir, "libvirt-sock")
	if !serverRuns(socket, "lan") {
		t.Error("where nobody listens, the server is missed")
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if serverRuns(socket, "lan-of-nobody") {
		t.Error("a server that was never there runs")
	}
	if err := os.Mkdir(filepath.Join(dir, "network"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "network", "lan-of-nobody.pid"), []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if serverRuns(socket, "lan-of-nobody") {
		t.Error("a process that got the id of the one before is taken for it")
	}
}
