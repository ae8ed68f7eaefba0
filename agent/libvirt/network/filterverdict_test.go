package network

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"testing"

	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/internal/connectivity"
	"quantix/internal/fleet"
	"quantix/internal/secgroup"
)

// firstFrame is the first packet of a new connection at a NIC.
type firstFrame struct {
	connectivity.Packet
	kind string // Ethernet type: "ipv4", "ipv6", "arp" …
	from int    // source port
	icmp int    // ICMP type
}

// filterVerdict reports whether a frame passes the NIC's filter. It evaluates the filter as libvirt does: Ethernet
// rules and IP rules are independent and ordered by priority. The first matching rule decides, and a frame without a
// match passes.
func filterVerdict(t *testing.T, defined map[string]libvirtxml.NWFilter, name string, f firstFrame) bool {
	t.Helper()
	var rules []*libvirtxml.NWFilterRule
	var gather func(string)
	gather = func(name string) {
		x, there := defined[name]
		if !there && name != cleanTraffic {
			t.Fatalf("the filter %s is referenced but not defined", name)
		}
		for _, e := range x.Entries {
			if e.Ref != nil {
				gather(e.Ref.Filter)
			} else {
				rules = append(rules, e.Rule)
			}
		}
	}
	gather(name)
	slices.SortStableFunc(rules, func(a, b *libvirtxml.NWFilterRule) int { return cmp.Compare(a.Priority, b.Priority) })
	for _, layer := range []bool{true, false} {
		i := slices.IndexFunc(rules, func(r *libvirtxml.NWFilterRule) bool {
			own := r.Direction == "inout" || r.Direction == "in" == (f.Direction == secgroup.Ingress)
			ethernet, about := ruleMatchesFrame(t, r, f)
			return own && about && ethernet == layer
		})
		if i >= 0 && rules[i].Action == "drop" {
			return false
		}
	}
	return true
}

// ruleMatchesFrame reports whether a rule is an Ethernet rule, and whether the rule matches the frame.
func ruleMatchesFrame(t *testing.T, r *libvirtxml.NWFilterRule, f firstFrame) (ethernet, about bool) {
	t.Helper()
	v6 := f.kind == "ipv6"
	is := func(six bool, p secgroup.Protocol) bool {
		return (f.kind == "ipv4" || v6) && six == v6 && (p == secgroup.AnyProtocol || p == f.Protocol)
	}
	ip := func(family bool, x libvirtxml.NWFilterRuleCommonIP) bool {
		if x.State.Str == "RELATED" {
			return false // the frame belongs to a new connection
		}
		address, mask := x.SrcIPAddr.Str, x.SrcIPMask.Str
		if r.Direction == "out" {
			address, mask = x.DstIPAddr.Str, x.DstIPMask.Str
		}
		if address == "" {
			return family
		}
		return family && netip.MustParsePrefix(address+"/"+mask).Contains(f.Remote)
	}
	within := func(first, last string, port int) bool {
		from, err := strconv.Atoi(first)
		if first == "" {
			return true
		}
		to, bad := strconv.Atoi(cmp.Or(last, first))
		if err != nil || bad != nil {
			t.Fatalf("ports %q to %q", first, last)
		}
		return from <= port && port <= to
	}
	ported := func(x libvirtxml.NWFilterRuleCommonPort) bool {
		return within(x.SrcPortStart.Str, x.SrcPortEnd.Str, f.from) && within(x.DstPortStart.Str, x.DstPortEnd.Str, f.Port)
	}
	switch {
	case r.MAC != nil:
		return true, r.MAC.ProtocolID.Str == f.kind
	case r.TCP != nil:
		return false, ip(is(false, secgroup.TCP), r.TCP.NWFilterRuleCommonIP) && ported(r.TCP.NWFilterRuleCommonPort)
	case r.TCPIPv6 != nil:
		return false, ip(is(true, secgroup.TCP), r.TCPIPv6.NWFilterRuleCommonIP) && ported(r.TCPIPv6.NWFilterRuleCommonPort)
	case r.UDP != nil:
		return false, ip(is(false, secgroup.UDP), r.UDP.NWFilterRuleCommonIP) && ported(r.UDP.NWFilterRuleCommonPort)
	case r.UDPIPv6 != nil:
		return false, ip(is(true, secgroup.UDP), r.UDPIPv6.NWFilterRuleCommonIP) && ported(r.UDPIPv6.NWFilterRuleCommonPort)
	case r.ICMP != nil:
		return false, ip(is(false, secgroup.ICMP), r.ICMP.NWFilterRuleCommonIP)
	case r.ICMPv6 != nil:
		return false, ip(is(true, secgroup.ICMPv6), r.ICMPv6.NWFilterRuleCommonIP) && within(r.ICMPv6.Type.Str, "", f.icmp)
	case r.All != nil:
		return false, ip(is(false, secgroup.AnyProtocol), r.All.NWFilterRuleCommonIP)
	case r.AllIPv6 != nil:
		return false, ip(is(true, secgroup.AnyProtocol), r.AllIPv6.NWFilterRuleCommonIP)
	}
	return true, true // matches all frames
}

