package query

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/secgroup"
)

// groupPacketCounts returns, for each rule of the group, the packets that it accepted at all NICs of VMs that the actor
// sees.
func (b *Queries) groupPacketCounts(ctx context.Context, a fleet.Actor, g secgroup.Group) (*secgroup.Count, error) {
	all, projects := policy.SeesAllProjects(a), store.VisibleProjects(a)
	run, err := b.store.GroupRuns(ctx, db.GroupRunsParams{ID: g.ID, AllProjects: all, Projects: projects})
	if err != nil {
		return nil, store.UserError(err)
	}
	rows, err := b.store.GroupCounts(ctx, db.GroupCountsParams{ID: g.ID, AllProjects: all, Projects: projects})
	if err != nil {
		return nil, store.UserError(err)
	}
	out := &secgroup.Count{Of: int(run.Nics), Rules: []secgroup.RuleCount{}, Error: run.Error}
	if !store.SeesHosts(a) {
		out.Error = store.RedactText(out.Error, "")
	}
	matched := map[string]secgroup.PassCount{}
	for _, r := range rows {
		n := secgroup.PassCount{Packets: r.Packets, Bytes: r.Bytes}
		if r.Rule != "" {
			matched[r.Rule] = n
			continue
		}
		out.NICs, out.Dropped, out.Since, out.At = int(r.Nics), n, &r.Since, &r.At
	}
	out.Of = max(out.Of, out.NICs)
	for _, r := range g.Spec.Rules {
		out.Rules = append(out.Rules, secgroup.RuleCount{Rule: r.ID, PassCount: matched[r.ID]})
	}
	return out, nil
}

// nicPacketCounts returns the packet counts of each NIC of the VM, by MAC address.
func (b *Queries) nicPacketCounts(ctx context.Context, vm fleet.VMID) (map[string]*secgroup.NICHits, error) {
	rows, err := b.store.CountsOfVM(ctx, vm)
	if err != nil {
		return nil, store.UserError(err)
	}
	out := make(map[string]*secgroup.NICHits, len(rows))
	for _, r := range rows {
		var count secgroup.NICCount
		if err := json.Unmarshal(r.Told, &count); err != nil {
			return nil, err
		}
		h := &secgroup.NICHits{At: r.At, Since: r.At.Add(-time.Duration(count.SinceMs) * time.Millisecond), Rules: []secgroup.NICRuleHit{}, Dropped: count.Dropped, Spoofed: count.Spoofed}
		for _, n := range count.Rules {
			h.Rules = append(h.Rules, secgroup.NICRuleHit{RuleCount: n})
		}
		out[strings.ToLower(count.MAC)] = h
	}
	return out, nil
}

// currentRuleCounts returns the NIC's counts for the current rules of its groups: zero for a rule without a count, and
// none for rules that no longer exist.
func currentRuleCounts(h *secgroup.NICHits, groups []secgroup.NICGroup, rules map[fleet.SecurityGroupID][]secgroup.Rule, names map[string]string) *secgroup.NICHits {
	if h == nil {
		return nil
	}
	matched := map[string]secgroup.PassCount{}
	for _, r := range h.Rules {
		matched[r.Rule] = r.PassCount
	}
	h.Rules = h.Rules[:0]
	for _, g := range groups {
		for _, r := range rules[g.ID] {
			remote := "members of another group"
			if name := names[string(r.GroupID)]; name != "" {
				remote = "members of " + name
			}
			h.Rules = append(h.Rules, secgroup.NICRuleHit{
				GroupID: g.ID, Group: g.Name, Words: r.Text(remote), RuleCount: secgroup.RuleCount{Rule: r.ID, PassCount: matched[r.ID]},
			})
		}
	}
	return h
}
