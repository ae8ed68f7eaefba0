package control

import (
	"context"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// GrantNetwork opens a restricted network to the VMs of a project, or of all projects where project is empty.
func (c *Control) GrantNetwork(ctx context.Context, a fleet.Actor, id fleet.NetworkID, project fleet.ProjectID) error {
	return c.setGrant(ctx, a, id, project, "network.grant", func(q *db.Queries, of *fleet.ProjectID) (int64, error) {
		return q.GrantNetwork(ctx, db.GrantNetworkParams{NetworkID: id, ProjectID: of})
	})
}

// RevokeNetwork takes a grant back. VMs that are on the network stay on it.
func (c *Control) RevokeNetwork(ctx context.Context, a fleet.Actor, id fleet.NetworkID, project fleet.ProjectID) error {
	return c.setGrant(ctx, a, id, project, "network.revoke", func(q *db.Queries, of *fleet.ProjectID) (int64, error) {
		return q.RevokeNetwork(ctx, db.RevokeNetworkParams{NetworkID: id, ProjectID: of})
	})
}

func (c *Control) setGrant(ctx context.Context, a fleet.Actor, id fleet.NetworkID, project fleet.ProjectID, action string, set func(*db.Queries, *fleet.ProjectID) (int64, error)) error {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return err
	}
	if err := checkID(id, "network"); err != nil {
		return err
	}
	return c.tx(ctx, func(q *db.Queries) error {
		network, err := q.HoldNetwork(ctx, id)
		if err != nil {
			return notFound(err, "network")
		}
		name, of := "all projects", (*fleet.ProjectID)(nil)
		if project != "" {
			if name, err = q.ProjectName(ctx, project); err != nil {
				return notFound(err, "project")
			}
			of = &project
		}
		changed, err := set(q, of)
		if err != nil || changed == 0 {
			return err
		}
		return audit(ctx, q, a, action, fleet.Subject("net:"+string(id)), network, name)
	})
}

// UsableNetworks lists the networks that the actor may put a new VM on in one of its projects, by name.
func (c *Control) UsableNetworks(ctx context.Context, a fleet.Actor) ([]fleet.NetworkView, error) {
	if err := policy.Check(a, policy.StorageSee, ""); err != nil {
		return nil, err
	}
	var s statement
	if !policy.May(a, policy.InfraChange, "") {
		s.open("n", projectsWith(a, policy.VMChange))
	}
	return c.networks(ctx, a, "networks", "n.name, n.id", s)
}

// NetworksFor lists the networks of the VM's host that the actor may put it on, by name.
func (c *Control) NetworksFor(ctx context.Context, a fleet.Actor, id fleet.VMID) ([]fleet.NetworkView, error) {
	vm, err := c.GetVM(ctx, a, id)
	if err != nil {
		return nil, err
	}
	var s statement
	s.and("n.id IN (SELECT x.network_id FROM assignments x JOIN vms v ON v.host_id = x.host_id WHERE v.id = " + s.arg(string(id)) + ")")
	if !policy.May(a, policy.InfraChange, "") {
		s.open("n", []string{string(vm.ProjectID)})
	}
	return c.networks(ctx, a, "networks", "n.name, n.id", s)
}

// knownNetworks keeps networks n to those that the actor may know of: who sees no hosts hears of a restricted one by a grant.
func (s *statement) knownNetworks(a fleet.Actor) {
	if !policy.May(a, policy.InfraSee, "") {
		s.open("n", projectsOf(a))
	}
}

// open is the condition that VMs of one of the projects may be on the network.
func (s *statement) open(n string, projects []string) {
	s.and("NOT leads_out(" + n + ".id, " + n + ".kind) OR EXISTS (SELECT 1 FROM network_grants g WHERE g.network_id = " + n +
		".id AND (g.project_id IS NULL OR " + s.oneOf("g.project_id", projects) + "))")
}

// addGrants fills in whom restricted networks are granted to, as far as the actor may know.
func (c *Control) addGrants(ctx context.Context, a fleet.Actor, views []fleet.NetworkView) error {
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
	rows, err := c.q.NetworkGrants(ctx, db.NetworkGrantsParams{Networks: ids, AllProjects: policy.AllProjects(a), Projects: projectsOf(a)})
	for _, r := range rows {
		grant := fleet.NetworkGrant{ProjectName: r.Project}
		if r.ProjectID != nil {
			grant.ProjectID = *r.ProjectID
		}
		at[r.NetworkID].Grants = append(at[r.NetworkID].Grants, grant)
	}
	return dbError(err)
}
