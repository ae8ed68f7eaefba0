package options

import (
	"cmp"
	"context"
	"slices"

	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/views/kit"
)

// PoolOptions lists the pools that new disks may use in one of the user's projects.
func (r *Reader) PoolOptions(ctx context.Context, a fleet.Actor, c Query) ([]kit.Option, error) {
	pools, err := slices.Clone(c.Pools), error(nil)
	if c.Pools == nil {
		pools, err = r.Control.UsablePools(ctx, a, "")
	}
	// Usable pools come first.
	slices.SortStableFunc(pools, func(p, q fleet.PoolView) int { return cmp.Compare(poolUnusableRank(p), poolUnusableRank(q)) })
	var out []kit.Option
	for _, p := range pools {
		if is := p.Spec.Kind.Info(); is.Kind != "" && !is.CreatesVolumes {
			continue // raw disks of a block pool are chosen individually
		}
		text := p.Name
		if poolUnusableRank(p) > 0 {
			text += poolUnusableText(a)
		} else if p.Health.CapacityBytes > 0 {
			text += " · " + PoolFreeSpaceText(p.Health)
		}
		out = append(out, kit.Option{Value: string(p.ID), Text: text + onlyInText(a, p.Grants)})
	}
	return out, err
}

// projectPoolOptions lists the pools that project c.ParentID may use, and the chosen ones.
func (r *Reader) projectPoolOptions(ctx context.Context, a fleet.Actor, c Query) ([]kit.Option, error) {
	if err := policy.Check(a, policy.Manage, ""); err != nil {
		return nil, err
	}
	pools, err := r.Control.UsablePools(ctx, a, "")
	if err != nil {
		return nil, err
	}
	c.Pools = slices.DeleteFunc(pools, func(p fleet.PoolView) bool {
		return !p.OpenToProject(fleet.ProjectID(c.ParentID)) && !slices.Contains(c.Chosen, string(p.ID))
	})
	return r.PoolOptions(ctx, a, c)
}

// poolGrantOptions lists the projects that pool c.ParentID is not published to; none if it is published to all.
func (r *Reader) poolGrantOptions(ctx context.Context, a fleet.Actor, c Query) ([]kit.Option, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return nil, err
	}
	if len(c.Pools) == 1 {
		return r.grantOptions(ctx, a, c, c.Pools[0].Grants)
	}
	p, err := r.Control.GetPool(ctx, a, fleet.PoolID(c.ParentID))
	if err != nil {
		return nil, err
	}
	return r.grantOptions(ctx, a, c, p.Grants)
}

// PoolFreeSpaceText describes a pool's free and provisioned space, as a hint for users who choose a disk size.
func PoolFreeSpaceText(h fleet.PoolHealth) string {
	text := kit.Bytes(h.AvailableBytes) + " free"
	switch {
	case h.Full > 0:
		text += ", full"
	case h.ProvisionedBytes >= h.AvailableBytes && h.ProvisionedBytes > 0:
		text += " (all provisioned)"
	case h.ProvisionedBytes > 0:
		text += " (" + kit.Bytes(h.ProvisionedBytes) + " provisioned)"
	}
	return text
}

// poolUnusableText says why a pool cannot be chosen now.
func poolUnusableText(a fleet.Actor) string {
	if !policy.May(a, policy.InfraSee, "") {
		return " · not available now"
	}
	return " · healthy on no host"
}

// poolUnusableRank returns 1 for a pool where no host can create a disk now, else 0. Selects sort pools by this rank,
// so usable pools come first.
func poolUnusableRank(p fleet.PoolView) int {
	if p.Health.Healthy == 0 || p.DeletedAt != nil {
		return 1
	}
	return 0
}
