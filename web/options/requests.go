package options

import (
	"context"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views/kit"
)

// unpublishedPoolOptions lists the pools that are not published to project c.ParentID.
func (r *Reader) unpublishedPoolOptions(ctx context.Context, a fleet.Actor, c Query) ([]kit.Option, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return nil, err
	}
	pools, err := r.Control.UsablePools(ctx, a, "")
	if err != nil {
		return nil, err
	}
	c.Pools = []fleet.PoolView{}
	for _, p := range pools {
		if !p.OpenToProject(fleet.ProjectID(c.ParentID)) {
			c.Pools = append(c.Pools, p)
		}
	}
	return r.PoolOptions(ctx, a, c)
}

// unpublishedNetworkOptions lists the networks that are not published to project c.ParentID; the option values are IDs.
func (r *Reader) unpublishedNetworkOptions(ctx context.Context, a fleet.Actor, c Query) (out []kit.Option, err error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return nil, err
	}
	networks, err := r.Control.UsableNetworks(ctx, a)
	for _, n := range networks {
		if !n.OpenToProject(fleet.ProjectID(c.ParentID)) {
			out = append(out, kit.Option{Value: string(n.ID), Text: networkOption(a, n).Text})
		}
	}
	return out, err
}
