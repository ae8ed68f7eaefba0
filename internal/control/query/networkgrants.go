package query

import (
	"context"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// UsableNetworks lists the networks that new VMs may use in at least one of the actor's projects, by name.
func (b *Queries) UsableNetworks(ctx context.Context, a fleet.Actor) ([]fleet.NetworkView, error) {
	if err := policy.Check(a, policy.StorageSee, ""); err != nil {
		return nil, err
	}
	var s statementBuilder
	if !policy.May(a, policy.InfraChange, "") {
		s.whereNetworkUsable("n", store.ProjectsWithPermission(a, policy.VMChange))
	}
	s.addCondition("EXISTS (SELECT 1 FROM assignments x WHERE x.network_id = n.id)")
	return b.readNetworks(ctx, a, &s, " ORDER BY n.name, n.id")
}

// NetworksForVM lists the networks of the VM's host to which the actor may connect the VM, by name.
func (b *Queries) NetworksForVM(ctx context.Context, a fleet.Actor, id fleet.VMID) ([]fleet.NetworkView, error) {
	vm, err := b.GetVM(ctx, a, id)
	if err != nil {
		return nil, err
	}
	var s statementBuilder
	s.addCondition("n.id IN (SELECT x.network_id FROM assignments x JOIN vms v ON v.host_id = x.host_id WHERE v.id = " + s.addArg(string(id)) + ")")
	if !policy.May(a, policy.InfraChange, "") {
		s.whereNetworkUsable("n", []string{string(vm.ProjectID)})
	}
	return b.readNetworks(ctx, a, &s, " ORDER BY n.name, n.id")
}

// whereNetworkVisible limits networks (alias n) to those that the actor may see. An actor who cannot see hosts sees a
// restricted network only with a grant.
func (s *statementBuilder) whereNetworkVisible(a fleet.Actor) {
	if !policy.May(a, policy.InfraSee, "") {
		s.whereNetworkUsable("n", store.VisibleProjects(a))
	}
}

// whereNetworkUsable adds the condition that VMs of at least one of the projects may use the network with the alias n.
func (s *statementBuilder) whereNetworkUsable(n string, projects []string) {
	s.addCondition("NOT leads_out(" + n + ".id, " + n + ".kind) OR EXISTS (SELECT 1 FROM network_grants g WHERE g.network_id = " + n +
		".id AND (g.project_id IS NULL OR " + s.oneOfSQL("g.project_id", projects) + "))")
}

// addNetworkGrants fills in the grants of restricted networks that the actor may see.
func (b *Queries) addNetworkGrants(ctx context.Context, a fleet.Actor, views []fleet.NetworkView) error {
	at := map[fleet.NetworkID]*fleet.NetworkView{}
	ids := []string{}
	for i := range views {
		if v := &views[i]; v.Restricted {
			at[v.ID] = v
			ids = append(ids, string(v.ID))
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := b.store.NetworkGrants(ctx, db.NetworkGrantsParams{Networks: ids, AllProjects: policy.SeesAllProjects(a), Projects: store.VisibleProjects(a)})
	for _, r := range rows {
		grant := fleet.NetworkGrant{ProjectName: r.Project}
		if r.ProjectID != nil {
			grant.ProjectID = *r.ProjectID
		}
		at[r.NetworkID].Grants = append(at[r.NetworkID].Grants, grant)
	}
	return store.UserError(err)
}
