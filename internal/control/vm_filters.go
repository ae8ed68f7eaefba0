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

// settleFilters decides what passes each card where whoever asks for it left that out: a card stays as it was, and the guest of a new one may
// use no other address unless it is made by those who run hosts. They alone may let a guest use others. Groups are the project's own or the
// fleet's; which another project has is told to nobody.
func settleFilters(ctx context.Context, q *db.Queries, a fleet.Actor, project fleet.ProjectID, old, nics []fleet.NIC) error {
	runs := policy.May(a, policy.InfraChange, "")
	var checks fleet.Checks
	var asked []fleet.SecurityGroupID
	for i, n := range nics {
		k := slices.IndexFunc(old, func(o fleet.NIC) bool { return n.MAC != "" && strings.EqualFold(o.MAC, n.MAC) })
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
