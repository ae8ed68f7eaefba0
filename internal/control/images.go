package control

import (
	"context"
	"slices"

	"quantix/db"
	"quantix/internal/control/assign"
	"quantix/internal/control/browse"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// Image names a volume that is to be published or withdrawn.
type Image struct {
	PoolID fleet.PoolID
	Volume string
	HostID fleet.HostID // of a local pool: whose file; empty: every host's that has it
}

// PublishImage lets tenants clone a volume, or put it into a drive, as it is now.
func (c *Control) PublishImage(ctx context.Context, a fleet.Actor, in Image) error {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return err
	}
	all, err := c.PoolVolumes(ctx, a, in.PoolID)
	if err != nil {
		return err
	}
	lines := slices.DeleteFunc(all, func(v browse.VolumeOn) bool { return v.Name != in.Volume || in.HostID != "" && v.On() != in.HostID })
	if len(lines) == 0 {
		return fleet.Errorf(fleet.NotFound, "The pool has no volume %q there.", in.Volume)
	}
	for _, v := range lines {
		switch {
		case v.Unfit != "":
			return fleet.Errorf(fleet.Conflict, "%s cannot be published. %s", v.Name, v.Unfit)
		case len(v.Hosts) == 0:
			return fleet.Errorf(fleet.Conflict, "%s cannot be published now: no host that is heard has it.", v.Name)
		}
	}
	return assign.Pools.Change(ctx, c.store, a, string(in.PoolID), func(q *db.Queries, pool assign.Object) error {
		for _, v := range lines {
			work, err := workOn(ctx, q, in.PoolID, in.Volume, v.On())
			if err != nil {
				return err
			}
			if work != "" {
				return fleet.Errorf(fleet.Conflict, "%s cannot be published now: another order for it has not ended (%s).", v.Name, work)
			}
			err = q.PublishImage(ctx, db.PublishImageParams{
				PoolID: in.PoolID, Host: string(v.On()), Volume: v.Name, Format: v.Format, CapacityBytes: v.CapacityBytes, PublishedBy: a.Name,
			})
			if err != nil {
				return err
			}
		}
		return store.Audit(ctx, q, a, "image.publish", pool.Subject(), pool.Name, in.words())
	})
}

// WithdrawImage takes a volume from tenants. Clones and drives that have it keep it.
func (c *Control) WithdrawImage(ctx context.Context, a fleet.Actor, in Image) error {
	return assign.Pools.Change(ctx, c.store, a, string(in.PoolID), func(q *db.Queries, pool assign.Object) error {
		n, err := q.WithdrawImage(ctx, db.WithdrawImageParams{PoolID: in.PoolID, Volume: in.Volume, Host: string(in.HostID)})
		if err != nil {
			return err
		}
		if n == 0 {
			return fleet.Errorf(fleet.NotFound, "%q is not published.", in.Volume)
		}
		return store.Audit(ctx, q, a, "image.withdraw", pool.Subject(), pool.Name, in.words())
	})
}

func (in Image) words() string {
	if in.HostID == "" {
		return in.Volume
	}
	return in.Volume + " on host " + string(in.HostID)
}
