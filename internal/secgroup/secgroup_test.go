package secgroup_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"quantix/internal/connectivity"
	"quantix/internal/fleet"
	"quantix/internal/secgroup"
	"quantix/internal/testkit/goals"
)

const someID = "01a206b5-2a62-7003-a101-340befa69b68"

func TestInvalidSecurityRuleRefused(t *testing.T) {
	t.Parallel()
	type rule = secgroup.Rule
	in := func(change func(*rule)) rule {
		r := rule{Direction: secgroup.Ingress, Protocol: secgroup.TCP, FromPort: 80, ToPort: 90, CIDR: "10.0.0.0/8"}
		change(&r)
		return r
	}
	for _, c := range []struct {
		field string
		rule  rule
	}{
		{"direction", in(func(r *rule) { r.Direction = "" })},
		{"direction", in(func(r *rule) { r.Direction = "in" })},
		{"direction", in(func(r *rule) { r.Direction = "both" })},
		{"direction", in(func(r *rule) { r.Direction = "Ingress" })},
		{"protocol", in(func(r *rule) { r.Protocol = ""; r.FromPort, r.ToPort = 0, 0 })},
		{"protocol", in(func(r *rule) { r.Protocol = "TCP"; r.FromPort, r.ToPort = 0, 0 })},
		{"protocol", in(func(r *rule) { r.Protocol = "sctp"; r.FromPort, r.ToPort = 0, 0 })},
		{"protocol", in(func(r *rule) { r.Protocol = "6"; r.FromPort, r.ToPort = 0, 0 })},
		{"protocol", in(func(r *rule) { r.Protocol = "tcp'/><x"; r.FromPort, r.ToPort = 0, 0 })},
		{"fromPort", in(func(r *rule) { r.FromPort = -1 })},
		{"fromPort", in(func(r *rule) { r.FromPort, r.ToPort = 0, 80 })},
		{"fromPort", in(func(r *rule) { r.FromPort, r.ToPort = 65536, 0 })},
		{"fromPort", in(func(r *rule) { r.Protocol = secgroup.ICMP })},
		{"fromPort", in(func(r *rule) { r.Protocol = secgroup.AnyProtocol })},
		{"fromPort", in(func(r *rule) { r.Protocol, r.CIDR = secgroup.ICMPv6, "" })},
		{"fromPort", in(func(r *rule) { r.Protocol, r.FromPort = secgroup.AnyProtocol, 0 })},
		{"toPort", in(func(r *rule) { r.ToPort = 79 })},
		{"toPort", in(func(r *rule) { r.ToPort = 65536 })},
		{"toPort", in(func(r *rule) { r.ToPort = -80 })},
		{"cidr", in(func(r *rule) { r.GroupID = someID })},
		{"cidr", in(func(r *rule) { r.CIDR = "10.0.0.0/33" })},
		{"cidr", in(func(r *rule) { r.CIDR = "10.0.0/8" })},
		{"cidr", in(func(r *rule) { r.CIDR = "10.0.0.256" })},
		{"cidr", in(func(r *rule) { r.CIDR = "010.0.0.0/8" })},
		{"cidr", in(func(r *rule) { r.CIDR = "10.0.0.0/255.0.0.0" })},
		{"cidr", in(func(r *rule) { r.CIDR = "10.0.0.1-10.0.0.9" })},
		{"cidr", in(func(r *rule) { r.CIDR = "10.0.0.0/8 " })},
		{"cidr", in(func(r *rule) { r.CIDR = "any" })},
		{"cidr", in(func(r *rule) { r.CIDR = "example.org" })},
		{"cidr", in(func(r *rule) { r.CIDR = "fe80::1%eth0" })},
		{"cidr", in(func(r *rule) { r.CIDR = "fe80::/10%eth0" })},
		{"cidr", in(func(r *rule) { r.CIDR = "::ffff:10.0.0.0/104" })},
		{"cidr", in(func(r *rule) { r.CIDR = "2001:db8::/129" })},
		{"cidr", in(func(r *rule) { r.CIDR = "/8" })},
		{"cidr", in(func(r *rule) { r.CIDR = "10.0.0.0/-1" })},
		{"cidr", in(func(r *rule) { r.CIDR = "10.0.0.0/8' accept='" })},
		{"cidr", in(func(r *rule) { r.Protocol, r.FromPort, r.ToPort, r.CIDR = secgroup.ICMP, 0, 0, "2001:db8::/32" })},
		{"cidr", in(func(r *rule) { r.Protocol, r.FromPort, r.ToPort = secgroup.ICMPv6, 0, 0 })},
		{"groupId", in(func(r *rule) { r.CIDR, r.GroupID = "", "web" })},
		{"groupId", in(func(r *rule) { r.CIDR, r.GroupID = "", fleet.SecurityGroupID(strings.ToUpper(someID)) })},
		{"groupId", in(func(r *rule) { r.CIDR, r.GroupID = "", "../../etc" })},
		{"id", in(func(r *rule) { r.ID = "1" })},
		{"id", in(func(r *rule) { r.ID = "00000000000G" })},
		{"id", in(func(r *rule) { r.ID = "' -j ACCEPT  " })},
		{"description", in(func(r *rule) { r.Description = strings.Repeat("x", 201) })},
		{"description", in(func(r *rule) { r.Description = "two\nlines" })},
		{"description", in(func(r *rule) { r.Description = "\xff" })},
	} {
		var checks fleet.Checks
		secgroup.Spec{Rules: []rule{c.rule}}.Check(&checks, "spec")
		var err *fleet.Error
		if !errors.As(checks.Err(), &err) || !slices.ContainsFunc(err.Fields, func(f fleet.FieldError) bool { return f.Field == "spec.rules[0]."+c.field }) {
			t.Errorf("%+v: %v, want an error at %s", c.rule, checks.Err(), c.field)
		}
	}
	for name, spec := range map[string]secgroup.Spec{
		"too many": {Rules: make([]rule, secgroup.MaxRules+1)},
		"twice":    {Rules: []rule{in(func(*rule) {}), in(func(r *rule) { r.Description = "again" })}},
		// Tidy makes the two rules of a spec equal.
		"one port":   {Rules: []rule{in(func(r *rule) { r.ToPort = 0 }), in(func(r *rule) { r.ToPort = 80 })}},
		"one subnet": {Rules: []rule{in(func(*rule) {}), in(func(r *rule) { r.CIDR = "10.1.2.3/8" })}},
		"one id":     {Rules: []rule{in(func(r *rule) { r.ID = "00000000000a" }), in(func(r *rule) { r.ID, r.FromPort = "00000000000a", 85 })}},
		"too long":   {Description: strings.Repeat("x", fleet.MaxDescription+1)},
		"not a text": {Description: "\x00"},
	} {
		var checks fleet.Checks
		if spec.Check(&checks, "spec"); checks.Err() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	var checks fleet.Checks
	spec := secgroup.Spec{Rules: []rule{
		in(func(*rule) {}), secgroup.AllowAllEgressRule(), in(func(r *rule) { r.CIDR, r.ToPort = "10.1.2.3/16", 0 }), in(func(r *rule) { r.CIDR, r.GroupID = "", someID }),
		{Direction: secgroup.Ingress, Protocol: secgroup.ICMPv6, CIDR: "2001:db8::7"},
	}}
	if spec.Check(&checks, "spec"); checks.Err() != nil {
		t.Errorf("valid rules: %v", checks.Err())
	}
	tidy := spec.Normalized()
	if tidy.Rules[2].CIDR != "10.1.0.0/16" || tidy.Rules[2].ToPort != 80 || tidy.Rules[4].CIDR != "2001:db8::7/128" || tidy.Rules[0].ID == tidy.Rules[1].ID || len(tidy.Rules[0].ID) != 12 {
		t.Errorf("tidy: %+v", tidy.Rules)
	}
	if spec.Rules[0].ID != "" {
		t.Error("Tidy changed its receiver")
	}
}

// evaluateRulesOneByOne evaluates the rules one by one, as the reference for connectivity.EvaluatePacket.
func evaluateRulesOneByOne(groups []secgroup.FlatGroup, p connectivity.Packet) bool {
	if len(groups) == 0 {
		return true
	}
	for _, g := range groups {
		for _, r := range g.Rules {
			way := r.Direction == p.Direction
			what := r.Protocol == secgroup.AnyProtocol || r.Protocol == p.Protocol && (r.FromPort == 0 || r.FromPort <= p.Port && p.Port <= r.ToPort)
			who := r.Anybody || slices.ContainsFunc(r.Remotes, func(x netip.Prefix) bool { return x.Contains(p.Remote) })
			if way && what && who {
				return true
			}
		}
	}
	return false
}

func randomChoice[T any](r *rand.Rand, all ...T) T { return all[r.IntN(len(all))] }

func randomGroup(r *rand.Rand, rules int) secgroup.FlatGroup {
	g := secgroup.Group{ID: fleet.NewID[fleet.SecurityGroupID](), Name: "g"}
	member := fleet.NewID[fleet.SecurityGroupID]()
	for range rules {
		x := secgroup.Rule{Direction: randomChoice(r, secgroup.Ingress, secgroup.Egress), Protocol: randomChoice(r, secgroup.Protocols...)}
		if x.Protocol == secgroup.TCP || x.Protocol == secgroup.UDP {
			if x.FromPort = r.IntN(10); x.FromPort > 0 {
				x.ToPort = x.FromPort + r.IntN(4)
			}
		}
		switch r.IntN(3) {
		case 0:
			x.CIDR = fmt.Sprintf("10.0.%d.0/%d", r.IntN(4), 22+r.IntN(4))
		case 1:
			x.GroupID = member
		}
		g.Spec.Rules = append(g.Spec.Rules, x)
	}
	g.Spec = g.Spec.Normalized()
	return g.Flatten(map[fleet.SecurityGroupID][]string{member: {"10.0.0.7", "10.0.3.9", "nonsense", "224.0.0.1"}})
}

// EvaluatePacket agrees with the naive evaluation: a packet passes if any group of the NIC allows it, the order of
// groups does not matter, and an additional group never blocks a packet.
func TestEvaluatePacketMatchesNaiveEvaluation(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	passed := 0
	for range 20000 {
		var groups []secgroup.FlatGroup
		for range r.IntN(4) {
			groups = append(groups, randomGroup(r, r.IntN(5)))
		}
		p := connectivity.Packet{
			Direction: randomChoice(r, secgroup.Ingress, secgroup.Egress), Protocol: randomChoice(r, secgroup.Protocols[1:]...), Port: 1 + r.IntN(12),
			Remote: netip.AddrFrom4([4]byte{10, 0, byte(r.IntN(5)), byte(r.IntN(12))}),
		}
		got := connectivity.EvaluatePacket(groups, p)
		if got.Pass != evaluateRulesOneByOne(groups, p) || !got.Known {
			t.Fatalf("%+v through %+v: %+v", p, groups, got)
		}
		if got.Pass {
			passed++
		}
		slices.Reverse(groups)
		if connectivity.EvaluatePacket(groups, p).Pass != got.Pass {
			t.Fatal("the order of groups matters")
		}
		if more := connectivity.EvaluatePacket(append(groups, randomGroup(r, 2)), p); len(groups) > 0 && got.Pass && !more.Pass {
			t.Fatal("a further group blocks the packet")
		}
		p.Remote = netip.Addr{}
		if without := connectivity.EvaluatePacket(groups, p); without.Known && without.Pass != got.Pass {
			t.Fatalf("without the remote address the result is certain and %v, with it %v", without.Pass, got.Pass)
		}
	}
	if passed < 2000 || passed > 18000 {
		t.Errorf("of 20,000 packets %d passed: too one-sided to show anything", passed)
	}
}

func TestFlatGroupRefusedAboveMaxRules(t *testing.T) {
	t.Parallel()
	g := secgroup.FlatGroup{ID: someID, Name: "web", Rules: []secgroup.FlatRule{{ID: "00000000000a", Direction: secgroup.Ingress, Protocol: secgroup.TCP}}}
	for i := range secgroup.MaxFlatRules + 1 {
		g.Rules[0].Remotes = append(g.Rules[0].Remotes, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 32))
	}
	var checks fleet.Checks
	if g.Check(&checks); checks.Err() == nil || !strings.Contains(checks.Err().Error(), "4001 rules") {
		t.Errorf("%v", checks.Err())
	}
}

