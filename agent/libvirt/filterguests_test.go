//go:build linux && ordeal

package libvirt_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/lab"
	"quantix/internal/secgroup"
)

// guestPeer is a running Linux guest with one NIC.
type guestPeer struct {
	fixture fixture
	vm      *fleet.VM
	ip      string
	mac     string
}

// runCommand runs a command in the guest and returns its standard output.
func (p guestPeer) runCommand(command string) string {
	p.fixture.t.Helper()
	ask := func(execute string, args map[string]any) string {
		text, err := json.Marshal(map[string]any{"execute": execute, "arguments": args})
		p.fixture.requireNoError(err)
		return virsh(p.fixture.t, "qemu-agent-command", string(p.vm.ID), string(text), "--timeout", "60")
	}
	var began struct {
		Return struct{ PID int }
	}
	p.fixture.requireNoError(json.Unmarshal([]byte(ask("guest-exec", map[string]any{"path": "/bin/sh", "arg": []string{"-c", command}, "capture-output": true})), &began))
	var out string
	waitFor(p.fixture.t, "the guest has done "+command, func() bool {
		var answer struct {
			Return struct {
				Exited bool
				Out    string `json:"out-data"`
			}
		}
		p.fixture.requireNoError(json.Unmarshal([]byte(ask("guest-exec-status", map[string]any{"pid": began.Return.PID})), &answer))
		text, err := base64.StdEncoding.DecodeString(answer.Return.Out)
		p.fixture.requireNoError(err)
		out = string(text)
		return answer.Return.Exited
	})
	return out
}

// canReach reports whether the guest gets an answer from the other guest on the port. The command has a timeout,
// because a dropped connection never ends.
func (p guestPeer) canReach(other guestPeer, port int) bool {
	p.fixture.t.Helper()
	return strings.Contains(p.runCommand(fmt.Sprintf("timeout 5 nc -w 2 %s %d </dev/null", other.ip, port)), "served")
}

// waitReachable waits for the expected result: filters take effect a moment after libvirt's call returns, because
// libvirt first learns the guest's address.
func (p guestPeer) waitReachable(other guestPeer, port int, want bool) {
	p.fixture.t.Helper()
	waitFor(p.fixture.t, fmt.Sprintf("port %d of %s is reached: %v", port, other.ip, want), func() bool { return p.canReach(other, port) == want })
}

// setFilters sets anti-spoofing and the security groups of the running guest's NIC.
func (p guestPeer) setFilters(antiSpoofing bool, groups ...secgroup.FlatGroup) {
	p.fixture.t.Helper()
	p.vm.Generation++
	n := &p.vm.Spec.NICs[0]
	n.AntiSpoofing, n.SecurityGroups = &antiSpoofing, nil
	for _, g := range groups {
		n.SecurityGroups = append(n.SecurityGroups, g.ID)
	}
	*n = n.WithNormalizedFilter()
	in := applyJob(*p.vm, p.fixture.pool)
	in.Groups = groups
	p.fixture.requireNoError(p.fixture.ApplyVM(p.fixture.t.Context(), in))
}

// packetCounts returns the packet counts of the guest's NIC: by rule ID, and of dropped packets.
func (p guestPeer) packetCounts() (rules map[string]secgroup.PassCount, dropped secgroup.PassCount) {
	p.fixture.t.Helper()
	all, err := p.fixture.FilterCounts(p.fixture.t.Context())
	p.fixture.requireNoError(err)
	rules = map[string]secgroup.PassCount{}
	for _, c := range all {
		if c.VM != p.vm.ID || c.MAC != p.mac {
			continue
		}
		for _, chain := range c.Chains {
			for rule, n := range chain {
				rules[rule] = rules[rule].Plus(n)
			}
		}
	}
	return rules, rules[hypervisor.DroppedKey]
}

