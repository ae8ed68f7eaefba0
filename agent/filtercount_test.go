package agent_test

import (
	"fmt"
	"testing"
	"time"

	"quantix/agent"
	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/secgroup"
)

type chainCounts = map[string]map[string]secgroup.PassCount

func packetCount(packets int64) secgroup.PassCount {
	return secgroup.PassCount{Packets: packets, Bytes: 100 * packets}
}

// Counts stay in the sum when the host rewrites its rules, which resets the counters.
func TestFilterCountsSurviveCounterReset(t *testing.T) {
	t.Parallel()
	vm := fleet.NewID[fleet.VMID]()
	count, at := agent.NewFilterCounter(), time.Unix(1e9, 0)
	look := func(c chainCounts) secgroup.NICCount {
		t.Helper()
		at = at.Add(10 * time.Second)
		out := count(at, []hypervisor.NICPacketCounts{{VM: vm, MAC: "52:54:00:00:00:01", Chains: c}})
		if len(out.NICs) != 1 {
			t.Fatalf("%+v", out)
		}
		return out.NICs[0]
	}
	expect := func(when string, c secgroup.NICCount, want string) {
		t.Helper()
		if got := fmt.Sprint(c.Rules, c.Dropped.Packets, c.SinceMs/1000); got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	two := func(a, b, drop int64) chainCounts {
		return chainCounts{"FI": {"a": packetCount(a), hypervisor.DroppedKey: packetCount(drop)}, "FO": {"b": packetCount(b)}}
	}
	expect("packets from before the first reading", look(two(100, 50, 7)), "[] 0 0")
	expect("more packets", look(two(110, 50, 9)), "[{a {10 1000}}] 2 10")
	expect("all chains rewritten", look(two(3, 0, 0)), "[{a {13 1300}}] 2 20")
	expect("one chain rewritten", look(two(4, 2, 1)), "[{a {14 1400}} {b {2 200}}] 3 30")
	expect("chains being rewritten", look(chainCounts{}), "[{a {14 1400}} {b {2 200}}] 3 40")
	expect("a rule was removed", look(chainCounts{"FI": {hypervisor.DroppedKey: packetCount(0)}, "FO": {"b": packetCount(0)}}), "[{b {2 200}}] 3 50")
	expect("the guest has another device", look(chainCounts{"FI of vnet9": {"b": packetCount(5), hypervisor.DroppedKey: packetCount(1)}}), "[{b {7 700}}] 4 60")
	if out := count(at.Add(time.Second), nil); len(out.NICs) != 0 {
		t.Errorf("a guest that is off is counted: %+v", out)
	}
	at = at.Add(time.Minute)
	expect("a restarted guest is counted since the previous reading", look(two(1, 0, 0)), "[{a {1 100}}] 0 69")
}

// A report contains a limited number of NICs and rules, however many the host has.
func TestFilterCountsAreLimitedPerReport(t *testing.T) {
	t.Parallel()
	count := agent.NewFilterCounter()
	var all []hypervisor.NICPacketCounts
	for i := range secgroup.MaxCountedNICs + 10 {
		all = append(all, hypervisor.NICPacketCounts{VM: fleet.NewID[fleet.VMID](), MAC: fmt.Sprintf("52:54:00:00:00:%02x", i), Chains: chainCounts{"FI": {"a": packetCount(1)}}})
	}
	now := time.Unix(1e9, 0)
	count(now, nil)
	if out := count(now, all); len(out.NICs) != secgroup.MaxCountedNICs || out.Left != 10 {
		t.Errorf("%d NICs, %d left", len(out.NICs), out.Left)
	}
	rules := map[string]secgroup.PassCount{}
	for i := range secgroup.MaxCountedRules/2 + 1 {
		rules[fmt.Sprintf("%012x", i)] = packetCount(1)
	}
	for i := range 2 {
		all[i].Chains = chainCounts{"FI": rules}
	}
	count(now, nil)
	if out := count(now, all[:2]); len(out.NICs) != 1 || out.Left != 1 {
		t.Errorf("with too many rules: %d NICs, %d left", len(out.NICs), out.Left)
	}
}
