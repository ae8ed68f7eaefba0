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
)

// peer is a running Linux guest with one NIC.
type peer struct {
	f   fixture
	vm  *fleet.VM
	ip  string
	mac string
}

// runCommand runs a command in the guest and returns its standard output.
func (p peer) runCommand(command string) string {
	p.f.t.Helper()
	ask := func(execute string, args map[string]any) string {
		text, err := json.Marshal(map[string]any{"execute": execute, "arguments": args})
		p.f.ok(err)
		return virsh(p.f.t, "qemu-agent-command", string(p.vm.ID), string(text), "--timeout", "60")
	}
	var began struct {
		Return struct{ PID int }
	}
	p.f.ok(json.Unmarshal([]byte(ask("guest-exec", map[string]any{"path": "/bin/sh", "arg": []string{"-c", command}, "capture-output": true})), &began))
	var out string
	waitFor(p.f.t, "the guest has done "+command, func() bool {
		var answer struct {
			Return struct {
				Exited bool
				Out    string `json:"out-data"`
			}
		}
		p.f.ok(json.Unmarshal([]byte(ask("guest-exec-status", map[string]any{"pid": began.Return.PID})), &answer))
		text, err := base64.StdEncoding.DecodeString(answer.Return.Out)
		p.f.ok(err)
		out = string(text)
		return answer.Return.Exited
	})
	return out
}

// reaches reports whether the guest gets an answer from the other guest on the port. The command has a timeout, because
// a dropped connection never ends.
func (p peer) reaches(other peer, port int) bool {
	p.f.t.Helper()
	return strings.Contains(p.runCommand(fmt.Sprintf("timeout 5 nc -w 2 %s %d </dev/null", other.ip, port)), "served")
}

// eventually waits for the expected result: filters take effect a moment after libvirt's call returns, because libvirt
// first learns the guest's address.
func (p peer) eventually(other peer, port int, want bool) {
	p.f.t.Helper()
	waitFor(p.f.t, fmt.Sprintf("port %d of %s is reached: %v", port, other.ip, want), func() bool { return p.reaches(other, port) == want })
}

// setFilters sets anti-spoofing and the security groups of the running guest's NIC.
func (p peer) setFilters(antiSpoofing bool, groups ...fleet.FlatGroup) {
	p.f.t.Helper()
	p.vm.Generation++
	n := &p.vm.Spec.NICs[0]
	n.AntiSpoofing, n.SecurityGroups = &antiSpoofing, nil
	for _, g := range groups {
		n.SecurityGroups = append(n.SecurityGroups, g.ID)
	}
	*n = n.TidyFilter()
	in := applyJob(*p.vm, p.f.pool)
	in.Groups = groups
	p.f.ok(p.f.ApplyVM(p.f.t.Context(), in))
}

// counts returns the packet counts of the guest's NIC: by rule ID, and of dropped packets.
func (p peer) counts() (rules map[string]fleet.PassCount, dropped fleet.PassCount) {
	p.f.t.Helper()
	all, err := p.f.FilterCounts(p.f.t.Context())
	p.f.ok(err)
	rules = map[string]fleet.PassCount{}
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
	return rules, rules[hypervisor.Dropped]
}