// runTwoGuests runs two guests on their own network, each with a server on ports 80 and 81.
func runTwoGuests(f fixture) (a, b guestPeer) {
	t := f.t
	guest, err := lab.GuestImage(t.Context(), lab.CacheDir())
	f.requireNoError(err)
	run(t, "cp", guest.ISO, filepath.Join(f.pool.Spec.Path, "guest.iso"))
	id := fleet.NewID[fleet.NetworkID]()
	// The subnet is random, because other tests run at the same time and killed tests leave networks behind.
	second, third := 192+rand.IntN(16), rand.IntN(256)
	network := fleet.Network{ID: id, Name: "filters-" + string(id)[28:], Generation: 1, Kind: fleet.NetworkLibvirt, Spec: &fleet.NetworkSpec{
		Mode: fleet.NetworkIsolated, IPv4: &fleet.Subnet{Gateway: fmt.Sprintf("10.%d.%d.1/24", second, third), DHCP: &fleet.DHCP{}},
	}}
	peers := make([]guestPeer, 2)
	for i := range peers {
		vm := f.newVM()
		p := guestPeer{fixture: f, vm: &vm, ip: fmt.Sprintf("10.%d.%d.%d", second, third, 11+i), mac: fmt.Sprintf("52:54:00:%02x:%02x:%02x", second, third, i)}
		network.Spec.IPv4.DHCP.Leases = append(network.Spec.IPv4.DHCP.Leases, fleet.StaticLease{MAC: p.mac, IP: p.ip})
		vm.Spec.ISO = &fleet.Volref{PoolID: f.pool.ID, Volume: "guest.iso"}
		vm.Spec.NICs = []fleet.NIC{{Network: network.Name, MAC: p.mac}}
		peers[i] = p
	}
	f.requireNoError(f.ApplyNetwork(t.Context(), network))
	t.Cleanup(func() {
		ctx, cancel := cleanupContext()
		defer cancel()
		for _, p := range peers {
			if err := f.DeleteVM(ctx, *p.vm, []fleet.Pool{f.pool}, true); err != nil {
				t.Error(err)
			}
		}
		if err := f.ReleaseNetwork(ctx, network); err != nil {
			t.Error(err)
		}
	})
	for _, p := range peers {
		p.fixture.apply(*p.vm)
		f.requireNoError(f.StartVM(t.Context(), p.vm.ID))
	}
	for _, p := range peers {
		waitFor(t, "the guest has its address", func() bool {
			out, _ := tryVirsh("qemu-agent-command", string(p.vm.ID), `{"execute":"guest-network-get-interfaces"}`)
			return strings.Contains(out, p.ip+`"`)
		})
		for _, port := range []int{80, 81} {
			p.runCommand(fmt.Sprintf("(while :; do nc -l -p %d -e echo served; done) >/dev/null 2>&1 &", port))
		}
	}
	return peers[0], peers[1]
}

func newFlatRule(id string, way secgroup.Direction, protocol secgroup.Protocol, port int, remotes ...string) secgroup.FlatRule {
	return secgroup.FlatRule{ID: id, Direction: way, Protocol: protocol, FromPort: port, ToPort: port, Anybody: remotes == nil, Remotes: parsePrefixes(remotes...)}
}

