package query

import (
	"context"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"

	"quantix/db"
	"quantix/internal/connectivity"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/secgroup"
)

// CheckConnection predicts whether the filters of the NICs at both ends would let a connection pass, and which rules
// decide that. It uses specs and the last reported addresses, and sends no packet. An address of another project's VM
// is treated like an external address.
func (b *Queries) CheckConnection(ctx context.Context, a fleet.Actor, q connectivity.ConnectionQuery) (connectivity.PassAnswer, error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return connectivity.PassAnswer{}, err
	}
	var checks fleet.Checks
	q.Check(&checks)
	if err := checks.Err(); err != nil {
		return connectivity.PassAnswer{}, err
	}
	known := connectionCheckSources{b: b, rules: map[string]string{}}
	from, err := known.readNIC(ctx, a, q.From, "from", &checks)
	if err != nil {
		return connectivity.PassAnswer{}, err
	}
	to, err := known.readNIC(ctx, a, q.To, "to", &checks)
	if err == nil {
		err = checks.Err()
	}
	if err != nil {
		return connectivity.PassAnswer{}, err
	}
	return connectivity.EvaluateConnection(q, from, to, func(g fleet.SecurityGroupID, rule string) string { return known.rules[string(g)+"/"+rule] }), nil
}

// connectionCheckSources reads the NICs and security groups for a connection check.
type connectionCheckSources struct {
	b     *Queries
	rules map[string]string // rule texts by group and rule
}

// readNIC returns the NIC of an end of the connection, or nil if that end is not a VM.
func (p connectionCheckSources) readNIC(ctx context.Context, a fleet.Actor, e connectivity.ConnectionEnd, at string, checks *fleet.Checks) (*connectivity.ConnectionNIC, error) {
	if e.VMID == "" {
		return nil, nil
	}
	vm, err := p.b.GetVM(ctx, a, e.VMID)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(vm.Spec.NICs, func(n fleet.NIC) bool { return e.MAC == "" || strings.EqualFold(n.MAC, e.MAC) })
	if i < 0 {
		checks.Add(at+".mac", "The VM %s has no such NIC.", vm.Name)
		return nil, nil
	}
	nic := vm.Spec.NICs[i]
	passNIC := &connectivity.ConnectionNIC{VMID: vm.ID, VMName: vm.Name, MAC: nic.MAC, AntiSpoofing: nic.HasAntiSpoofing()}
	if vm.Status != nil {
		for _, s := range vm.Status.NICs {
			if !strings.EqualFold(s.MAC, nic.MAC) {
				continue
			}
			for _, text := range s.Addresses {
				if addr, err := netip.ParseAddr(text); err == nil {
					passNIC.Addresses = append(passNIC.Addresses, addr.Unmap())
				}
			}
		}
	}
	passNIC.Groups, err = p.readGroups(ctx, nic.SecurityGroups)
	if err != nil || len(passNIC.Groups) == 0 {
		return passNIC, err
	}
	passNIC.State, err = p.b.nicFilterState(ctx, vm.VM, nic)
	return passNIC, err
}

// readGroups returns the security groups in the form that hosts get, with member addresses instead of group references,
// sorted by name.
func (p connectionCheckSources) readGroups(ctx context.Context, ids []fleet.SecurityGroupID) ([]secgroup.FlatGroup, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := p.b.store.FlatSources(ctx, store.ToStrings(ids))
	if err != nil {
		return nil, store.UserError(err)
	}
	members, names := map[fleet.SecurityGroupID][]string{}, map[fleet.SecurityGroupID]string{}
	for _, r := range rows {
		var all []string
		if err := json.Unmarshal(r.Members, &all); err != nil {
			return nil, err
		}
		members[r.ID], names[r.ID] = all, r.Name
	}
	var out []secgroup.FlatGroup
	for _, r := range rows {
		if !slices.Contains(ids, r.ID) {
			continue
		}
		g := secgroup.Group{ID: r.ID, Name: r.Name, Spec: r.Spec, Revision: r.Revision}
		out = append(out, g.Flatten(members))
		for _, rule := range r.Spec.Rules {
			p.rules[string(r.ID)+"/"+rule.ID] = rule.Text("members of " + names[rule.GroupID])
		}
	}
	slices.SortFunc(out, func(x, y secgroup.FlatGroup) int { return strings.Compare(x.Name, y.Name) })
	return out, nil
}