func randomElement[T any](r *rand.Rand, all ...T) T { return all[r.IntN(len(all))] }

// randomAddress returns one of few addresses, so that rules often match.
func randomAddress(r *rand.Rand, v6 bool) netip.Addr {
	if v6 {
		return netip.AddrFrom16([16]byte{0xfd, 0, 15: byte(1 + r.IntN(6))})
	}
	return netip.AddrFrom4([4]byte{10, 0, 0, byte(1 + r.IntN(6))})
}

// randomGroup returns a security group with few addresses and ports, resolved as hosts receive it.
func randomGroup(t *testing.T, r *rand.Rand) secgroup.FlatGroup {
	t.Helper()
	member, none := fleet.NewID[fleet.SecurityGroupID](), fleet.NewID[fleet.SecurityGroupID]()
	var spec secgroup.Spec
	for range r.IntN(5) {
		x := secgroup.Rule{Direction: randomElement(r, secgroup.Ingress, secgroup.Egress), Protocol: randomElement(r, secgroup.Protocols...)}
		if x.Protocol == secgroup.TCP || x.Protocol == secgroup.UDP {
			x.FromPort = randomElement(r, 0, 1+r.IntN(6))
			if x.FromPort > 0 {
				x.ToPort = randomElement(r, 0, x.FromPort+r.IntN(3))
			}
		}
		v6 := x.Protocol == secgroup.ICMPv6 || x.Protocol != secgroup.ICMP && r.IntN(2) == 0
		a := randomAddress(r, v6)
		switch r.IntN(5) {
		case 0:
			x.GroupID = randomElement(r, member, none)
		case 1:
			x.CIDR = fmt.Sprintf("%s/%d", a, a.BitLen()-r.IntN(3))
		case 2:
			x.CIDR = a.String()
		case 3:
			x.CIDR = map[bool]string{true: "::/0", false: "0.0.0.0/0"}[v6]
		}
		spec.Rules = append(spec.Rules, x)
	}
	spec = spec.Normalized()
	g := secgroup.Group{ID: fleet.NewID[fleet.SecurityGroupID](), Name: "g", Spec: spec}.Flatten(map[fleet.SecurityGroupID][]string{
		member: {randomAddress(r, false).String(), randomAddress(r, true).String(), randomAddress(r, true).String(), "nonsense", "::ffff:10.0.0.2", "fe80::1%eth0"},
	})
	var c fleet.Checks
	if g.Check(&c); c.Err() != nil {
		t.Fatalf("%+v: %v", g, c.Err())
	}
	return g
}

// The portal's packet check gives the same result as the NIC's filters, for random rules and packets: both IP families
// and directions, with and without anti-spoofing.
func TestPacketCheckAgreesWithFilters(t *testing.T) {
	t.Parallel()
	const vm, mac = "01a206b5-2a62-7003-a101-340befa69b69", "52:54:00:00:00:01"
	r := rand.New(rand.NewPCG(9, 43))
	passed, all := 0, 0
	for range 4000 {
		guard := r.IntN(2) == 0
		n := fleet.NIC{MAC: mac, AntiSpoofing: &guard}
		defined := map[string]libvirtxml.NWFilter{}
		read := func(x libvirtxml.NWFilter) {
			text, err := x.Marshal()
			var again libvirtxml.NWFilter
			if err == nil {
				err = again.Unmarshal(text)
			}
			if err != nil {
				t.Fatal(err)
			}
			defined[x.Name] = again
		}
		var groups []secgroup.FlatGroup
		for range 1 + r.IntN(3) {
			g := randomGroup(t, r)
			groups, n.SecurityGroups = append(groups, g), append(n.SecurityGroups, g.ID)
			read(groupFilter(g))
		}
		read(nicFilter(vm, n))
		for range 12 {
			protocol := randomElement(r, secgroup.Protocols[1:]...)
			v6 := protocol == secgroup.ICMPv6 || protocol != secgroup.ICMP && r.IntN(2) == 0
			f := firstFrame{Packet: connectivity.Packet{Direction: randomElement(r, secgroup.Ingress, secgroup.Egress), Protocol: protocol, Remote: randomAddress(r, v6)}, kind: "ipv4", from: 40000, icmp: 128}
			if v6 {
				f.kind = "ipv6"
			}
			if protocol == secgroup.TCP || protocol == secgroup.UDP {
				f.Port = 1 + r.IntN(8)
			}
			verdict := connectivity.EvaluatePacket(groups, f.Packet)
			if all++; verdict.Pass {
				passed++
			}
			if got := filterVerdict(t, defined, hypervisor.FilterName(vm, mac), f); got != verdict.Pass || !verdict.Known {
				t.Fatalf("%+v through %+v: the filters let it pass: %v; the packet check says %+v", f, groups, got, verdict)
			}
		}
	}
	if passed < all/10 || passed > all*9/10 {
		t.Errorf("of %d packets %d passed: too few of one kind for a valid test", all, passed)
	}
}