// A security group blocks a port between two running guests, and a rule opens it again. Other traffic is not
// interrupted.
func TestSecurityGroupBlocksPortBetweenRunningGuests(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx := t.Context()
	a, b := runTwoGuests(f)
	a.waitReachable(b, 80, true)
	a.waitReachable(b, 81, true)

	web := secgroup.FlatGroup{ID: fleet.NewID[fleet.SecurityGroupID](), Name: "web", Revision: 1, Rules: []secgroup.FlatRule{newFlatRule("00000000000e", secgroup.Egress, secgroup.AnyProtocol, 0)}}
	b.setFilters(false, web)
	began := time.Now()
	a.waitReachable(b, 80, false)
	a.waitReachable(b, 81, false)
	b.waitReachable(a, 80, true) // connections from the guest pass, with their answers

	web.Rules = append(web.Rules, newFlatRule("00000000000a", secgroup.Ingress, secgroup.TCP, 80, a.ip+"/32"))
	f.requireNoError(f.ApplySecurityGroup(ctx, web))
	a.waitReachable(b, 80, true) // the guest's server listens again a moment after each connection
	if a.canReach(b, 81) {
		t.Fatal("a rule for port 80 accepts another port")
	}
	t.Logf("blocked and opened again within %s", time.Since(began))

	// An accepted packet counts for its rule, and any other packet as dropped. Packets of other NICs do not count.
	waitFor(t, "the rule for port 80 has accepted packets, and others were dropped", func() bool {
		rules, dropped := b.packetCounts()
		return rules["00000000000a"].Packets >= 5 && rules["00000000000a"].Bytes > 200 && rules["00000000000e"].Packets == 0 && dropped.Packets > 0
	})
	// Dropped packets are retransmitted for a while and counted again.
	waitFor(t, "another connection is counted with its own rule only", func() bool {
		was, droppedBefore := b.packetCounts()
		if !a.canReach(b, 80) {
			return false
		}
		rules, dropped := b.packetCounts()
		return rules["00000000000a"].Packets >= was["00000000000a"].Packets+5 && rules["00000000000e"] == was["00000000000e"] && dropped == droppedBefore
	})
	b.waitReachable(a, 80, true)
	waitFor(t, "outgoing connections are counted with the egress rule", func() bool {
		rules, _ := b.packetCounts()
		return rules["00000000000e"].Packets >= 5
	})

	// The member with the accepted address is removed from the group.
	web.Rules[1].Remotes = nil
	f.requireNoError(f.ApplySecurityGroup(ctx, web))
	if a.canReach(b, 80) {
		t.Fatal("the address of a removed member is accepted")
	}

	// Members of a group that refers to itself reach one another and nobody else.
	self := secgroup.FlatGroup{ID: fleet.NewID[fleet.SecurityGroupID](), Name: "self", Revision: 1, Rules: []secgroup.FlatRule{
		newFlatRule("00000000000b", secgroup.Ingress, secgroup.AnyProtocol, 0, a.ip+"/32", b.ip+"/32"), newFlatRule("00000000000c", secgroup.Egress, secgroup.AnyProtocol, 0, a.ip+"/32", b.ip+"/32"),
	}}
	a.setFilters(false, self)
	b.setFilters(false, self)
	if !a.canReach(b, 80) || !b.canReach(a, 81) {
		t.Error("members of a group that refers to itself do not reach one another")
	}
	if err := f.ReleaseSecurityGroup(ctx, self); err == nil || !strings.Contains(err.Error(), "is used by a NIC") {
		t.Errorf("a group in use was removed: %v", err)
	}
	s, _, err := f.VM(ctx, b.vm.ID)
	if f.requireNoError(err); s.NICs[0].Filter != hypervisor.FilterName(b.vm.ID, b.mac) || len(s.NextBoot) != 0 || len(s.Drift) != 0 {
		t.Errorf("the status is: %+v", s)
	}
	a.setFilters(false)
	b.setFilters(false)
	a.waitReachable(b, 81, true)
	for _, g := range []secgroup.FlatGroup{self, web} {
		f.requireNoError(f.ReleaseSecurityGroup(ctx, g))
	}
	if left := virsh(t, "nwfilter-list"); strings.Contains(left, string(a.vm.ID)) || strings.Contains(left, string(b.vm.ID)) || strings.Contains(left, string(web.ID)) {
		t.Errorf("filters are left over:\n%s", left)
	}
}

// A guest with anti-spoofing can use neither another MAC address nor another IP address.
func TestAntiSpoofingDropsForgedAddresses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a, b := runTwoGuests(f)
	a.waitReachable(b, 80, true)
	made := a.ip[:strings.LastIndex(a.ip, ".")] + ".77"
	as := func(address string) bool {
		a.runCommand(fmt.Sprintf("ip route replace %s/32 dev eth0 src %s", b.ip, address))
		return a.canReach(b, 80)
	}
	if a.runCommand("ip address add " + made + "/24 dev eth0"); !as(made) {
		t.Fatal("without anti-spoofing the guest cannot use another address, so the test proves nothing")
	}
	as(a.ip)
	a.setFilters(true)
	a.waitReachable(b, 80, true)
	// libvirt accepts all addresses until it has learnt the guest's address from its first packet.
	waitFor(t, "another IP address is dropped", func() bool { return !as(made) })
	waitFor(t, "the guest's own address passes", func() bool { return as(a.ip) })
	a.runCommand("ip link set eth0 down; ip link set eth0 address 52:54:00:66:66:66; ip link set eth0 up")
	if as(a.ip) {
		t.Error("the guest used another MAC address")
	}
	a.runCommand("ip link set eth0 down; ip link set eth0 address " + a.mac + "; ip link set eth0 up")
	waitFor(t, "the guest's own MAC address passes", func() bool { return as(a.ip) })
	waitFor(t, "the forged packets are counted", func() bool {
		rules, _ := a.packetCounts()
		return rules[hypervisor.SpoofedKey].Packets > 0
	})
	a.setFilters(false)
	waitFor(t, "a NIC without anti-spoofing may use any address", func() bool { return as(made) })
}
