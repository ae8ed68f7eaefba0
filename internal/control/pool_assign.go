package control

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/policy"
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
		pool := db.Pool{ID: id, Name: in.Name, Spec: in.Spec, Generation: 1}
		if _, err := assignPool(ctx, q, a, pool, in.HostIDs); err != nil {
			return err
		}
		return audit(ctx, q, a, "pool.create", fleet.SubjectPool(id), in.Name, in.Spec.Source())
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
	jobs := []fleet.TaskID{}
	err := c.changePool(ctx, a, id, func(q *db.Queries, pool db.Pool) error {
		if len(hosts) == 0 {
			var checks fleet.Checks
			checks.Add("hostIds", "Choose at least one host.")
			return checks.Err()
		}
		var err error
		if jobs, err = assignPool(ctx, q, a, pool, hosts); err != nil {
			return err
		}
		return audit(ctx, q, a, "pool.assign", fleet.SubjectPool(id), pool.Name, fmt.Sprintf("to %d hosts", len(jobs)))
	})
	return jobs, err
}

// changePool runs do with the locked pool, which is not being deleted.
func (c *Control) changePool(ctx context.Context, a fleet.Actor, id fleet.PoolID, do func(*db.Queries, db.Pool) error) error {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return err
	}
	if err := checkID(id, "pool"); err != nil {
		return err
	}
	return c.tx(ctx, func(q *db.Queries) error {
		pool, err := q.LockPool(ctx, id)
		if err != nil {
			return notFound(err, "pool")
		}
		if pool.DeletedAt != nil {
			return fleet.Errorf(fleet.Conflict, "The pool is being deleted.")
		}
		return do(q, pool)
	})
}

func assignPool(ctx context.Context, q *db.Queries, a fleet.Actor, pool db.Pool, hosts []fleet.HostID) ([]fleet.TaskID, error) {
	ids := make([]string, len(hosts))
	for i, h := range hosts {
		ids[i] = string(h)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	known, err := q.HostsNamed(ctx, ids)
	if err != nil {
		return nil, err
	}
	var checks fleet.Checks
	if len(known) != len(ids) {
		checks.Add("hostIds", "One of the hosts does not exist any more. Reload and choose again.")
		return nil, checks.Err()
	}
	taken, err := q.PlacesTaken(ctx, db.PlacesTakenParams{Hosts: ids, PoolID: pool.ID, Path: pool.Spec.Path})
	if err != nil {
		return nil, err
	}
	for _, t := range taken {
		checks.Add("spec.path", "Pool %s uses %s on %s already. Give another directory.", t.Name, pool.Spec.Path, t.HostName)
	}
	if err := checks.Err(); err != nil {
		return nil, err
	}
	jobs := []fleet.TaskID{}
	for _, h := range known {
		n, err := q.AssignPoolTo(ctx, db.AssignPoolToParams{PoolID: pool.ID, HostID: h.ID})
		if err != nil {
			return nil, err
		}
		if n == 0 {
			continue
		}
		job, err := queuePool(ctx, q, a, pool, h.ID, fleet.PoolApply, fleet.PoolRelease)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, job)
	}
	return jobs, nil
}

// queuePool queues work on one host and cancels the waiting contrary.
func queuePool(ctx context.Context, q *db.Queries, a fleet.Actor, pool db.Pool, host fleet.HostID, kind, contrary fleet.JobKind) (fleet.TaskID, error) {
	subject := fleet.SubjectPool(pool.ID)
	err := q.CancelWaiting(ctx, db.CancelWaitingParams{
		Subject: subject, HostID: host, Kinds: []string{string(contrary)}, Error: "Not done: the contrary was asked for before its turn came.",
	})
	if err != nil {
		return "", err
	}
	return queue(ctx, q, a, db.QueueJobParams{
		HostID: host, Kind: kind, Subject: subject, SubjectName: pool.Name, Generation: pool.Generation,
	})
}

