package control

import (
	"context"
	"encoding/json"
	"strings"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/wire"
)

// CreatePool asks for a new pool on some hosts.
type CreatePool struct {
	Name    string         `json:"name"`
	Spec    fleet.PoolSpec `json:"spec"`
	HostIDs []fleet.HostID `json:"hostIds"`
}

// CreatePool writes a new pool and queues its set-up on each host.
func (c *Control) CreatePool(ctx context.Context, a fleet.Actor, in CreatePool) (fleet.PoolView, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return fleet.PoolView{}, err
	}
	if in.Spec.Kind == fleet.PoolNFS {
		in.Spec.Shared = true
	}
	in.Spec.Path = trimSlash(in.Spec.Path)
	in.Spec.Export = trimSlash(in.Spec.Export)
	var checks fleet.Checks
	fleet.CheckName(&checks, "name", in.Name)
	in.Spec.Check(&checks, "spec")
	if err := checks.Err(); err != nil {
		return fleet.PoolView{}, err
	}
	id := fleet.NewID[fleet.PoolID]()
	err := c.tx(ctx, func(q *db.Queries) error {
		if err := q.AddPool(ctx, db.AddPoolParams{ID: id, Name: in.Name, Spec: in.Spec}); err != nil {
			return err
		}
		pool := object{executed: storagePools, id: string(id), name: in.Name, generation: 1, path: in.Spec.Path}
		if _, err := pool.assign(ctx, q, a, in.HostIDs); err != nil {
			return err
		}
		return pool.audit(ctx, q, a, "create", in.Spec.Source())
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
	return storagePools.assign(ctx, c, a, string(id), hosts)
}

// ReleasePool takes a pool from one host; its data stays. It is refused while VMs of that host have disks or ISOs there.
func (c *Control) ReleasePool(ctx context.Context, a fleet.Actor, id fleet.PoolID, host fleet.HostID) (fleet.TaskID, error) {
	return storagePools.releaseFrom(ctx, c, a, string(id), host)
}

// RetryPool sets the pool up on a host again, at once.
func (c *Control) RetryPool(ctx context.Context, a fleet.Actor, id fleet.PoolID, host fleet.HostID) (fleet.TaskID, error) {
	return storagePools.retry(ctx, c, a, string(id), host)
}

// DeletePool releases a pool on all hosts; its row goes with the last of them, and the data stays. It is refused while VMs
// have disks or ISOs there. No job: it was on no host and is gone.
func (c *Control) DeletePool(ctx context.Context, a fleet.Actor, id fleet.PoolID) ([]fleet.TaskID, error) {
	return storagePools.delete(ctx, c, a, string(id))
}

// storagePools are what hosts execute as libvirt's storage pools.
var storagePools = &executed{
	noun: "pool", apply: fleet.PoolApply, release: fleet.PoolRelease,
	lock: func(ctx context.Context, q *db.Queries, id string) (object, error) {
		p, err := q.LockPool(ctx, fleet.PoolID(id))
		_, leaving := poolOf(p).Allows(fleet.ActAssign)
		return object{name: p.Name, generation: p.Generation, leaving: leaving, path: p.Spec.Path}, err
	},
	fits: poolFits, free: poolFree, allows: poolAllows,
	markDelete: func(ctx context.Context, q *db.Queries, id string) error {
		return q.MarkPoolDeleted(ctx, fleet.PoolID(id))
	},
	drop: func(ctx context.Context, q *db.Queries, id string) error { return q.DropPool(ctx, fleet.PoolID(id)) },
	status: func(in wire.Finish) any {
		if in.Pool == nil {
			return nil
		}
		return in.Pool
	},
}

// poolAllows asks the table that the page asks.
func poolAllows(on db.AssignmentOnRow, act fleet.Action) (bool, string, error) {
	cell := fleet.PoolHost{HostName: on.HostName, SeenAt: on.LookedAt, Assigned: on.Assigned}
	if len(on.Status) > 0 {
		if err := json.Unmarshal(on.Status, &cell.Status); err != nil {
			return false, "", err
		}
	}
	cell.State = cell.StateAt(on.Now)
	ok, why := cell.Allows(act)
	return ok, why, nil
}

// poolFits refuses hosts on which another pool has the directory.
func poolFits(ctx context.Context, q *db.Queries, o object, hosts []string) error {
	taken, err := q.PlacesTaken(ctx, db.PlacesTakenParams{Hosts: hosts, PoolID: fleet.PoolID(o.id), Path: o.path})
	if err != nil {
		return err
	}
	var checks fleet.Checks
	for _, t := range taken {
		checks.Add("spec.path", "Pool %s uses %s on %s already. Give another directory.", t.Name, o.path, t.HostName)
	}
	return checks.Err()
}

// poolFree refuses while VMs need the pool: on a host, or on any where host is empty.
func poolFree(ctx context.Context, q *db.Queries, o object, host fleet.HostID) error {
	vms, err := q.PoolNeeded(ctx, db.PoolNeededParams{PoolID: o.id, Host: string(host)})
	if err != nil || len(vms) == 0 {
		return err
	}
	names := make([]string, 0, len(vms))
	for _, v := range vms {
		names = append(names, v.Name)
	}
	if len(names) > 3 {
		names[3] = "others"
	}
	where := "on this host"
	if host == "" {
		where = "still"
	}
	return fleet.Errorf(fleet.Conflict, "VMs %s have disks or an ISO in pool %s: %s. Delete or change them first.", where, o.name, strings.Join(names, ", "))
}
