package network

import (
	"crypto/sha256"
	"net/netip"
	"strconv"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/internal/fleet"
	"quantix/internal/secgroup"
)

// The filter of a NIC refers to the filters of the NIC's security groups. So a changed group filter applies to all NICs
// of the host. Group filters contain only accept rules. The NIC's filter ends with a rule that drops all other packets.
// libvirt tracks connections per rule: the removal of a rule ends the connections that the rule accepted.

// Priorities of rules. The lowest is evaluated first.
const (
	priorityBeforeOthers = 100
	priorityNormal       = 500
	priorityAfterOthers  = 1000
)

// cleanTraffic is libvirt's anti-spoofing filter. It does not handle IPv6, so antiSpoofingIPv6Rules adds rules for
// IPv6.
const cleanTraffic = "clean-traffic"

// groupFilter returns the security group as a libvirt filter.
func groupFilter(g secgroup.FlatGroup) libvirtxml.NWFilter {
	x := libvirtxml.NWFilter{Name: hypervisor.GroupFilterName(g.ID), UUID: string(g.ID), Chain: "root"}
	for _, r := range g.Rules {
		if r.Anybody {
			for _, v6 := range []bool{false, true} {
				x.Entries = appendRule(x.Entries, filterRuleFor(r, v6, netip.Prefix{}))
			}
			continue
		}
		for _, p := range r.Remotes {
			x.Entries = appendRule(x.Entries, filterRuleFor(r, p.Addr().Is6(), p))
		}
	}
	return x
}

// appendRule appends the rule, unless it is nil.
func appendRule(all []libvirtxml.NWFilterEntry, r *libvirtxml.NWFilterRule) []libvirtxml.NWFilterEntry {
	if r == nil {
		return all
	}
	return append(all, libvirtxml.NWFilterEntry{Rule: r})
}

// filterRuleFor returns the rule for one IP family and one remote prefix, or nil if the protocol does not exist in that
// family.
func filterRuleFor(r secgroup.FlatRule, v6 bool, remote netip.Prefix) *libvirtxml.NWFilterRule {
	out := &libvirtxml.NWFilterRule{Action: "accept", Direction: "in", Priority: priorityNormal}
	var ip libvirtxml.NWFilterRuleCommonIP
	address, mask := &ip.SrcIPAddr, &ip.SrcIPMask
	if r.Direction == secgroup.Egress {
		out.Direction = "out"
		address, mask = &ip.DstIPAddr, &ip.DstIPMask
	}
	if remote.IsValid() && remote.Bits() > 0 {
		*address, *mask = filterField(remote.Addr().String()), filterField(strconv.Itoa(remote.Bits()))
	}
	var port libvirtxml.NWFilterRuleCommonPort
	if r.FromPort > 0 {
		port.DstPortStart, port.DstPortEnd = filterField(strconv.Itoa(r.FromPort)), filterField(strconv.Itoa(max(r.FromPort, r.ToPort)))
	}
	note := hypervisor.RuleCommentPrefix + r.ID
	switch {
	case r.Protocol == secgroup.TCP && v6:
		out.TCPIPv6 = &libvirtxml.NWFilterRuleTCPIPv6{NWFilterRuleCommonIP: ip, NWFilterRuleCommonPort: port, Comment: note}
	case r.Protocol == secgroup.TCP:
		out.TCP = &libvirtxml.NWFilterRuleTCP{NWFilterRuleCommonIP: ip, NWFilterRuleCommonPort: port, Comment: note}
	case r.Protocol == secgroup.UDP && v6:
		out.UDPIPv6 = &libvirtxml.NWFilterRuleUDPIPv6{NWFilterRuleCommonIP: ip, NWFilterRuleCommonPort: port, Comment: note}
	case r.Protocol == secgroup.UDP:
		out.UDP = &libvirtxml.NWFilterRuleUDP{NWFilterRuleCommonIP: ip, NWFilterRuleCommonPort: port, Comment: note}
	case r.Protocol == secgroup.ICMP && !v6:
		out.ICMP = &libvirtxml.NWFilterRuleICMP{NWFilterRuleCommonIP: ip, Comment: note}
	case r.Protocol == secgroup.ICMPv6 && v6:
		out.ICMPv6 = &libvirtxml.NWFilterRuleICMPIPv6{NWFilterRuleCommonIP: ip, Comment: note}
	case r.Protocol == secgroup.AnyProtocol && v6:
		out.AllIPv6 = &libvirtxml.NWFilterRuleAllIPv6{NWFilterRuleCommonIP: ip, Comment: note}
	case r.Protocol == secgroup.AnyProtocol:
		out.All = &libvirtxml.NWFilterRuleAll{NWFilterRuleCommonIP: ip, Comment: note}
	default:
		return nil
	}
	return out
}

func filterField(s string) libvirtxml.NWFilterField { return libvirtxml.NWFilterField{Str: s} }

// nicFilter returns the filter of one NIC: anti-spoofing, the security groups, and the final drop rule.
func nicFilter(vm fleet.VMID, n fleet.NIC) libvirtxml.NWFilter {
	name := hypervisor.FilterName(vm, n.MAC)
	x := libvirtxml.NWFilter{Name: name, UUID: filterUUID(name), Chain: "root"}
	if n.HasAntiSpoofing() {
		x.Entries = append(x.Entries, libvirtxml.NWFilterEntry{Ref: &libvirtxml.NWFilterRef{Filter: cleanTraffic}})
		x.Entries = append(x.Entries, antiSpoofingIPv6Rules()...)
	} else {
		x.Entries = append(x.Entries, ipFramesOnlyRules()...)
	}
	if len(n.SecurityGroups) == 0 {
		return x
	}
	for _, id := range n.SecurityGroups {
		x.Entries = append(x.Entries, libvirtxml.NWFilterEntry{Ref: &libvirtxml.NWFilterRef{Filter: hypervisor.GroupFilterName(id)}})
	}
	x.Entries = append(x.Entries, alwaysAcceptedRules()...)
	x.Entries = appendRule(x.Entries, &libvirtxml.NWFilterRule{Action: "drop", Direction: "inout", Priority: priorityAfterOthers, All: &libvirtxml.NWFilterRuleAll{}})
	x.Entries = appendRule(x.Entries, &libvirtxml.NWFilterRule{Action: "drop", Direction: "inout", Priority: priorityAfterOthers, AllIPv6: &libvirtxml.NWFilterRuleAllIPv6{}})
	return x
}

