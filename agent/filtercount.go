package agent

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"quantix/internal/fleet"
)

// CountedNIC is what a hypervisor's counters say of a card. Its chains are the parts whose counters begin anew together, when the rules in them
// are written anew. In a chain stand rules by their ids, and what was dropped under Dropped and Spoofed.
type CountedNIC struct {
	VM     fleet.VMID
	MAC    string
	Chains map[string]map[string]fleet.PassCount
}

// What stands beside rules in a chain.
const (
	Dropped = "dropped"
	Spoofed = "spoofed"
)

// RuleOf is the id of the rule whose comment on the host that is; empty: it is none of Quantix's.
func RuleOf(comment string) string {
	id, ours := strings.CutPrefix(comment, RuleNote)
	if !ours || id == Dropped || id == Spoofed {
		return ""
	}
	return id
}

// RuleNote begins what a rule on the host bears as its comment: the rule's id follows.
const RuleNote = "quantix-rule-"

// NICOfFilter reads whose filter bears that name: see FilterName.
func NICOfFilter(name string) (vm fleet.VMID, mac string, ok bool) {
	rest, ours := strings.CutPrefix(name, fleet.FilterPrefix+"nic-")
	digits, id, whole := strings.Cut(rest, "-")
	if !ours || !whole || len(digits) != 12 || !fleet.IsID(id) {
		return "", "", false
	}
	parts := make([]string, 0, 6)
	for pair := range slices.Chunk([]byte(digits), 2) {
		parts = append(parts, string(pair))
	}
	return fleet.VMID(id), strings.Join(parts, ":"), true
}

// counts adds up what counters say. Rules on a host are written anew with each change of a group, and with them their counters: what was counted
// before stays in the sum. What passes between the last look and such a change is not counted.
type counts struct {
	nics   map[nicKey]*counted
	looked time.Time // the newest look; zero: none yet
}

type nicKey struct {
	vm  fleet.VMID
	mac string
}

// counted is a card whose packets are counted.
type counted struct {
	since  time.Time
	before map[string]map[string]fleet.PassCount // what its chains said at the newest look
	sum    map[string]fleet.PassCount
}

// add takes one look. A card that was there before the first look is counted from that look on, one that came later from the look before.
func (t *counts) add(now time.Time, all []CountedNIC) {
	next := make(map[nicKey]*counted, len(all))
	for _, c := range all {
		key := nicKey{c.VM, c.MAC}
		k := t.nics[key]
		switch {
		case k != nil:
		case t.looked.IsZero():
			k = &counted{since: now, before: c.Chains, sum: map[string]fleet.PassCount{}}
		default:
			k = &counted{since: t.looked, sum: map[string]fleet.PassCount{}}
		}
		k.add(c.Chains)
		next[key] = k
	}
	t.nics, t.looked = next, now
}

func (k *counted) add(chains map[string]map[string]fleet.PassCount) {
	there := map[string]bool{}
	for name, chain := range chains {
		before := k.before[name]
		if anew(before, chain) {
			before = nil
		}
		for rule, n := range chain {
			there[rule] = true
			was, sum := before[rule], k.sum[rule]
			k.sum[rule] = fleet.PassCount{Packets: sum.Packets + n.Packets - was.Packets, Bytes: sum.Bytes + max(0, n.Bytes-was.Bytes)}
		}
	}
	if len(there) == 0 {
		return // it is being written
	}
	maps.DeleteFunc(k.sum, func(rule string, _ fleet.PassCount) bool { return !there[rule] && rule != Dropped && rule != Spoofed })
	k.before = chains
}

// anew reports whether a chain was written anew since: a counter in it has gone back, or a rule.
func anew(before, now map[string]fleet.PassCount) bool {
	for rule, was := range before {
		n, there := now[rule]
		if n.Packets < was.Packets || !there {
			return true
		}
	}
	return false
}

// counts are the sums, within the bounds of a report.
func (t *counts) counts(now time.Time) *fleet.FilterCounts {
	out := &fleet.FilterCounts{AgoMs: now.Sub(t.looked).Milliseconds(), NICs: []fleet.NICCount{}}
	keys := slices.SortedFunc(maps.Keys(t.nics), func(a, b nicKey) int {
		if a.vm != b.vm {
			return strings.Compare(string(a.vm), string(b.vm))
		}
		return strings.Compare(a.mac, b.mac)
	})
	room := fleet.MaxCountedRules
	for _, key := range keys {
		k := t.nics[key]
		c := fleet.NICCount{ID: key.vm, MAC: key.mac, SinceMs: now.Sub(k.since).Milliseconds(), Dropped: k.sum[Dropped], Spoofed: k.sum[Spoofed]}
		for _, rule := range slices.Sorted(maps.Keys(k.sum)) {
			if n := k.sum[rule]; rule != Dropped && rule != Spoofed && n.Packets > 0 {
				c.Rules = append(c.Rules, fleet.RuleCount{Rule: rule, PassCount: n})
			}
		}
		if len(out.NICs) == fleet.MaxCountedNICs || len(c.Rules) > room {
			out.Left++
			continue
		}
		room -= len(c.Rules)
		out.NICs = append(out.NICs, c)
	}
	return out
}

// counts reads counters and adds them up; nil: there is no card whose packets the host looks at.
func (r *reporter) counts(ctx context.Context) *fleet.FilterCounts {
	ctx, cancel := context.WithTimeout(ctx, r.a.times.snapshot/2)
	defer cancel()
	all, err := r.a.hypervisor.FilterCounts(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return &fleet.FilterCounts{NICs: []fleet.NICCount{}, Error: err.Error()}
	}
	if now := time.Now(); len(all) > 0 || len(r.tally.nics) > 0 {
		r.tally.add(now, all)
		return r.tally.counts(now)
	}
	r.tally.looked = time.Now()
	return nil
}
