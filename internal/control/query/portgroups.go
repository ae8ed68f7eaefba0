package query

import (
	"context"
	"slices"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// PortGroupChoice is a port group that a NIC can be connected to.
type PortGroupChoice struct {
	NetworkID fleet.NetworkID
	Network   string
	Name      string
}

// UsablePortGroups lists the port groups to which the actor may connect VMs in one of its projects, by network and
// name.
func (b *Queries) UsablePortGroups(ctx context.Context, a fleet.Actor) ([]PortGroupChoice, error) {
	if err := policy.Check(a, policy.StorageSee, ""); err != nil {
		return nil, err
	}
	rows, err := b.store.GroupsToUse(ctx, db.GroupsToUseParams{AllProjects: policy.May(a, policy.InfraChange, ""), Projects: store.ProjectsWithPermission(a, policy.VMChange)})
	out := make([]PortGroupChoice, len(rows))
	for i, r := range rows {
		out[i] = PortGroupChoice{NetworkID: r.ID, Network: r.Name, Name: r.PortGroup}
	}
	return out, store.UserError(err)
}

// PortGroups lists those port groups of a network that the actor may see, with their grants.
func (b *Queries) PortGroups(ctx context.Context, a fleet.Actor, id fleet.NetworkID) ([]fleet.PortGroupUse, error) {
	if err := policy.Check(a, policy.StorageSee, ""); err != nil {
		return nil, err
	}
	if err := store.CheckID(id, "network"); err != nil {
		return nil, err
	}
	specs, err := b.store.NetworkSpecs(ctx, []string{string(id)})
	if err != nil {
		return nil, store.UserError(err)
	}
	out := []fleet.PortGroupUse{}
	if len(specs) == 0 || specs[0].Spec == nil {
		_, err := b.NetworkBrief(ctx, a, id)
		return out, err
	}
	use, err := b.UsablePortGroups(ctx, a)
	if err != nil {
		return nil, err
	}
	grants, err := b.store.PortGroupGrants(ctx, db.PortGroupGrantsParams{NetworkID: id, AllProjects: policy.SeesAllProjects(a), Projects: store.VisibleProjects(a)})
	if err != nil {
		return nil, store.UserError(err)
	}
	on := map[string]int{}
	if store.SeesHosts(a) {
		rows, err := b.store.CountOnGroups(ctx, string(id))
		if err != nil {
			return nil, store.UserError(err)
		}
		for _, r := range rows {
			on[r.PortGroup] = int(r.Vms)
		}
	}
	for _, g := range specs[0].Spec.PortGroups {
		known := slices.ContainsFunc(use, func(c PortGroupChoice) bool { return c.NetworkID == id && c.Name == g.Name })
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
	if len(out) == 0 { // reports NotFoundError for a network that the actor may not know
		_, err = b.NetworkBrief(ctx, a, id)
	}
	return out, err
}
