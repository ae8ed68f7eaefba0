package placing

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/placement"
)

// MergeRules returns the edited rules, together with those old rules that the actor cannot see. Actors who cannot see
// hosts neither see nor change rules that name hosts.
func MergeRules(a fleet.Actor, old, edited []fleet.PlacementRule) ([]fleet.PlacementRule, error) {
	if store.SeesHosts(a) {
		return edited, nil
	}
	var checks fleet.Checks
	for i, r := range edited {
		if r.NamesHosts() {
			checks.Add(fmt.Sprintf("spec.rules[%d].of", i), "Only people who can see hosts may name hosts in a rule.")
		}
	}
	plain, hosts := fleet.SplitRules(old)
	if slices.Equal(plain, edited) {
		return old, checks.Err()
	}
	return append(hosts, edited...), checks.Err()
}

// vmQuery selects VMs of a project by name or by labels.
type vmQuery struct {
	project               fleet.ProjectID
	name                  string // a VM's name; empty: match by labels
	labelPairs, labelKeys string
}

func vmQueryForRule(project fleet.ProjectID, r fleet.PlacementRule) (vmQuery, error) {
	if r.Of == fleet.RuleVM {
		return vmQuery{project, r.Name, "{}", ""}, nil
	}
	s := r.LabelSelector()
	pairs, err := json.Marshal(s.Pairs)
	return vmQuery{project, "", string(pairs), strings.Join(s.Keys, ",")}, err
}

// ruleMatches holds, for each query, the matching VMs by host.
type ruleMatches map[vmQuery]map[fleet.HostID]db.RuleMatesRow

func findRuleMatches(ctx context.Context, q *db.Queries, queries map[vmQuery]bool) (ruleMatches, error) {
	out := ruleMatches{}
	if len(queries) == 0 {
		return out, nil
	}
	var all []vmQuery
	var p db.RuleMatesParams
	for m := range maps.Keys(queries) {
		all = append(all, m)
		p.Projects, p.Names, p.Pairs, p.Keys = append(p.Projects, string(m.project)), append(p.Names, m.name), append(p.Pairs, m.labelPairs), append(p.Keys, m.labelKeys)
	}
	rows, err := q.RuleMates(ctx, p)
	for _, r := range rows {
		m := all[r.Rule]
		if out[m] == nil {
			out[m] = map[fleet.HostID]db.RuleMatesRow{}
		}
		out[m][r.HostID] = r
	}
	return out, err
}

// otherMatchingVMs returns the number of VMs that match the rule on the host and on all hosts, not counting the VM itself.
func (all ruleMatches) otherMatchingVMs(vm fleet.Meta, r fleet.PlacementRule, host fleet.HostID) (placement.RuleMatches, error) {
	var out placement.RuleMatches
	if r.NamesHosts() {
		return out, nil
	}
	m, err := vmQueryForRule(vm.ProjectID, r)
	if err != nil {
		return out, err
	}
	itself := vm.HostID != "" && r.Matches(vm.Name, vm.Labels)
	for id, row := range all[m] {
		n, names := int(row.Vms), row.Names
		if itself && id == vm.HostID {
			n--
			names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == vm.Name })
		}
		if out.InFleet += n; id == host && n > 0 {
			out.OnHost, out.ExampleVM = n, names[0]
		}
	}
	return out, nil
}

// AddPlacementRules adds to each host what the VM's rules and other VMs' anti-affinity rules need for their evaluation.
// It takes a lock, so that no other VM of the project with rules or labels is placed until the transaction ends.
func AddPlacementRules(ctx context.Context, q *db.Queries, vm fleet.Meta, rules []fleet.PlacementRule, hosts []placement.Host) error {
	if len(rules) > 0 || len(vm.Labels) > 0 {
		if err := q.LockRules(ctx, string(vm.ProjectID)); err != nil {
			return err
		}
	}
	queries := map[vmQuery]bool{}
	for _, r := range rules {
		m, err := vmQueryForRule(vm.ProjectID, r)
		if err != nil {
			return err
		}
		if !r.NamesHosts() {
			queries[m] = true
		}
	}
	all, err := findRuleMatches(ctx, q, queries)
	if err != nil {
		return err
	}
	shunned, err := antiAffineVMs(ctx, q, vm)
	if err != nil {
		return err
	}
	for i := range hosts {
		ruling := &placement.HostRules{Matches: make([]placement.RuleMatches, len(rules)), ExcludedBy: shunned[hosts[i].ID], VM: vm}
		for k, r := range rules {
			if ruling.Matches[k], err = all.otherMatchingVMs(vm, r, hosts[i].ID); err != nil {
				return err
			}
		}
		hosts[i].Rules = ruling
	}
	return nil
}

