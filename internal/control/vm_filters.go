package control

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"quantix/db"
	"quantix/internal/control/assign"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// bareNetworks are the names of those networks of the cards on which hosts can filter nothing.
func bareNetworks(ctx context.Context, q *db.Queries, old, nics []fleet.NIC) (map[fleet.NetworkID]string, error) {
	var ids []string
	for _, n := range slices.Concat(old, nics) {
		if n.NetworkID != "" {
			ids = append(ids, string(n.NetworkID))
		}
	}
	out := map[fleet.NetworkID]string{}
	if len(ids) == 0 {
		return out, nil
	}
	rows, err := q.BareNetworks(ctx, db.BareNetworksParams{Ids: ids, Modes: fleet.BareModes()})
	for _, r := range rows {
		out[r.ID] = r.Name
	}
	return out, err
}

// unfiltered is a card on a network on which hosts can filter nothing: what would only seem to protect is refused, unless the card has had it
// there all along. A guard that was on where the card comes from ends, for the network was opened to the project as it is.
func unfiltered(c *fleet.Checks, i int, network string, n fleet.NIC, was *fleet.NIC) fleet.NIC {
	if was != nil && was.NetworkID == n.NetworkID {
		if n.AntiSpoofing == nil {
			n.AntiSpoofing = was.AntiSpoofing
		}
		if n.SameFilter(*was) {
			return n
		}
	}
	const why = "Hosts cannot filter what passes a card on %s, so %s would protect nothing there. Leave it out, or choose another network."
	if len(n.SecurityGroups) > 0 {
		c.Add(fmt.Sprintf("spec.nics[%d].securityGroups", i), why, network, "a security group")
	}
	if n.Guarded() && (was == nil || !was.Guarded()) {
		c.Add(fmt.Sprintf("spec.nics[%d].antiSpoofing", i), why, network, "anti-spoofing")
	}
	off := false
	n.AntiSpoofing = &off
	return n
}

// settleFilters decides what passes each card where whoever asks for it left that out: a card stays as it was, and the guest of a new one may
// use no other address unless it is made by those who run hosts. They alone may let a guest use others. Groups are the project's own or the
// fleet's; which another project has is told to nobody.
func settleFilters(ctx context.Context, q *db.Queries, a fleet.Actor, project fleet.ProjectID, old, nics []fleet.NIC) error {
	runs := policy.May(a, policy.InfraChange, "") || a.System
	bare, err := bareNetworks(ctx, q, old, nics)
	if err != nil {
		return err
	}
	defaults, err := defaultsOf(ctx, q, nics)
	if err != nil {
		return err
	}
	var checks fleet.Checks
	var asked []fleet.SecurityGroupID
	for i, n := range nics {
		k := slices.IndexFunc(old, func(o fleet.NIC) bool { return n.MAC != "" && strings.EqualFold(o.MAC, n.MAC) })
		if name := bare[n.NetworkID]; name != "" {
			if k >= 0 {
				nics[i] = unfiltered(&checks, i, name, n, &old[k])
			} else {
				nics[i] = unfiltered(&checks, i, name, n, nil)
			}
			continue
		}
		if k >= 0 && bare[old[k].NetworkID] != "" {
			k = -1 // nobody could filter it where it was: it is a new one to who does now
		}
		was := k >= 0 && old[k].Guarded()
		// A port group that lets guests use other addresses does so there alone: elsewhere the card is like a new one.
		fresh := k < 0 || old[k].DefaultAntiSpoofing && (old[k].NetworkID != n.NetworkID || old[k].PortGroup != n.PortGroup)
		var before *fleet.NIC
		if k >= 0 {
			before = &old[k]
		}
		n = n.Defaulted(before, defaults[portGroupOf{n.NetworkID, n.PortGroup}])
		nics[i] = n
		guard := n.Guarded()
		if n.AntiSpoofing == nil {
			guard = was || fresh && !runs
		}
		if !guard && !runs && !n.DefaultAntiSpoofing && (fresh || was) {
			checks.Add(fmt.Sprintf("spec.nics[%d].antiSpoofing", i), "Only those who run hosts may let a guest use other addresses than its card's. Leave anti-spoofing on.")
		}
		nics[i].AntiSpoofing = &guard
		if len(n.SecurityGroups) > fleet.MaxNICGroups {
			continue // it is refused with the spec
		}
		asked = append(asked, n.SecurityGroups...)
	}
	held, err := assign.HeldSecurityGroups(ctx, q, project, asked)
	if err != nil {
		return err
	}
	for i, n := range nics {
		if bare[n.NetworkID] != "" {
			continue // they are refused, or there as before
		}
		for j, id := range n.SecurityGroups {
			if !held[id] {
				checks.Add(fmt.Sprintf("spec.nics[%d].securityGroups[%d]", i, j), "There is no such security group.")
			}
		}
	}
	if err := checks.Err(); err != nil {
		return err
	}
	for i, n := range nics {
		if distinct := slices.Compact(slices.Sorted(slices.Values(n.SecurityGroups))); len(distinct) == len(n.SecurityGroups) { // else it is refused with the spec
			nics[i] = n.TidyFilter()
		}
	}
	return nil
}

// portGroupOf names a port group.
type portGroupOf struct {
	network fleet.NetworkID
	name    string
}

// defaultsOf are the port groups that the cards are on.
func defaultsOf(ctx context.Context, q *db.Queries, nics []fleet.NIC) (map[portGroupOf]*fleet.PortGroup, error) {
	var ids []string
	for _, n := range nics {
		if n.PortGroup != "" && n.NetworkID != "" {
			ids = append(ids, string(n.NetworkID))
		}
	}
	out := map[portGroupOf]*fleet.PortGroup{}
	if len(ids) == 0 {
		return out, nil
	}
	rows, err := q.NetworkSpecs(ctx, ids)
	for _, r := range rows {
		if r.Spec == nil { // it is found on hosts, and not defined here
			continue
		}
		for i, g := range r.Spec.PortGroups {
			out[portGroupOf{r.ID, g.Name}] = &r.Spec.PortGroups[i]
		}
	}
	return out, err
}

// followedAtOnce is how many VMs follow their port groups in one pass.
const followedAtOnce = 200

// FollowPortGroups gives cards what their port groups give by default now, where they name nothing of their own. Each VM is changed as by an edit;
// one that cannot be edited now is looked at again later.
func (c *Control) FollowPortGroups(ctx context.Context, a fleet.Actor) error {
	return c.store.Pass(ctx, a, "port groups' defaults", func(q *db.Queries) error {
		ids, err := q.NICsOffDefault(ctx, followedAtOnce)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if err := followPortGroups(ctx, q, a, id); err != nil {
				return err
			}
		}
		return nil
	})
}

func followPortGroups(ctx context.Context, q *db.Queries, a fleet.Actor, id fleet.VMID) error {
	vm, err := store.LockVM(ctx, q, a, id, policy.VMChange)
	if fleet.CodeOf(err) == fleet.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	if ok, _ := vm.Allows(fleet.ActEdit); !ok {
		return nil
	}
	old := vm.Spec
	vm.Spec.NICs = slices.Clone(old.NICs)
	err = settleFilters(ctx, q, a, vm.ProjectID, old.NICs, vm.Spec.NICs)
	if fleet.CodeOf(err) == fleet.Invalid {
		return nil // what another card asks for is for people to mend
	}
	if err != nil {
		return err
	}
	changes := old.Diff(vm.Spec, true)
	if len(changes) == 0 {
		return nil
	}
	_, _, err = applyChange(ctx, q, a, vm, "vm.follow", inWords(changes))
	return err
}
