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
		s.whereNetworkGranted(store.ProjectsWithPermission(a, policy.VMChange))
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
		s.whereNetworkGranted([]string{string(vm.ProjectID)})
	}
	return b.readNetworks(ctx, a, &s, " ORDER BY n.name, n.id")
}

// UsablePools lists the pools that new disks may use in at least one of the actor's projects, or in the given project, by
// name. Actors who may change infrastructure may use every pool.
func (b *Queries) UsablePools(ctx context.Context, a fleet.Actor, project fleet.ProjectID) ([]fleet.PoolView, error) {
	if err := policy.Check(a, policy.StorageSee, ""); err != nil {
		return nil, err
	}
	if err := policy.Check(a, policy.VMSee, project); project != "" && err != nil {
		return nil, store.UnknownProjectError(err)
	}
	var s statementBuilder
	if !policy.May(a, policy.InfraChange, "") {
		projects := store.ProjectsWithPermission(a, policy.VMChange)
		if project != "" {
			projects = []string{string(project)}
		}
		s.wherePoolGranted(projects)
	}
	rows, err := b.readPoolRows(ctx, s, " ORDER BY p.name, p.id")
	if err != nil {
		return nil, err
	}
	return b.poolViews(ctx, a, rows)
}

// whereNetworkVisible limits networks (alias n) to those that the actor may see. An actor who cannot see hosts sees the
// networks that are published to one of the actor's projects.
func (s *statementBuilder) whereNetworkVisible(a fleet.Actor) {
	if !policy.May(a, policy.InfraSee, "") {
		s.whereNetworkGranted(store.VisibleProjects(a))
	}
}

// wherePoolVisible limits pools (alias p) like whereNetworkVisible limits networks.
func (s *statementBuilder) wherePoolVisible(a fleet.Actor, _ fleet.ProjectID) {
	if !policy.May(a, policy.InfraSee, "") {
		s.wherePoolGranted(store.VisibleProjects(a))
	}
}

// whereNetworkGranted limits networks (alias n) to those that are published to at least one of the projects.
func (s *statementBuilder) whereNetworkGranted(projects []string) {
	s.addCondition("EXISTS (SELECT 1 FROM network_grants g WHERE g.network_id = n.id AND (g.project_id IS NULL OR " + s.oneOfSQL("g.project_id", projects) + "))")
}

// wherePoolGranted limits pools (alias p) to those that are published to at least one of the projects.
func (s *statementBuilder) wherePoolGranted(projects []string) {
	s.addCondition("EXISTS (SELECT 1 FROM pool_grants g WHERE g.pool_id = p.id AND (g.project_id IS NULL OR " + s.oneOfSQL("g.project_id", projects) + "))")
}

// addNetworkGrants fills in the grants of the networks that the actor may see.
func (b *Queries) addNetworkGrants(ctx context.Context, a fleet.Actor, views []fleet.NetworkView) error {
	ids, of := make([]string, len(views)), map[fleet.NetworkID][]fleet.NetworkGrant{}
	for i, v := range views {
		ids[i] = string(v.ID)
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := b.store.NetworkGrants(ctx, db.NetworkGrantsParams{Networks: ids, AllProjects: policy.SeesAllProjects(a), Projects: store.VisibleProjects(a)})
	for _, r := range rows {
		of[r.NetworkID] = append(of[r.NetworkID], fleet.NetworkGrant(grantFromRow(a, db.PoolGrantsRow{ProjectID: r.ProjectID, Project: r.Project, GrantedBy: r.GrantedBy, GrantedAt: r.GrantedAt})))
	}
	for i := range views {
		views[i].Grants = append(views[i].Grants, of[views[i].ID]...)
	}
	return store.UserError(err)
}

// addPoolGrants fills in the grants of the pools that the actor may see.
func (b *Queries) addPoolGrants(ctx context.Context, a fleet.Actor, views []fleet.PoolView) error {
	ids, of := make([]string, len(views)), map[fleet.PoolID][]fleet.ProjectGrant{}
	for i, v := range views {
		ids[i] = string(v.ID)
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := b.store.PoolGrants(ctx, db.PoolGrantsParams{Pools: ids, AllProjects: policy.SeesAllProjects(a), Projects: store.VisibleProjects(a)})
	for _, r := range rows {
		of[r.PoolID] = append(of[r.PoolID], grantFromRow(a, r))
	}
	for i := range views {
		views[i].Grants = append(views[i].Grants, of[views[i].ID]...)
	}
	return store.UserError(err)
}

// grantFromRow returns the grant, without its author for actors who cannot see hosts.
func grantFromRow(a fleet.Actor, r db.PoolGrantsRow) fleet.ProjectGrant {
	g := fleet.ProjectGrant{ProjectID: fleet.ProjectID(r.ProjectID), ProjectName: r.Project, By: r.GrantedBy, At: r.GrantedAt}
	if !store.SeesHosts(a) {
		g.By = ""
	}
	return g
}