// BenchmarkWouldPass evaluates a packet that no rule allows, for a NIC in the maximum number of groups of a project.
func BenchmarkWouldPass(b *testing.B) {
	r := rand.New(rand.NewPCG(3, 4))
	groups := make([]secgroup.FlatGroup, secgroup.MaxPerProject)
	for i := range groups {
		groups[i] = randomGroup(r, 10)
		for k := range groups[i].Rules {
			groups[i].Rules[k].Anybody, groups[i].Rules[k].Remotes = false, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}
		}
	}
	packet := connectivity.Packet{Direction: secgroup.Ingress, Protocol: secgroup.TCP, Port: 5, Remote: netip.MustParseAddr("192.0.2.1")}
	var all []time.Duration
	for b.Loop() {
		began := time.Now()
		if connectivity.EvaluatePacket(groups, packet).Pass {
			b.Fatal("it passes")
		}
		all = append(all, time.Since(began))
	}
	var bare []time.Duration
	for range all {
		began, found := time.Now(), false
		for _, g := range groups {
			for _, rule := range g.Rules {
				for _, prefix := range rule.Remotes {
					found = found || prefix.Contains(packet.Remote)
				}
			}
		}
		bare = append(bare, time.Since(began))
		if found {
			b.Fatal("a rule has the address")
		}
	}
	slices.Sort(all)
	slices.Sort(bare)
	at := func(took []time.Duration, part float64) float64 {
		return took[int(part*float64(len(took)-1))].Seconds() * 1e3
	}
	goals.WouldPass.Record(b, at(all, 0.99) <= 20, fmt.Sprintf("%.2f/%.2f ms", at(all, 0.5), at(all, 0.99)),
		fmt.Sprintf("the addresses of as many rules alone %.2f/%.2f ms", at(bare, 0.5), at(bare, 0.99)), at(all, 0.5)/at(bare, 0.5))
}
