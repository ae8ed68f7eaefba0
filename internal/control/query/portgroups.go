package query

import (
	"context"
	"slices"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// GroupChoice is a port group that a NIC can be connected to.
type GroupChoice struct {
	NetworkID fleet.NetworkID
	Network   string
	Name      string
}

// PortGroupsToUse lists the port groups to which the actor may connect VMs in one of its projects, by network and name.
func (b *Queries) PortGroupsToUse(ctx context.Context, a fleet.Actor) ([]GroupChoice, error) {
	if err := policy.Check(a, policy.StorageSee, ""); err != nil {
		return nil, err
	}
	rows, err := b.store.GroupsToUse(ctx, db.GroupsToUseParams{AllProjects: policy.May(a, policy.InfraChange, ""), Projects: store.ProjectsWith(a, policy.VMChange)})
	out := make([]GroupChoice, len(rows))
	for i, r := range rows {
		out[i] = GroupChoice{NetworkID: r.ID, Network: r.Name, Name: r.PortGroup}
	}
	return out, store.Err(err)
}

// PortGroups lists a network's port groups that the actor may know, with their grants.
func (b *Queries) PortGroups(ctx context.Context, a fleet.Actor, id fleet.NetworkID) ([]fleet.PortGroupUse, error) {
	if err := policy.Check(a, policy.StorageSee, ""); err != nil {
		return nil, err
	}
	if err := store.CheckID(id, "network"); err != nil {
		return nil, err
	}
	specs, err := b.store.NetworkSpecs(ctx, []string{string(id)})
	if err != nil {
		return nil, store.Err(err)
	}
	out := []fleet.PortGroupUse{}
	if len(specs) == 0 || specs[0].Spec == nil {
		_, err := b.NetworkBrief(ctx, a, id)
		return out, err
	}
	use, err := b.PortGroupsToUse(ctx, a)
	if err != nil {
		return nil, err
	}
	grants, err := b.store.PortGroupGrants(ctx, db.PortGroupGrantsParams{NetworkID: id, AllProjects: policy.AllProjects(a), Projects: store.ProjectsOf(a)})
	if err != nil {
		return nil, store.Err(err)
	}
	on := map[string]int{}
	if store.SeesHosts(a) {
		rows, err := b.store.CountOnGroups(ctx, string(id))
		if err != nil {
			return nil, store.Err(err)
		}
		for _, r := range rows {
			on[r.PortGroup] = int(r.Vms)
		}
	}
	for _, g := range specs[0].Spec.PortGroups {
		known := slices.ContainsFunc(use, func(c GroupChoice) bool { return c.NetworkID == id && c.Name == g.Name })
		v := fleet.PortGroupUse{PortGroup: g, VMs: on[g.Name], Grants: []fleet.NetworkGrant{}}
		for _, r := range grants {
			if r.PortGroup != g.Name {
				continue
			}
			known = true
			v.Grants = append(v.Grants, fleet.NetworkGrant{ProjectID: fleet.ProjectID(r.ProjectID), ProjectName: r.Project})
		}
		if !known && !store.SeesHosts(a) {
			continue
		}
		out = append(out, v)
	}
	if len(out) == 0 { // reports NotFound for a network that the actor may not know
		_, err = b.NetworkBrief(ctx, a, id)
	}
	return out, err
}
