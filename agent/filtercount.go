package agent

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/secgroup"
)

// filterCounter sums up the packet counters of security group rules. The host resets its counters when a group changes;
// the sums keep the earlier counts. Packets between the last reading and a reset are not counted.
type filterCounter struct {
	nics   map[nicKey]*nicCounter
	readAt time.Time // when the counters were last read; zero: not yet
}

type nicKey struct {
	vm  fleet.VMID
	mac string
}

// nicCounter holds the sums and the last reading of one NIC's packet counters.
type nicCounter struct {
	countedSince time.Time
	lastChains   map[string]map[string]secgroup.PassCount // counters by chain and rule when last read
	totals       map[string]secgroup.PassCount
}

// addReading adds one reading of all NICs' packet counters to the sums. The first reading is the baseline. A NIC that
// appears in a later reading is counted from the previous reading on.
func (t *filterCounter) addReading(now time.Time, all []hypervisor.NICPacketCounts) {
	next := make(map[nicKey]*nicCounter, len(all))
	for _, c := range all {
		key := nicKey{c.VM, c.MAC}
		k := t.nics[key]
		switch {
		case k != nil:
		case t.readAt.IsZero():
			k = &nicCounter{countedSince: now, lastChains: c.Chains, totals: map[string]secgroup.PassCount{}}
		default:
			k = &nicCounter{countedSince: t.readAt, totals: map[string]secgroup.PassCount{}}
		}
		k.addReading(c.Chains)
		next[key] = k
	}
	t.nics, t.readAt = next, now
}

func (k *nicCounter) addReading(chains map[string]map[string]secgroup.PassCount) {
	there := map[string]bool{}
	for name, chain := range chains {
		before := k.lastChains[name]
		if wasChainReset(before, chain) {
			before = nil
		}
		for rule, n := range chain {
			there[rule] = true
			was, sum := before[rule], k.totals[rule]
			k.totals[rule] = secgroup.PassCount{Packets: sum.Packets + n.Packets - was.Packets, Bytes: sum.Bytes + max(0, n.Bytes-was.Bytes)}
		}
	}
	if len(there) == 0 {
		return // libvirt is rewriting the chain's rules
	}
	maps.DeleteFunc(k.totals, func(rule string, _ secgroup.PassCount) bool {
		return !there[rule] && rule != hypervisor.DroppedKey && rule != hypervisor.SpoofedKey
	})
	k.lastChains = chains
}

// wasChainReset reports whether a chain was rewritten between two readings: a counter is lower, or a rule is missing.
func wasChainReset(before, now map[string]secgroup.PassCount) bool {
	for rule, was := range before {
		n, there := now[rule]
		if n.Packets < was.Packets || !there {
			return true
		}
	}
	return false
}

// totals returns the sums, within the limits of a report.
func (t *filterCounter) totals(now time.Time) *secgroup.FilterCounts {
	out := &secgroup.FilterCounts{AgoMs: now.Sub(t.readAt).Milliseconds(), NICs: []secgroup.NICCount{}}
	keys := slices.SortedFunc(maps.Keys(t.nics), func(a, b nicKey) int {
		if a.vm != b.vm {
			return strings.Compare(string(a.vm), string(b.vm))
		}
		return strings.Compare(a.mac, b.mac)
	})
	room := secgroup.MaxCountedRules
	for _, key := range keys {
		k := t.nics[key]
		c := secgroup.NICCount{ID: key.vm, MAC: key.mac, SinceMs: now.Sub(k.countedSince).Milliseconds(), Dropped: k.totals[hypervisor.DroppedKey], Spoofed: k.totals[hypervisor.SpoofedKey]}
		for _, rule := range slices.Sorted(maps.Keys(k.totals)) {
			if n := k.totals[rule]; rule != hypervisor.DroppedKey && rule != hypervisor.SpoofedKey && n.Packets > 0 {
				c.Rules = append(c.Rules, secgroup.RuleCount{Rule: rule, PassCount: n})
			}
		}
		if len(out.NICs) == secgroup.MaxCountedNICs || len(c.Rules) > room {
			out.Left++
			continue
		}
		room -= len(c.Rules)
		out.NICs = append(out.NICs, c)
	}
	return out
}

// readFilterCounts reads the counters and adds them up; nil: no NIC has counters.
func (r *reporter) readFilterCounts(ctx context.Context) *secgroup.FilterCounts {
	ctx, cancel := context.WithTimeout(ctx, r.a.timing.hostReadLimit/2)
	defer cancel()
	all, err := r.a.hypervisor.FilterCounts(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return &secgroup.FilterCounts{NICs: []secgroup.NICCount{}, Error: err.Error()}
	}
	if now := time.Now(); len(all) > 0 || len(r.filterCounts.nics) > 0 {
		r.filterCounts.addReading(now, all)
		return r.filterCounts.totals(now)
	}
	r.filterCounts.readAt = time.Now()
	return nil
}
