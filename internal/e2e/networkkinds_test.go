//go:build linux && ordeal

package e2e

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/lab"
)

// runSwitch is a script that starts an Open vSwitch instance inside the host's namespaces. The instance ends with them.
// It uses the userspace datapath, which needs no kernel module.
const runSwitch = `set -e
cd /run/openvswitch
ovsdb-tool create conf.db /usr/share/openvswitch/vswitch.ovsschema
ovsdb-server conf.db --remote=punix:/run/openvswitch/db.sock --pidfile=/run/openvswitch/ovsdb-server.pid --unixctl=/run/openvswitch/db.ctl --log-file=/run/openvswitch/db.log --detach --no-chdir
ovs-vsctl --timeout=20 --no-wait init
ovs-vswitchd unix:/run/openvswitch/db.sock --pidfile=/run/openvswitch/ovs-vswitchd.pid --unixctl=/run/openvswitch/sw.ctl --log-file=/run/openvswitch/sw.log --detach --no-chdir
ovs-vsctl --timeout=20 add-br ovs0 -- set bridge ovs0 datapath_type=netdev
ovs-vsctl --timeout=20 add-port ovs0 eth1
`

func (s *switchedLab) runInHost(t *testing.T, i int, command string) string {
	t.Helper()
	return s.runInNamespaces(t, i, []string{"--mount", "--net", "--pid", "--uts"}, "sh", "-c", command)
}