// DHCP, neighbour discovery and VLAN-tagged frames pass or are dropped regardless of a group's rules.
func TestSecurityGroupRulesNeverBlockDHCPAndNeighborDiscovery(t *testing.T) {
	t.Parallel()
	const vm, mac = "01a206b5-2a62-7003-a101-340befa69b69", "52:54:00:00:00:01"
	all := secgroup.FlatGroup{ID: fleet.NewID[fleet.SecurityGroupID](), Name: "all", Rules: []secgroup.FlatRule{
		{ID: "00000000000a", Direction: secgroup.Ingress, Protocol: secgroup.AnyProtocol, Anybody: true}, {ID: "00000000000b", Direction: secgroup.Egress, Protocol: secgroup.AnyProtocol, Anybody: true},
	}}
	none := secgroup.FlatGroup{ID: fleet.NewID[fleet.SecurityGroupID](), Name: "none"}
	udp := func(way secgroup.Direction, kind string, from, to int) firstFrame {
		return firstFrame{Packet: connectivity.Packet{Direction: way, Protocol: secgroup.UDP, Port: to, Remote: randomAddress(rand.New(rand.NewPCG(1, 1)), kind == "ipv6")}, kind: kind, from: from}
	}
	icmp := func(way secgroup.Direction, kind int) firstFrame {
		return firstFrame{Packet: connectivity.Packet{Direction: way, Protocol: secgroup.ICMPv6, Remote: netip.MustParseAddr("fe80::1")}, kind: "ipv6", icmp: kind}
	}
	for _, c := range []struct {
		what           string
		f              firstFrame
		none, all      bool // in a group without rules, and in a group that accepts everything
		guard, guarded bool // with anti-spoofing: in no group, and in the group that accepts everything
	}{
		{"DHCP request from the guest", udp(secgroup.Egress, "ipv4", 68, 67), true, true, true, true},
		{"DHCP reply to the guest", udp(secgroup.Ingress, "ipv4", 67, 68), true, true, true, true},
		{"DHCP reply from the guest", udp(secgroup.Egress, "ipv4", 67, 68), false, true, false, false},
		{"DHCPv6 request from the guest", udp(secgroup.Egress, "ipv6", 546, 547), true, true, true, true},
		{"DHCPv6 reply from the guest", udp(secgroup.Egress, "ipv6", 547, 546), false, true, false, false},
		{"other traffic at the DHCP port", udp(secgroup.Ingress, "ipv4", 40000, 68), false, true, true, true},
		{"router advertisement to the guest", icmp(secgroup.Ingress, 134), true, true, true, true},
		{"router advertisement from the guest", icmp(secgroup.Egress, 134), false, true, false, false},
		{"redirect from the guest", icmp(secgroup.Egress, 137), false, true, false, false},
		{"neighbour solicitation from the guest", icmp(secgroup.Egress, 135), true, true, true, true},
		{"ARP", firstFrame{Packet: connectivity.Packet{Direction: secgroup.Ingress}, kind: "arp"}, true, true, true, true},
		// With anti-spoofing, clean-traffic drops these frames, but filterVerdict does not evaluate clean-traffic.
		{"VLAN-tagged frame to the guest", firstFrame{Packet: connectivity.Packet{Direction: secgroup.Ingress}, kind: "vlan"}, false, false, true, true},
		{"VLAN-tagged frame from the guest", firstFrame{Packet: connectivity.Packet{Direction: secgroup.Egress}, kind: "vlan"}, false, false, true, true},
	} {
		for name, k := range map[string]struct {
			guard  bool
			groups []secgroup.FlatGroup
			want   bool
		}{"none": {false, []secgroup.FlatGroup{none}, c.none}, "all": {false, []secgroup.FlatGroup{all}, c.all}, "guard": {true, nil, c.guard}, "guarded": {true, []secgroup.FlatGroup{all}, c.guarded}} {
			n := fleet.NIC{MAC: mac, AntiSpoofing: &k.guard}
			defined := map[string]libvirtxml.NWFilter{}
			for _, g := range k.groups {
				n.SecurityGroups = append(n.SecurityGroups, g.ID)
				defined[hypervisor.GroupFilterName(g.ID)] = groupFilter(g)
			}
			x := nicFilter(vm, n)
			defined[x.Name] = x
			if got := filterVerdict(t, defined, x.Name, c.f); got != k.want {
				t.Errorf("%s, %s: passes: %v", c.what, name, got)
			}
		}
	}
}
