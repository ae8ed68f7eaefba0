package network

import (
	"context"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// GrantNetwork makes a restricted network available to the VMs of a project, or of all projects if project is empty.
func (n *Networks) GrantNetwork(ctx context.Context, a fleet.Actor, id fleet.NetworkID, project fleet.ProjectID) error {
	return n.setNetworkGrant(ctx, a, id, project, "network.grant", func(q *db.Queries, of *fleet.ProjectID) (int64, error) {
		return q.GrantNetwork(ctx, db.GrantNetworkParams{NetworkID: id, ProjectID: of})
	})
}

// RevokeNetwork removes a grant. VMs on the network stay on it.
func (n *Networks) RevokeNetwork(ctx context.Context, a fleet.Actor, id fleet.NetworkID, project fleet.ProjectID) error {
	return n.setNetworkGrant(ctx, a, id, project, "network.revoke", func(q *db.Queries, of *fleet.ProjectID) (int64, error) {
		return q.RevokeNetwork(ctx, db.RevokeNetworkParams{NetworkID: id, ProjectID: of})
	})
}

func (n *Networks) setNetworkGrant(ctx context.Context, a fleet.Actor, id fleet.NetworkID, project fleet.ProjectID, action string, set func(*db.Queries, *fleet.ProjectID) (int64, error)) error {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return err
	}
	if err := store.CheckID(id, "network"); err != nil {
		return err
	}
	return n.store.Tx(ctx, func(q *db.Queries) error {
		network, err := q.ShareLockNetwork(ctx, id)
		if err != nil {
			return store.NotFoundError(err, "network")
		}
		name, of := "all projects", (*fleet.ProjectID)(nil)
		if project != "" {
			if name, err = q.ProjectName(ctx, project); err != nil {
				return store.NotFoundError(err, "project")
			}
			of = &project
		}
		changed, err := set(q, of)
		if err != nil || changed == 0 {
			return err
		}
		return store.Audit(ctx, q, a, action, fleet.Subject("net:"+string(id)), network, name)
	})
}
