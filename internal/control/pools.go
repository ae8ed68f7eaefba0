package control

import (
	"context"
	"strings"

	"quantix/db"
	"quantix/internal/control/assign"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// CreatePool asks for a new pool on some hosts.
type CreatePool struct {
	Name    string         `json:"name"`
	Spec    fleet.PoolSpec `json:"spec"`
	HostIDs []fleet.HostID `json:"hostIds"`

	Selector string `json:"selector,omitempty"` // labels of hosts that get it by themselves, now and later: "rack=4, ssd"
}

// CreatePool writes a new pool and queues its set-up on each host.
func (c *Control) CreatePool(ctx context.Context, a fleet.Actor, in CreatePool) (fleet.PoolView, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return fleet.PoolView{}, err
	}
	if in.Spec.Kind.Is().Shared {
		in.Spec.Shared = true
	}
	in.Spec.Path, in.Spec.Export, in.Spec.Device = trimSlash(in.Spec.Path), trimSlash(in.Spec.Export), trimSlash(in.Spec.Device)
	var checks fleet.Checks
	fleet.CheckName(&checks, "name", in.Name)
	in.Spec.Check(&checks, "spec")
	selector := fleet.ParseSelector(&checks, "selector", in.Selector)
	if err := checks.Err(); err != nil {
		return fleet.PoolView{}, err
	}
	id := fleet.NewID[fleet.PoolID]()
	err := c.store.Tx(ctx, func(q *db.Queries) error {
		if err := q.AddPool(ctx, db.AddPoolParams{ID: id, Name: in.Name, Spec: in.Spec}); err != nil {
			return err
		}
		pool := assign.AddedPool(id, in.Name, in.Spec)
		if _, err := pool.Assign(ctx, q, a, in.HostIDs); err != nil {
			return err
		}
		if err := pool.Audit(ctx, q, a, "create", in.Spec.Source()); err != nil {
			return err
		}
		_, _, err := pool.Select(ctx, q, a, selector)
		return err
	})
	if err != nil {
		return fleet.PoolView{}, err
	}
	return c.GetPool(ctx, a, id)
}

func trimSlash(path string) string {
	if len(path) > 1 {
		return strings.TrimSuffix(path, "/")
	}
	return path
}

// AssignPool puts a pool on more hosts. Hosts that have it already stay as they are.
func (c *Control) AssignPool(ctx context.Context, a fleet.Actor, id fleet.PoolID, hosts []fleet.HostID) ([]fleet.TaskID, error) {
	return assign.Pools.Assign(ctx, c.store, a, string(id), hosts)
}

// ReleasePool takes a pool from one host; its data stays. It is refused while VMs of that host have disks or ISOs there.
func (c *Control) ReleasePool(ctx context.Context, a fleet.Actor, id fleet.PoolID, host fleet.HostID) (fleet.TaskID, error) {
	return assign.Pools.Release(ctx, c.store, a, string(id), host)
}

// RetryPool sets the pool up on a host again, at once.
func (c *Control) RetryPool(ctx context.Context, a fleet.Actor, id fleet.PoolID, host fleet.HostID) (fleet.TaskID, error) {
	return assign.Pools.Retry(ctx, c.store, a, string(id), host)
}

// RetryPoolEverywhere sets the pool up again on all hosts where it failed.
func (c *Control) RetryPoolEverywhere(ctx context.Context, a fleet.Actor, id fleet.PoolID) (fleet.Retried, error) {
	return assign.Pools.RetryAll(ctx, c.store, a, string(id))
}

// LabelPool says which labels a host must have to get the pool by itself; none: no host does. Those that have them get it at once.
func (c *Control) LabelPool(ctx context.Context, a fleet.Actor, id fleet.PoolID, selector string) (fleet.ByLabel, error) {
	return assign.Pools.Select(ctx, c.store, a, string(id), selector)
}

// PoolLabels tells how the pool comes to hosts by their labels.
func (c *Control) PoolLabels(ctx context.Context, a fleet.Actor, id fleet.PoolID) (fleet.ByLabel, error) {
	return assign.Pools.ByLabel(ctx, c.store, a, string(id))
}

// LabelledForPool tells which hosts a selector matches, and which of them have the pool; empty: a new one.
func (c *Control) LabelledForPool(ctx context.Context, a fleet.Actor, id fleet.PoolID, selector string) (fleet.Labelled, error) {
	return assign.Pools.Preview(ctx, c.store, a, string(id), selector)
}

// DeletePool releases a pool on all hosts; its row goes with the last of them, and the data stays. It is refused while VMs
// have disks or ISOs there. No job: it was on no host and is gone.
func (c *Control) DeletePool(ctx context.Context, a fleet.Actor, id fleet.PoolID) ([]fleet.TaskID, error) {
	return assign.Pools.Delete(ctx, c.store, a, string(id))
}