// ReleasePool takes a pool from one host; its data stays. It is refused while VMs of that host have disks or ISOs there.
func (c *Control) ReleasePool(ctx context.Context, a fleet.Actor, id fleet.PoolID, host fleet.HostID) (fleet.TaskID, error) {
	var job fleet.TaskID
	err := c.changePool(ctx, a, id, func(q *db.Queries, pool db.Pool) error {
		if err := poolFree(ctx, q, pool, host, "on this host"); err != nil {
			return err
		}
		n, err := q.ReleasePoolFrom(ctx, db.ReleasePoolFromParams{PoolID: id, HostID: host})
		if err != nil {
			return err
		}
		if n == 0 {
			return fleet.Errorf(fleet.NotFound, "The pool is not assigned to this host.")
		}
		if job, err = queuePool(ctx, q, a, pool, host, fleet.PoolRelease, fleet.PoolApply); err != nil {
			return err
		}
		return audit(ctx, q, a, "pool.release", fleet.SubjectPool(id), pool.Name, "from host "+string(host))
	})
	return job, err
}

// poolFree refuses while VMs need the pool: on a host, or on any where host is empty.
func poolFree(ctx context.Context, q *db.Queries, pool db.Pool, host fleet.HostID, where string) error {
	vms, err := q.PoolNeeded(ctx, db.PoolNeededParams{PoolID: string(pool.ID), Host: string(host)})
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
	return fleet.Errorf(fleet.Conflict, "VMs %s have disks or an ISO in pool %s: %s. Delete or change them first.", where, pool.Name, strings.Join(names, ", "))
}

// RetryPool sets the pool up on a host again, at once.
func (c *Control) RetryPool(ctx context.Context, a fleet.Actor, id fleet.PoolID, host fleet.HostID) (fleet.TaskID, error) {
	var job fleet.TaskID
	err := c.changePool(ctx, a, id, func(q *db.Queries, pool db.Pool) error {
		cells, err := q.PoolHosts(ctx, id)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(cells, func(x db.PoolHostsRow) bool { return x.HostID == host && x.Assigned }) {
			return fleet.Errorf(fleet.NotFound, "The pool is not assigned to this host.")
		}
		if job, err = queuePool(ctx, q, a, pool, host, fleet.PoolApply, fleet.PoolRelease); err != nil {
			return err
		}
		return audit(ctx, q, a, "pool.retry", fleet.SubjectPool(id), pool.Name, "on host "+string(host))
	})
	return job, err
}

// DeletePool releases a pool on all hosts; its row goes with the last of them, and the data stays. It is refused while VMs
// have disks or ISOs there. No job: it was on no host and is gone.
func (c *Control) DeletePool(ctx context.Context, a fleet.Actor, id fleet.PoolID) ([]fleet.TaskID, error) {
	jobs := []fleet.TaskID{}
	err := c.changePool(ctx, a, id, func(q *db.Queries, pool db.Pool) error {
		jobs = jobs[:0]
		if err := poolFree(ctx, q, pool, "", "still"); err != nil {
			return err
		}
		cells, err := q.PoolHosts(ctx, id)
		if err != nil {
			return err
		}
		if err := audit(ctx, q, a, "pool.delete", fleet.SubjectPool(id), pool.Name, fmt.Sprintf("from %d hosts", len(cells))); err != nil {
			return err
		}
		if len(cells) == 0 {
			return q.DropPool(ctx, id)
		}
		if err := q.MarkPoolDeleted(ctx, id); err != nil {
			return err
		}
		pool.Generation++
		for _, x := range cells {
			if _, err := q.ReleasePoolFrom(ctx, db.ReleasePoolFromParams{PoolID: id, HostID: x.HostID}); err != nil {
				return err
			}
			job, err := queuePool(ctx, q, a, pool, x.HostID, fleet.PoolRelease, fleet.PoolApply)
			if err != nil {
				return err
			}
			jobs = append(jobs, job)
		}
		return nil
	})
	return jobs, err
}