// twoGuests runs two guests on their own network, each with a server on ports 80 and 81.
func twoGuests(f fixture) (a, b peer) {
	t := f.t
	guest, err := lab.GuestImage(t.Context(), lab.CacheDir())
	f.ok(err)
	run(t, "cp", guest.ISO, filepath.Join(f.pool.Spec.Path, "guest.iso"))
	id := fleet.NewID[fleet.NetworkID]()
	// The subnet is random, because other tests run at the same time and killed tests leave networks behind.
	second, third := 192+rand.IntN(16), rand.IntN(256)
	network := fleet.Network{ID: id, Name: "filters-" + string(id)[28:], Generation: 1, Kind: fleet.NetworkLibvirt, Spec: &fleet.NetworkSpec{
		Mode: fleet.NetworkIsolated, IPv4: &fleet.Subnet{Gateway: fmt.Sprintf("10.%d.%d.1/24", second, third), DHCP: &fleet.DHCP{}},
	}}
	peers := make([]peer, 2)
	for i := range peers {
		vm := f.vm()
		p := peer{f: f, vm: &vm, ip: fmt.Sprintf("10.%d.%d.%d", second, third, 11+i), mac: fmt.Sprintf("52:54:00:%02x:%02x:%02x", second, third, i)}
		network.Spec.IPv4.DHCP.Leases = append(network.Spec.IPv4.DHCP.Leases, fleet.StaticLease{MAC: p.mac, IP: p.ip})
		vm.Spec.ISO = &fleet.Volref{PoolID: f.pool.ID, Volume: "guest.iso"}
		vm.Spec.NICs = []fleet.NIC{{Network: network.Name, MAC: p.mac}}
		peers[i] = p
	}
	f.ok(f.ApplyNetwork(t.Context(), network))
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
		p.f.apply(*p.vm)
		f.ok(f.StartVM(t.Context(), p.vm.ID))
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

func rule(id string, way fleet.Direction, protocol fleet.Protocol, port int, remotes ...string) fleet.FlatRule {
	return fleet.FlatRule{ID: id, Direction: way, Protocol: protocol, FromPort: port, ToPort: port, Anybody: remotes == nil, Remotes: prefixes(remotes...)}
}

// A security group blocks a port between two running guests, and a rule opens it again. Other traffic is not
// interrupted.
func TestSecurityGroupBlocksPortBetweenRunningGuests(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx := t.Context()
	a, b := twoGuests(f)
	a.eventually(b, 80, true)
	a.eventually(b, 81, true)

	web := fleet.FlatGroup{ID: fleet.NewID[fleet.SecurityGroupID](), Name: "web", Revision: 1, Rules: []fleet.FlatRule{rule("00000000000e", fleet.Egress, fleet.AnyProtocol, 0)}}
	b.setFilters(false, web)
	began := time.Now()
	if a.reaches(b, 80) || a.reaches(b, 81) {
		t.Fatal("a NIC in a group without ingress rules accepts connections")
	}
	b.eventually(a, 80, true) // connections from the guest pass, with their answers

	web.Rules = append(web.Rules, rule("00000000000a", fleet.Ingress, fleet.TCP, 80, a.ip+"/32"))
	f.ok(f.ApplySecurityGroup(ctx, web))
	if !a.reaches(b, 80) || a.reaches(b, 81) {
		t.Fatal("a rule for port 80 accepts another port, or not port 80")
	}
	t.Logf("blocked and opened again within %s", time.Since(began))

	// An accepted packet counts for its rule, and any other packet as dropped. Packets of other NICs do not count.
	waitFor(t, "the rule for port 80 has accepted packets, and others were dropped", func() bool {
		rules, dropped := b.counts()
		return rules["00000000000a"].Packets >= 5 && rules["00000000000a"].Bytes > 200 && rules["00000000000e"].Packets == 0 && dropped.Packets > 0
	})
	// Dropped packets are retransmitted for a while and counted again.
	waitFor(t, "another connection is counted with its own rule only", func() bool {
		was, droppedBefore := b.counts()
		if !a.reaches(b, 80) {
			return false
		}
		rules, dropped := b.counts()
		return rules["00000000000a"].Packets >= was["00000000000a"].Packets+5 && rules["00000000000e"] == was["00000000000e"] && dropped == droppedBefore
	})
	b.eventually(a, 80, true)
	waitFor(t, "outgoing connections are counted with the egress rule", func() bool {
		rules, _ := b.counts()
		return rules["00000000000e"].Packets >= 5
	})

	// The member with the accepted address is removed from the group.
	web.Rules[1].Remotes = nil
	f.ok(f.ApplySecurityGroup(ctx, web))
	if a.reaches(b, 80) {
		t.Fatal("the address of a removed member is accepted")
	}

	// Members of a group that refers to itself reach one another and nobody else.
	self := fleet.FlatGroup{ID: fleet.NewID[fleet.SecurityGroupID](), Name: "self", Revision: 1, Rules: []fleet.FlatRule{
		rule("00000000000b", fleet.Ingress, fleet.AnyProtocol, 0, a.ip+"/32", b.ip+"/32"), rule("00000000000c", fleet.Egress, fleet.AnyProtocol, 0, a.ip+"/32", b.ip+"/32"),
	}}
	a.setFilters(false, self)
	b.setFilters(false, self)
	if !a.reaches(b, 80) || !b.reaches(a, 81) {
		t.Error("members of a group that refers to itself do not reach one another")
	}
	if err := f.ReleaseSecurityGroup(ctx, self); err == nil || !strings.Contains(err.Error(), "is used by a NIC") {
		t.Errorf("a group in use was removed: %v", err)
	}
	s, _, err := f.VM(ctx, b.vm.ID)
	if f.ok(err); s.NICs[0].Filter != hypervisor.FilterName(b.vm.ID, b.mac) || len(s.NextBoot) != 0 || len(s.Drift) != 0 {
		t.Errorf("the status is: %+v", s)
	}
	a.setFilters(false)
	b.setFilters(false)
	a.eventually(b, 81, true)
	for _, g := range []fleet.FlatGroup{self, web} {
		f.ok(f.ReleaseSecurityGroup(ctx, g))
	}
	if left := virsh(t, "nwfilter-list"); strings.Contains(left, string(a.vm.ID)) || strings.Contains(left, string(b.vm.ID)) || strings.Contains(left, string(web.ID)) {
		t.Errorf("filters are left over:\n%s", left)
	}
}

// A guest with anti-spoofing can use neither another MAC address nor another IP address.
func TestAntiSpoofingDropsForgedAddresses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a, b := twoGuests(f)
	a.eventually(b, 80, true)
	made := a.ip[:strings.LastIndex(a.ip, ".")] + ".77"
	as := func(address string) bool {
		a.runCommand(fmt.Sprintf("ip route replace %s/32 dev eth0 src %s", b.ip, address))
		return a.reaches(b, 80)
	}
	if a.runCommand("ip address add " + made + "/24 dev eth0"); !as(made) {
		t.Fatal("without anti-spoofing the guest cannot use another address, so the test proves nothing")
	}
	as(a.ip)
	a.setFilters(true)
	a.eventually(b, 80, true)
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
		rules, _ := a.counts()
		return rules[hypervisor.Spoofed].Packets > 0
	})
	a.setFilters(false)
	waitFor(t, "a NIC without anti-spoofing may use any address", func() bool { return as(made) })
}
