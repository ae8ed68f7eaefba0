package control

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"quantix/db"
	"quantix/internal/control/assign"
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
	runs := policy.May(a, policy.InfraChange, "")
	bare, err := bareNetworks(ctx, q, old, nics)
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
		guard := n.Guarded()
		if n.AntiSpoofing == nil {
			guard = was || k < 0 && !runs
		}
		if !guard && !runs && (k < 0 || was) {
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
