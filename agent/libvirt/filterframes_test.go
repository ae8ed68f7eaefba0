//go:build linux && ordeal

package libvirt_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/secgroup"
)

// Any guest accepts a frame tagged with VLAN ID 0, but iptables does not see the packet in the frame. Such frames must
// not bypass a security group.
func TestVLANTaggedFramesDoNotBypassSecurityGroup(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a, b := runTwoGuests(f)
	waitFor(t, "the guest has VLAN support", func() bool {
		return strings.Contains(a.runCommand("ip link add link eth0 name tagged type vlan id 0 && ip link set tagged up && echo made"), "made")
	})
	a.runCommand(fmt.Sprintf("ip route replace %s/32 dev tagged src %s; arp -i tagged -s %[1]s %[3]s", b.ip, a.ip, b.mac))
	// arrive returns how many of three packets to closed ports the other guest receives.
	arrive := func() int {
		count := func() int {
			n, err := strconv.Atoi(strings.TrimSpace(b.runCommand(`awk '/^Udp: [0-9]/ {print $3}' /proc/net/snmp`)))
			f.requireNoError(err)
			return n
		}
		before := count()
		a.runCommand("traceroute -n -m 1 -q 3 -w 1 " + b.ip)
		return count() - before
	}
	waitFor(t, "a tagged packet arrives", func() bool { return arrive() > 0 })
	closed := secgroup.FlatGroup{ID: fleet.NewID[fleet.SecurityGroupID](), Name: "closed", Revision: 1, Rules: []secgroup.FlatRule{newFlatRule("00000000000e", secgroup.Egress, secgroup.AnyProtocol, 0)}}
	b.setFilters(false, closed)
	if n := arrive(); n != 0 {
		t.Errorf("%d tagged packets bypassed a group that accepts nothing", n)
	}
	a.runCommand("ip link delete tagged")
	b.waitReachable(a, 80, true) // accepted traffic still passes
	b.setFilters(false)
	waitFor(t, "without a group packets arrive again", func() bool { return arrive() > 0 })
	f.requireNoError(f.ReleaseSecurityGroup(t.Context(), closed))
}

// A guest with anti-spoofing cannot act as a DHCP server.
func TestAntiSpoofingBlocksDHCPServerInGuest(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a, b := runTwoGuests(f)
	net := a.ip[:strings.LastIndex(a.ip, ".")+1]
	a.runCommand(fmt.Sprintf("printf 'interface eth0\\nstart %[1]s200\\nend %[1]s210\\nlease_file /tmp/leases\\n' >/tmp/udhcpd.conf; touch /tmp/leases; udhcpd /tmp/udhcpd.conf", net))
	// The network's own DHCP server answers only known MAC addresses.
	b.runCommand("ip link set eth0 down; ip link set eth0 address 52:54:00:66:66:67; ip link set eth0 up")
	gets := func() bool {
		return strings.Contains(b.runCommand("timeout 20 udhcpc -f -n -q -t 5 -T 1 -i eth0 -s /bin/true >/dev/null 2>&1 && echo le''ased"), "leased")
	}
	waitFor(t, "a guest without anti-spoofing acts as a DHCP server", gets)
	a.setFilters(true)
	a.runCommand("ping -c 3 -W 1 " + net + "1") // libvirt learns the NIC's address
	refused := 0
	waitFor(t, "the guest with anti-spoofing hands out no address", func() bool {
		if refused++; gets() {
			refused = 0
		}
		return refused == 2
	})
	a.setFilters(false)
	waitFor(t, "the guest acts as a DHCP server again", gets)
}