// antiAffineVMs returns the names of the project's VMs whose required anti-affinity rules match this VM, by host.
func antiAffineVMs(ctx context.Context, q *db.Queries, vm fleet.Meta) (map[fleet.HostID][]string, error) {
	rows, err := q.RulesOfProject(ctx, vm.ProjectID)
	if err != nil {
		return nil, err
	}
	out := map[fleet.HostID][]string{}
	for _, row := range rows {
		var rules []fleet.PlacementRule
		if err := json.Unmarshal(row.Rules, &rules); err != nil {
			return nil, fmt.Errorf("read the rules of %s: %w", row.Names, err)
		}
		shuns := slices.ContainsFunc(rules, func(r fleet.PlacementRule) bool {
			return r.Apart && !r.Preferred && !r.NamesHosts() && r.Matches(vm.Name, vm.Labels)
		})
		others := slices.DeleteFunc(row.Names, func(name string) bool { return name == vm.Name })
		if shuns {
			out[row.HostID] = append(out[row.HostID], others...)
		}
	}
	return out, nil
}

// RecordBrokenRules records which VMs are on a host that violates one of their required rules.
func (p *Placing) RecordBrokenRules(ctx context.Context, a fleet.Actor) error {
	return p.store.RunPass(ctx, a, "settle rules", func(q *db.Queries) error {
		rows, err := q.RuledVMs(ctx)
		if err != nil || len(rows) == 0 {
			return err
		}
		hosts, err := q.HostsForRules(ctx)
		if err != nil {
			return err
		}
		on := map[fleet.HostID]placement.Host{}
		for _, h := range hosts {
			h.Spec.Labels = h.Labels
			on[h.ID] = placement.Host{ID: h.ID, Name: h.Name, Spec: h.Spec}
		}
		ruled := make([][]fleet.PlacementRule, len(rows))
		queries := map[vmQuery]bool{}
		for i, r := range rows {
			if err := json.Unmarshal(r.Rules, &ruled[i]); err != nil {
				return fmt.Errorf("read the rules of VM %s: %w", r.ID, err)
			}
			for _, one := range ruled[i] {
				m, err := vmQueryForRule(r.ProjectID, one)
				if err != nil {
					return err
				}
				if !one.NamesHosts() && !one.Preferred {
					queries[m] = true
				}
			}
		}
		all, err := findRuleMatches(ctx, q, queries)
		if err != nil {
			return err
		}
		for i, r := range rows {
			vm := fleet.Meta{ID: r.ID, Name: r.Name, ProjectID: r.ProjectID, HostID: r.HostID, Labels: r.Labels}
			broken, err := all.brokenRules(vm, ruled[i], on[r.HostID])
			if err != nil {
				return err
			}
			if slices.Equal(broken, r.Misplaced) {
				continue
			}
			if err := q.SetMisplaced(ctx, db.SetMisplacedParams{ID: r.ID, Misplaced: broken}); err != nil {
				return err
			}
		}
		return nil
	})
}

// brokenRules returns the indexes of the VM's required rules that the host violates.
func (all ruleMatches) brokenRules(vm fleet.Meta, rules []fleet.PlacementRule, h placement.Host) ([]int32, error) {
	h.Rules = &placement.HostRules{Matches: make([]placement.RuleMatches, len(rules)), VM: vm}
	var err error
	for k, r := range rules {
		if h.Rules.Matches[k], err = all.otherMatchingVMs(vm, r, h.ID); err != nil {
			return nil, err
		}
	}
	broken := []int32{}
	for _, i := range placement.BrokenRequiredRules(rules, h) {
		broken = append(broken, int32(i)) //nolint:gosec // There are few rules.
	}
	return broken, nil
}