// nicFilterState returns whether the VM's host applies the NIC's current security groups. It is the worst of the states
// of the groups and of the NIC on the host.
func (b *Queries) nicFilterState(ctx context.Context, vm fleet.VM, nic fleet.NIC) (secgroup.State, error) {
	rows, err := b.store.GroupsOfVM(ctx, vm.ID)
	if err != nil {
		return "", store.UserError(err)
	}
	states, err := nicFilterStates(rows, []fleet.NIC{nic})
	if err != nil {
		return "", err
	}
	states[0].MergeHostStatus(vm)
	return states[0].State, nil
}

// nicFilterStates returns the filter settings of each NIC of a VM, with the state of its security groups on the host.
func nicFilterStates(rows []db.GroupsOfVMRow, nics []fleet.NIC) ([]secgroup.NICFilter, error) {
	out := make([]secgroup.NICFilter, len(nics))
	for i, n := range nics {
		out[i] = secgroup.NICFilter{MAC: n.MAC, AntiSpoofing: n.HasAntiSpoofing(), Groups: []secgroup.NICGroup{}}
		if n.DefaultGroups {
			out[i].ByPortGroup = append(out[i].ByPortGroup, "securityGroups")
		}
		if n.DefaultAntiSpoofing {
			out[i].ByPortGroup = append(out[i].ByPortGroup, "antiSpoofing")
		}
		if len(out[i].ByPortGroup) > 0 {
			out[i].PortGroup = n.PortGroup
		}
		for _, r := range rows {
			if !strings.EqualFold(r.Mac, n.MAC) {
				continue
			}
			h := secgroup.Host{Revision: r.Observed}
			if len(r.Status) > 0 {
				if err := json.Unmarshal(r.Status, &h.Status); err != nil {
					return nil, err
				}
			}
			g := secgroup.NICGroup{ID: r.ID, Name: r.Name, Rules: len(r.Spec.Rules), State: h.StateAt(r.Revision, r.Fresh)}
			switch {
			case h.Status != nil && g.State == secgroup.NotApplied:
				g.Error = h.Status.Error
			case h.Status != nil && g.State == secgroup.Changed:
				g.Error = h.Status.Drift
			}
			out[i].Groups = append(out[i].Groups, g)
		}
		out[i].State = out[i].WorstGroupState()
	}
	return out, nil
}

// NICFilterStates returns the security groups of each NIC of a VM and whether the host applies them.
func (b *Queries) NICFilterStates(ctx context.Context, a fleet.Actor, id fleet.VMID) ([]secgroup.NICFilter, error) {
	vm, err := b.GetVM(ctx, a, id)
	if err != nil {
		return nil, err
	}
	rows, err := b.store.GroupsOfVM(ctx, id)
	if err != nil {
		return nil, store.UserError(err)
	}
	states, err := nicFilterStates(rows, vm.Spec.NICs)
	if err != nil {
		return nil, err
	}
	hits, err := b.nicPacketCounts(ctx, id)
	if err != nil {
		return nil, err
	}
	rules, names := map[fleet.SecurityGroupID][]secgroup.Rule{}, map[string]string{}
	if len(hits) > 0 {
		var refers []fleet.SecurityGroupID
		for _, r := range rows {
			rules[r.ID] = r.Spec.Rules
			refers = append(refers, r.Spec.ReferencedGroups()...)
		}
		if names, err = b.securityGroupNames(ctx, a, refers); err != nil {
			return nil, err
		}
	}
	for i := range states {
		states[i].MergeHostStatus(vm.VM)
		states[i].Hits = currentRuleCounts(hits[strings.ToLower(states[i].MAC)], states[i].Groups, rules, names)
		if !store.SeesHosts(a) {
			for k := range states[i].Groups {
				states[i].Groups[k].Error = store.RedactText(states[i].Groups[k].Error, "")
			}
		}
	}
	return states, nil
}
