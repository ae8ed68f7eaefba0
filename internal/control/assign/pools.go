package assign

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// PoolType is the resource type of storage pools. Hosts execute them as libvirt pools.
var PoolType = registerAssignableType(AssignableType{
	typ: "pool", applyKind: fleet.PoolApply, releaseKind: fleet.PoolRelease, reapplyKind: fleet.PoolReapply,
	lockObject: func(ctx context.Context, q *db.Queries, id string) (AssignableObject, error) {
		p, err := q.LockPool(ctx, fleet.PoolID(id))
		_, leaving := store.PoolFromRow(p).Allows(fleet.ActAssign)
		o := poolObjectWithoutID(p.Name, p.Spec)
		o.generation, o.changeRefusal = p.Generation, leaving
		return o, err
	},
	checkHostsFit: checkPoolFitsHosts, checkUnusedOnHost: checkPoolUnused, actionAllowed: poolActionAllowed,
	markDeleted: func(ctx context.Context, q *db.Queries, id string) error {
		return q.MarkPoolDeleted(ctx, fleet.PoolID(id))
	},
	deleteRow: func(ctx context.Context, q *db.Queries, id string) error { return q.DropPool(ctx, fleet.PoolID(id)) },
	readAssigned: func(ctx context.Context, q *db.Queries) ([]assignedObject, error) {
		rows, err := q.AssignedPools(ctx)
		out := make([]assignedObject, len(rows))
		for i, r := range rows {
			pool := store.PoolFromRow(r.Pool)
			out[i] = assignedObject{r.Hosts, func(on *wire.AssignedObjects) { on.Pools = appendClipped(on.Pools, pool) }}
		}
		return out, err
	},
	observedStatus: func(in wire.Finish) any {
		if in.Pool == nil {
			return nil
		}
		return in.Pool
	},
})

// poolObjectWithoutID returns a pool as an AssignableObject without ID and generation.
func poolObjectWithoutID(name string, spec fleet.PoolSpec) AssignableObject {
	field, place := spec.Location()
	return AssignableObject{Name: name, locationField: field, location: place, oneHostReason: spec.WhySingleHost()}
}

// poolActionAllowed reports whether the assignment's status allows the action. It uses the same rules as the pool's
// page.
func poolActionAllowed(on db.AssignmentOnRow, act fleet.Action) (bool, string, error) {
	status := fleet.PoolHost{HostName: on.HostName, SeenAt: fleet.NewReportTime(on.LookedAt, on.FreshFor), Assigned: on.Assigned}
	if len(on.Status) > 0 {
		if err := json.Unmarshal(on.Status, &status.Status); err != nil {
			return false, "", err
		}
	}
	status.State = status.StateAt(on.Now)
	ok, why := status.Allows(act)
	return ok, why, nil
}

// checkPoolFitsHosts rejects hosts without the role storage, and hosts that have another pool with the same storage location,
// such as a directory or volume group. It also rejects a second host for a pool that only one host can have.
func checkPoolFitsHosts(ctx context.Context, q *db.Queries, o AssignableObject, hosts []string) error {
	if o.oneHostReason != "" {
		on, err := q.AssignedHosts(ctx, db.AssignedHostsParams{Noun: o.assignable.typ, ObjectID: o.id})
		if err != nil {
			return err
		}
		all := slices.Concat(hosts, store.ToStrings(on))
		slices.Sort(all)
		if len(slices.Compact(all)) > 1 {
			var checks fleet.Checks
			checks.Add("hostIds", "%s", o.oneHostReason)
			return checks.Err()
		}
	}
	without, err := q.HostsWithoutStorageRole(ctx, hosts)
	if err != nil {
		return err
	}
	if len(without) > 0 {
		var checks fleet.Checks
		checks.Add("hostIds", "%s does not have the role storage. Give the host the role, or choose other hosts.", without[0])
		return checks.Err()
	}
	taken, err := q.PlacesInUse(ctx, db.PlacesInUseParams{Hosts: hosts, PoolID: fleet.PoolID(o.id), Place: o.location})
	if err != nil {
		return err
	}
	var checks fleet.Checks
	for _, t := range taken {
		checks.Add("spec."+o.locationField, "Pool %s uses %s on %s already. Give another one.", t.Name, o.location, t.HostName)
	}
	return checks.Err()
}

// checkPoolUnused returns a conflict while VMs or pending disk migrations need the pool, on the host, or on any host if
// host is empty.
func checkPoolUnused(ctx context.Context, q *db.Queries, o AssignableObject, host fleet.HostID) error {
	coming, err := q.PoolAwaited(ctx, db.PoolAwaitedParams{PoolID: o.id, Host: string(host)})
	if err == nil && len(coming) > 0 {
		err = fleet.Errorf(fleet.Conflict, "Disks of %s are being moved to pool %s. Wait until the disk migrations have ended, or cancel them in the VMs' tasks.", strings.Join(coming, ", "), o.Name)
	}
	if err != nil {
		return err
	}
	vms, err := q.PoolNeeded(ctx, db.PoolNeededParams{PoolID: o.id, Host: string(host)})
	if err != nil || len(vms) == 0 {
		return err
	}
	names := make([]string, 0, len(vms))
	for _, v := range vms {
		names = append(names, v.Name)
	}
	return objectInUseError(o, host, names, "disks or an ISO in")
}

// objectInUseError returns the conflict that lists a few VMs that use the object.
func objectInUseError(o AssignableObject, host fleet.HostID, vms []string, what string) error {
	if len(vms) > 3 {
		vms[3] = "others"
	}
	where := "on this host"
	if host == "" {
		where = "still"
	}
	return fleet.Errorf(fleet.Conflict, "VMs %s have %s %s %s: %s. Delete or change these VMs first.", where, what, o.assignable.typeLabel(), o.Name, strings.Join(vms, ", "))
}

// NewPoolObject returns a pool whose row the transaction has just created.
func NewPoolObject(id fleet.PoolID, name string, spec fleet.PoolSpec) AssignableObject {
	return PoolType.createdObject(string(id), poolObjectWithoutID(name, spec))
}

// QueueRepeatedSetup raises the pool's generation and queues its setup on its hosts again, up to a limit. The drift
// pass later queues the setup on the other hosts, whose applied generation is then older.
func (o AssignableObject) QueueRepeatedSetup(ctx context.Context, q *db.Queries, a fleet.Actor) ([]fleet.TaskID, error) {
	if err := q.RenewPool(ctx, fleet.PoolID(o.id)); err != nil {
		return nil, err
	}
	o.generation++
	hosts, err := q.FirstAssignedHosts(ctx, db.FirstAssignedHostsParams{Noun: o.assignable.typ, ObjectID: o.id, Most: maxRetriedHosts})
	if err != nil {
		return nil, err
	}
	tasks := make([]fleet.TaskID, len(hosts))
	for i, h := range hosts {
		if tasks[i], err = o.queueJob(ctx, q, a, h, o.assignable.applyKind, o.assignable.releaseKind); err != nil {
			return nil, err
		}
	}
	return tasks, nil
}
