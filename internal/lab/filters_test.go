//go:build linux && ordeal

package lab_test

import (
	"os/exec"
	"strings"
	"testing"
)

// A guest that ends together with its libvirtd leaves the chains of its network filter. They would drop the packets of
// the next guest with the same NIC name. Stop must remove these chains, and keep the chains of existing NICs.
func TestLabStopRemovesNetworkFiltersOfDeletedNICs(t *testing.T) {
	t.Parallel()
	h := startHost(t, "filtered")
	const missing, existing = "vnet64001", "vnet64002"
	do := func(command ...string) {
		t.Helper()
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v: %s", command, err, out)
		}
	}
	hasRules := func(nic string) bool {
		packets, _ := exec.Command("iptables-save").Output()
		frames, _ := exec.Command("ebtables-save").Output()
		return strings.Contains(string(packets)+string(frames), nic)
	}
	do("ip", "link", "add", existing, "type", "bridge")
	do("ip", "link", "add", missing, "type", "bridge")
	t.Cleanup(func() {
		for _, command := range []string{
			"iptables -w -F FI-" + existing, "iptables -w -X FI-" + existing, "ebtables -t nat -F libvirt-I-" + existing, "ebtables -t nat -X libvirt-I-" + existing, "ip link delete " + existing,
		} {
			do(strings.Fields(command)...)
		}
	})
	for _, nic := range []string{existing, missing} {
		do("iptables", "-w", "-N", "FI-"+nic)
		do("iptables", "-w", "-A", "FI-"+nic, "-p", "udp", "--dport", "67", "-m", "comment", "--comment", "of one", "-j", "RETURN")
		do("iptables", "-w", "-A", "FI-"+nic, "-j", "DROP")
		do("ebtables", "-t", "nat", "-N", "libvirt-I-"+nic)
		do("ebtables", "-t", "nat", "-A", "libvirt-I-"+nic, "-j", "DROP")
	}
	do("iptables", "-w", "-A", "FORWARD", "-m", "physdev", "--physdev-is-bridged", "--physdev-in", missing, "-g", "FI-"+missing)
	do("iptables", "-w", "-A", "LIBVIRT_FWI", "-m", "physdev", "--physdev-in", missing, "-j", "ACCEPT")
	do("ebtables", "-t", "nat", "-A", "PREROUTING", "-i", missing, "-j", "libvirt-I-"+missing)
	do("ip", "link", "delete", missing)
	if err := h.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if hasRules(missing) || !hasRules(existing) {
		t.Errorf("rules left of the missing NIC: %t; of the existing NIC: %t", hasRules(missing), hasRules(existing))
	}
}
