package connectivity

import (
	"net/netip"

	"quantix/internal/fleet"
	"quantix/internal/secgroup"
)

// Packet is the first packet of a connection, as it passes a NIC. The port of the connection's other end does not
// matter.
type Packet struct {
	Direction secgroup.Direction
	Protocol  secgroup.Protocol
	Port      int        // receiver's port, for tcp and udp
	Remote    netip.Addr // remote address; invalid: unknown
}

// PacketVerdict is the result of the rules for one packet: whether it passes the NIC, and which rule allows it.
type PacketVerdict struct {
	Pass    bool                  `json:"pass"`
	Known   bool                  `json:"known"`             // false: the result depends on an unknown address
	GroupID fleet.SecurityGroupID `json:"groupId,omitempty"` // group of the rule that allows the packet
	RuleID  string                `json:"ruleId,omitempty"`
}

// EvaluatePacket applies the groups of a NIC to a packet: the first rule that allows the packet wins. A NIC without
// groups passes every packet.
func EvaluatePacket(groups []secgroup.FlatGroup, p Packet) PacketVerdict {
	if len(groups) == 0 {
		return PacketVerdict{Pass: true, Known: true}
	}
	uncertain := false
	for g := range groups {
		for r := range groups[g].Rules {
			switch rule := &groups[g].Rules[r]; ruleAllows(rule, p) {
			case yes:
				return PacketVerdict{Pass: true, Known: true, GroupID: groups[g].ID, RuleID: rule.ID}
			case maybe:
				uncertain = true
			}
		}
	}
	return PacketVerdict{Known: !uncertain}
}

type verdict int

const (
	no verdict = iota
	maybe
	yes
)

// ruleAllows reports whether the rule allows the packet.
func ruleAllows(r *secgroup.FlatRule, p Packet) verdict {
	switch {
	case r.Direction != p.Direction || r.Protocol != secgroup.AnyProtocol && r.Protocol != p.Protocol:
		return no
	case r.FromPort != 0 && (p.Port < r.FromPort || p.Port > max(r.ToPort, r.FromPort)):
		return no
	case r.Protocol == secgroup.AnyProtocol && p.Protocol != secgroup.AnyProtocol && r.FromPort != 0:
		return no
	case r.Anybody:
		return yes
	case !p.Remote.IsValid():
		if len(r.Remotes) > 0 {
			return maybe
		}
		return no
	}
	remote := p.Remote.Unmap()
	for _, prefix := range r.Remotes {
		if prefix.Contains(remote) {
			return yes
		}
	}
	return no
}