// TestNetworkModesConnectAndIsolateGuests checks Open vSwitch and macvtap networks, on one host and between two hosts.
// VLANs, trunks and private mode must separate guests. IPv6, DHCP reservations and DNS names must work.
func TestNetworkModesConnectAndIsolateGuests(t *testing.T) {
	t.Parallel()
	files, err := lab.GuestImage(t.Context(), lab.CacheDir())
	if err != nil {
		t.Fatal(err)
	}
	s := newSwitchedLab(t, "kinds")
	group := func(name string, vlan map[string]any) map[string]any {
		return map[string]any{"name": name, "vlan": vlan}
	}
	s.defineNetwork(t, "switched", map[string]any{"mode": "ovs", "bridge": "ovs0", "portGroups": []any{
		group("red", map[string]any{"id": 10}), group("blue", map[string]any{"id": 20}), group("trunk", map[string]any{"trunk": []int{10, 20}}),
	}}, 0, 1)
	s.waitNetwork(t, "switched", "hosts without Open vSwitch report it", func(h fleet.NetworkHost) bool {
		return h.State == fleet.NetworkFailed && strings.Contains(h.Status.Error, "ovs-vsctl")
	})
	for i := range s.hosts {
		s.runInHost(t, i, runSwitch)
		requestJSON[any](t, s.api, http.StatusAccepted, http.MethodPost, s.networkPath("switched")+"/hosts/"+string(s.hosts[i].ID)+"/retry", nil)
	}
	s.waitNetwork(t, "switched", "it is up", isNetworkUp)
	s.defineNetwork(t, "straight", map[string]any{"mode": "macvtap", "device": "eth0"}, 0, 1)
	s.defineNetwork(t, "shy", map[string]any{"mode": "macvtap", "device": "eth0", "direct": "private"}, 0)
	const nine = "52:54:00:00:00:09"
	s.defineNetwork(t, "six", map[string]any{
		"mode": "nat", "dns": true, "domain": "lab.example.org", "ipv6": map[string]any{"gateway": "fd00:90::1/64"},
		"ipv4": map[string]any{"gateway": "10.90.0.1/24", "dhcp": map[string]any{
			"ranges": []any{map[string]any{"start": "10.90.0.100", "end": "10.90.0.150"}}, "leases": []any{map[string]any{"mac": nine, "ip": "10.90.0.9", "name": "nine"}},
		}},
	}, 0)
	s.defineNetwork(t, "six-alone", map[string]any{"mode": "isolated", "dns": true, "ipv6": map[string]any{"gateway": "fd00:91::1/64"}}, 0)
	for _, name := range []string{"straight", "shy", "six", "six-alone"} {
		s.waitNetwork(t, name, "it is up", isNetworkUp)
	}
	// macvtap devices in /dev are named by interface index, and both hosts use the /dev of this machine. So the second
	// host skips the indexes that the first host uses.
	s.runInNetwork(t, 1, "sh", "-c", "i=0; while [ $i -lt 200 ]; do ip link add qx-burn type bridge && ip link delete qx-burn; i=$((i+1)); done")

	a := s.bootGuest(t, files, 0, "a", "switched/red", "switched/trunk", "straight", "six@"+nine, "six-alone", "shy")
	b := s.bootGuest(t, files, 0, "b", "switched/red", "switched/blue", "straight", "six", "six-alone", "shy")
	c := s.bootGuest(t, files, 1, "c", "switched/red", "switched/blue", "straight")
	third := strings.TrimSuffix(s.portal, "1")
	for i, g := range []*netGuest{a, b, c} {
		g.waitReady(fmt.Sprintf("10.80.0.%d/24", i+1), fmt.Sprintf("10.81.0.%d/24", i+1), fmt.Sprintf("%s%d/24", third, 201+i))
		g.runCommand("echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore") // so that each NIC answers ARP only for its own addresses
	}

	a.checkReaches("Open vSwitch, one VLAN, one host", "10.80.0.2")
	a.checkReaches("Open vSwitch, one VLAN, across", "10.80.0.3")
	b.checkReaches("Open vSwitch, the other VLAN, across", "10.81.0.3")
	for _, g := range []*netGuest{b, c} {
		g.runCommand("ip addr add 10.80.0.77/24 dev eth1")
		if n := a.countPingReplies("10.80.0.77"); n != 0 {
			t.Errorf("a NIC in VLAN 10 reaches a NIC of %s in VLAN 20: %d answers", g.name, n)
		}
		g.runCommand("ip addr del 10.80.0.77/24 dev eth1")
	}
	eventually(t, guestLimit, "the guest knows VLANs", func() (bool, string) {
		out := a.runCommand("ip link add link eth1 name v10 type vlan id 10 && echo ma''de")
		return strings.Contains(out, "made"), out
	})
	a.runCommand("ip link add link eth1 name v20 type vlan id 20; ip link add link eth1 name v30 type vlan id 30; for v in 10 20 30; do ip link set v$v up; ip addr add 10.8$((v/10+1)).9.1/24 dev v$v; done")
	b.runCommand("ip addr add 10.82.9.2/24 dev eth0; ip addr add 10.83.9.2/24 dev eth1; ip addr add 10.84.9.2/24 dev eth1; ip addr add 10.84.9.3/24 dev eth0")
	c.runCommand("ip addr add 10.83.9.3/24 dev eth1")
	a.checkReaches("Open vSwitch, a trunk's first VLAN", "10.82.9.2")
	a.checkReaches("Open vSwitch, a trunk's second VLAN", "10.83.9.2")
	a.checkReaches("Open vSwitch, a trunk's second VLAN, across", "10.83.9.3")
	if n := a.countPingReplies("10.84.9.2") + a.countPingReplies("10.84.9.3"); n != 0 {
		t.Errorf("a trunk of the VLANs 10 and 20 carries 30: %d answers", n)
	}

	a.checkReaches("macvtap, one host", third+"202")
	a.checkReaches("macvtap, across", third+"203")
	a.checkReaches("macvtap, outside", s.portal)
	for i, g := range []*netGuest{a, b} {
		g.runCommand(fmt.Sprintf("ip addr flush dev eth2; ip addr add %s%d/24 dev eth5", third, 211+i))
	}
	a.checkReaches("macvtap, private, across", third+"203")
	a.checkReaches("macvtap, private, outside", s.portal)
	if n := a.countPingReplies(third + "212"); n != 0 {
		t.Errorf("guests of one host reach each other in private mode: %d answers", n)
	}
	own := regexp.MustCompile(`inet (\S+)/24`).FindStringSubmatch(s.runInNetwork(t, 0, "ip", "-4", "addr", "show", "dev", "eth0"))
	if own == nil || a.countPingReplies(own[1]) != 0 {
		t.Errorf("a guest on a macvtap device reaches its own host: %v", own)
	}

	for _, nic := range []struct {
		g         *netGuest
		dev, what string
		prefix    string
	}{{a, "eth3", "NAT", "fd00:90::"}, {b, "eth3", "NAT", "fd00:90::"}, {a, "eth4", "isolated", "fd00:91::"}, {b, "eth4", "isolated", "fd00:91::"}} {
		eventually(t, guestLimit, nic.g.name+" has an IPv6 address in the network with "+nic.what, func() (bool, string) {
			out := nic.g.runCommand("ip -6 addr show dev " + nic.dev + " scope global")
			// After a NIC is set up, the kernel sends only three router solicitations. On a busy machine, the router may not be
			// ready for any of the three, so set the NIC down and up again.
			if !strings.Contains(out, nic.prefix[:8]) {
				nic.g.runCommand("ip link set " + nic.dev + " down; ip link set " + nic.dev + " up; sleep 5")
				return false, out
			}
			return true, ""
		})
		eventually(t, guestLimit, nic.g.name+" reaches its gateway by IPv6", func() (bool, string) {
			out := nic.g.runCommand("ping -q -c 3 -W 2 " + nic.prefix + "1")
			return strings.Contains(out, "3 packets received"), out
		})
	}
	b.runCommand("udhcpc -q -f -n -t 20 -T 1 -i eth3 -s /etc/udhcpc")
	a.runCommand("udhcpc -q -f -n -t 20 -T 1 -i eth3 -s /etc/udhcpc")
	eventually(t, guestLimit, "the name of a static lease is answered", func() (bool, string) {
		out := b.runCommand("nslookup nine.lab.example.org 10.90.0.1; nslookup nine 10.90.0.1")
		return strings.Count(out, "10.90.0.9") >= 2, out
	})
	b.checkReaches("NAT, by the reserved address", "10.90.0.9")
}