// antiSpoofingIPv6Rules accepts IPv6 frames, but drops router advertisements and DHCP server replies from the guest.
func antiSpoofingIPv6Rules() (all []libvirtxml.NWFilterEntry) {
	all = appendRule(all, acceptFramesRule("ipv6"))
	for _, kind := range []string{"134", "137"} { // router advertisement and redirect
		all = appendRule(all, icmpv6Rule("drop", "out", kind))
	}
	all = appendRule(all, &libvirtxml.NWFilterRule{Action: "drop", Direction: "out", Priority: priorityBeforeOthers, StateMatch: "false", UDP: &libvirtxml.NWFilterRuleUDP{NWFilterRuleCommonPort: filterPorts("67", "68")}})
	return appendRule(all, &libvirtxml.NWFilterRule{Action: "drop", Direction: "out", Priority: priorityBeforeOthers, StateMatch: "false", UDPIPv6: &libvirtxml.NWFilterRuleUDPIPv6{NWFilterRuleCommonPort: filterPorts("547", "546")}})
}

// ipFramesOnlyRules accepts the frame types of IPv4, IPv6, ARP and RARP, and drops all others. iptables sees no packet
// in other frames, such as frames with a VLAN tag. A guest accepts a frame with VLAN ID 0 as untagged, so such frames
// would bypass the rules.
func ipFramesOnlyRules() (all []libvirtxml.NWFilterEntry) {
	for _, kind := range []string{"ipv4", "ipv6", "arp", "rarp"} {
		all = appendRule(all, acceptFramesRule(kind))
	}
	return appendRule(all, &libvirtxml.NWFilterRule{Action: "drop", Direction: "inout", Priority: priorityAfterOthers})
}

// acceptFramesRule returns a rule that accepts frames of one kind.
func acceptFramesRule(kind string) *libvirtxml.NWFilterRule {
	return &libvirtxml.NWFilterRule{Action: "accept", Direction: "inout", Priority: priorityNormal, MAC: &libvirtxml.NWFilterRuleMAC{ProtocolID: filterField(kind)}}
}

// alwaysAcceptedRules returns the rules for DHCP and IPv6 neighbour discovery, and for ICMP errors of accepted
// connections.
func alwaysAcceptedRules() (all []libvirtxml.NWFilterEntry) {
	related := libvirtxml.NWFilterRuleCommonIP{State: filterField("RELATED")}
	all = appendRule(all, &libvirtxml.NWFilterRule{Action: "accept", Direction: "inout", Priority: priorityBeforeOthers, All: &libvirtxml.NWFilterRuleAll{NWFilterRuleCommonIP: related}})
	all = appendRule(all, &libvirtxml.NWFilterRule{Action: "accept", Direction: "inout", Priority: priorityBeforeOthers, AllIPv6: &libvirtxml.NWFilterRuleAllIPv6{NWFilterRuleCommonIP: related}})
	for _, d := range []struct{ way, from, to string }{{"out", "68", "67"}, {"in", "67", "68"}} {
		all = appendRule(all, &libvirtxml.NWFilterRule{Action: "accept", Direction: d.way, Priority: priorityBeforeOthers, StateMatch: "false", UDP: &libvirtxml.NWFilterRuleUDP{NWFilterRuleCommonPort: filterPorts(d.from, d.to)}})
	}
	for _, d := range []struct{ way, from, to string }{{"out", "546", "547"}, {"in", "547", "546"}} {
		all = appendRule(all, &libvirtxml.NWFilterRule{Action: "accept", Direction: d.way, Priority: priorityBeforeOthers, StateMatch: "false", UDPIPv6: &libvirtxml.NWFilterRuleUDPIPv6{NWFilterRuleCommonPort: filterPorts(d.from, d.to)}})
	}
	// router solicitation, neighbour solicitation and neighbour advertisement
	for _, t := range []string{"133", "135", "136"} {
		all = appendRule(all, icmpv6Rule("accept", "out", t))
	}
	for _, t := range []string{"134", "135", "136"} {
		all = appendRule(all, icmpv6Rule("accept", "in", t))
	}
	return all
}

func filterPorts(from, to string) libvirtxml.NWFilterRuleCommonPort {
	return libvirtxml.NWFilterRuleCommonPort{SrcPortStart: filterField(from), DstPortStart: filterField(to)}
}

// icmpv6Rule returns a rule for one ICMPv6 type, which has no connection state.
func icmpv6Rule(action, way, kind string) *libvirtxml.NWFilterRule {
	return &libvirtxml.NWFilterRule{
		Action: action, Direction: way, Priority: priorityBeforeOthers, StateMatch: "false", ICMPv6: &libvirtxml.NWFilterRuleICMPIPv6{Type: filterField(kind)},
	}
}

// filterUUID derives a filter's UUID from its name, because libvirt refuses to redefine a filter with another UUID.
func filterUUID(name string) string {
	sum := sha256.Sum256([]byte(name))
	var id golibvirt.UUID
	copy(id[:], sum[:16])
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80
	return string(conn.FormatUUID(id))
}
