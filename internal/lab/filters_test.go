//go:build linux && ordeal

package lab_test

import (
	"os/exec"
	"strings"
	"testing"
)

// A guest that ends with its libvirtd leaves the chains of its network filter, and the next one that gets its card's name would lose its packets there.
// Those of a card that is there are somebody's.
func TestStopSweepsFiltersOfCardsThatAreGone(t *testing.T) {
	t.Parallel()
	h := startHost(t, "filtered")
	const gone, there = "vnet64001", "vnet64002"
	do := func(command ...string) {
		t.Helper()
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v: %s", command, err, out)
		}
	}
	left := func(card string) bool {
		packets, _ := exec.Command("iptables-save").Output()
		frames, _ := exec.Command("ebtables-save").Output()
		return strings.Contains(string(packets)+string(frames), card)
	}
	do("ip", "link", "add", there, "type", "bridge")
	do("ip", "link", "add", gone, "type", "bridge")
	t.Cleanup(func() {
		for _, command := range []string{
			"iptables -w -F FI-" + there, "iptables -w -X FI-" + there, "ebtables -t nat -F libvirt-I-" + there, "ebtables -t nat -X libvirt-I-" + there, "ip link delete " + there,
		} {
			do(strings.Fields(command)...)
		}
	})
	for _, card := range []string{there, gone} {
		do("iptables", "-w", "-N", "FI-"+card)
		do("iptables", "-w", "-A", "FI-"+card, "-p", "udp", "--dport", "67", "-m", "comment", "--comment", "of one", "-j", "RETURN")
		do("iptables", "-w", "-A", "FI-"+card, "-j", "DROP")
		do("ebtables", "-t", "nat", "-N", "libvirt-I-"+card)
		do("ebtables", "-t", "nat", "-A", "libvirt-I-"+card, "-j", "DROP")
	}
	do("iptables", "-w", "-A", "FORWARD", "-m", "physdev", "--physdev-is-bridged", "--physdev-in", gone, "-g", "FI-"+gone)
	do("iptables", "-w", "-A", "LIBVIRT_FWI", "-m", "physdev", "--physdev-in", gone, "-j", "ACCEPT")
	do("ebtables", "-t", "nat", "-A", "PREROUTING", "-i", gone, "-j", "libvirt-I-"+gone)
	do("ip", "link", "delete", gone)
	if err := h.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left(gone) || !left(there) {
		t.Errorf("of a card that is gone something is left: %t; of one that is there: %t", left(gone), left(there))
	}
}
