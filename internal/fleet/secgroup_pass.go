package fleet

import (
	"net/netip"
	"slices"
)

// PassQuestion asks whether a connection, or a first packet, would pass: from a VM's card or an address, to a VM's card or an address.
type PassQuestion struct {
	From     PassEnd  `json:"from"`
	To       PassEnd  `json:"to"`
	Protocol Protocol `json:"protocol"`
	Port     int      `json:"port,omitempty"` // at the receiver, of tcp and udp
}

// PassEnd is one end of it: a VM's card, or an address that is no VM's.
type PassEnd struct {
	VMID    VMID   `json:"vmId,omitempty"`
	MAC     string `json:"mac,omitempty"`     // of which card; empty: of the VM's first
	Address string `json:"address,omitempty"` // of the card, where it has several; without a VM the end itself
}

// Check notes the question's faults.
func (q PassQuestion) Check(c *Checks) {
	q.From.check(c, "from")
	q.To.check(c, "to")
	if q.From.VMID == "" && q.To.VMID == "" {
		c.Add("from.vmId", "Choose a VM at one end at least: security groups are at network cards.")
	}
	if q.Protocol == AnyProtocol || !slices.Contains(Protocols, q.Protocol) {
		c.Add("protocol", "Choose the protocol: tcp, udp, icmp or icmpv6.")
	}
	if ported := q.Protocol == TCP || q.Protocol == UDP; ported && (q.Port < 1 || q.Port > highestPort) {
		c.Add("port", "Give the port, 1 to %d.", highestPort)
	} else if !ported && q.Port != 0 {
		c.Add("port", "Only tcp and udp have ports.")
	}
	q.checkFamilies(c)
}

// checkFamilies notes addresses between which nothing passes, whatever the rules are.
func (q PassQuestion) checkFamilies(c *Checks) {
	from, to := addressOf(q.From, nil, nil), addressOf(q.To, nil, nil)
	if from.IsValid() && to.IsValid() && from.Is4() != to.Is4() {
		c.Add("to.address", "Nothing passes between IPv4 and IPv6. Give two addresses of one kind.")
	}
	for i, a := range []netip.Addr{from, to} {
		at := []string{"from.address", "to.address"}[i]
		switch {
		case a.Is6() && q.Protocol == ICMP:
			c.Add(at, "ICMP is of IPv4. For %s choose icmpv6.", a)
		case a.Is4() && q.Protocol == ICMPv6:
			c.Add(at, "ICMPv6 is of IPv6. For %s choose icmp.", a)
		}
	}
}

func (e PassEnd) check(c *Checks, at string) {
	switch {
	case e.VMID == "" && e.Address == "":
		c.Add(at+".vmId", "Choose a VM, or give an address.")
	case e.VMID != "" && !IsID(string(e.VMID)):
		c.Add(at+".vmId", "There is no such VM.")
	}
	if e.Address == "" {
		return
	}
	if a, err := netip.ParseAddr(e.Address); err != nil || a.Zone() != "" || a.IsUnspecified() {
		c.Add(at+".address", "Give an address such as 10.0.0.7 or 2001:db8::7.")
	}
}

// PassNIC is a card with what decides what passes it.
type PassNIC struct {
	VMID      VMID
	VMName    string
	MAC       string
	Addresses []netip.Addr
	Guarded   bool // its guest may use no other address of IPv4 than these
	Groups    []FlatGroup
	State     SecurityGroupState // whether its groups count on its host as they are; empty: it is in none
}

// PassSide is what one end says.
type PassSide struct {
	VMID    VMID   `json:"vmId,omitempty"`
	VMName  string `json:"vmName,omitempty"`
	MAC     string `json:"mac,omitempty"`
	Address string `json:"address,omitempty"` // that was reckoned with; empty: none is known
	Passing
	GroupName string             `json:"groupName,omitempty"` // whose rule lets it pass
	Groups    []string           `json:"groups,omitempty"`    // names of all the card is in
	Rule      string             `json:"rule,omitempty"`      // in words
	Why       string             `json:"why"`                 // a sentence
	State     SecurityGroupState `json:"state,omitempty"`
}

// PassAnswer is what becomes of it.
type PassAnswer struct {
	Pass  bool     `json:"pass"`
	Known bool     `json:"known"` // false: it hangs on an address that is not known
	From  PassSide `json:"from"`  // may it go out
	To    PassSide `json:"to"`    // may it come in
}

// WouldPass is the answer, with the cards of the ends that are VMs. rule says a rule of a group in words.
func WouldPass(q PassQuestion, from, to *PassNIC, rule func(SecurityGroupID, string) string) PassAnswer {
	v6 := q.Protocol == ICMPv6
	if a := addressOf(q.From, nil, nil); a.IsValid() {
		v6 = a.Is6()
	} else if a := addressOf(q.To, nil, nil); a.IsValid() {
		v6 = a.Is6()
	} else if from != nil && q.Protocol != ICMP && !slices.ContainsFunc(from.Addresses, netip.Addr.Is4) && len(from.Addresses) > 0 {
		v6 = true
	}
	source, target := addressOf(q.From, from, &v6), addressOf(q.To, to, &v6)
	out := PassAnswer{
		From: sideOf(q, Egress, from, source, target, rule),
		To:   sideOf(q, Ingress, to, target, source, rule),
	}
	out.Pass = out.From.Pass && out.To.Pass
	out.Known = out.Pass || out.From.Known && !out.From.Pass || out.To.Known && !out.To.Pass
	return out
}

// addressOf is the end's address: as was asked for, or the card's first of the family.
func addressOf(e PassEnd, card *PassNIC, v6 *bool) netip.Addr {
	if a, err := netip.ParseAddr(e.Address); err == nil {
		return a.Unmap()
	}
	if card != nil && v6 != nil {
		for _, a := range card.Addresses {
			if a.Is6() == *v6 {
				return a
			}
		}
	}
	return netip.Addr{}
}

func sideOf(q PassQuestion, way Direction, card *PassNIC, own, remote netip.Addr, rule func(SecurityGroupID, string) string) PassSide {
	s := PassSide{Passing: Passing{Pass: true, Known: true}}
	if own.IsValid() {
		s.Address = own.String()
	}
	if card == nil {
		s.Why = "No VM of yours is there, so no security group decides here."
		return s
	}
	s.VMID, s.VMName, s.MAC, s.State = card.VMID, card.VMName, card.MAC, card.State
	s.Passing = Passes(card.Groups, Packet{Direction: way, Protocol: q.Protocol, Port: q.Port, Remote: remote})
	for _, g := range card.Groups {
		s.Groups = append(s.Groups, g.Name)
		if g.ID == s.GroupID {
			s.GroupName = g.Name
		}
	}
	if four := slices.ContainsFunc(card.Addresses, netip.Addr.Is4); way == Egress && card.Guarded && four && own.Is4() && !slices.Contains(card.Addresses, own) {
		s.Passing, s.Why = Passing{Known: true}, "Anti-spoofing drops it: "+s.Address+" is no address of the card."
		return s
	}
	word := map[Direction]string{Ingress: "in", Egress: "out"}[way]
	switch {
	case len(card.Groups) == 0:
		s.Why = "The card is in no security group, so all passes."
	case s.Pass:
		s.Rule = rule(s.GroupID, s.RuleID)
		s.Why = "A rule of " + s.GroupName + " lets it " + word + ": " + s.Rule + "."
	case !s.Known:
		s.Why = "It hangs on the other side's address, which is not known. Give the address."
	default:
		s.Why = "No rule of the card's groups lets it " + word + ", and what no rule allows does not pass."
	}
	return s
}
