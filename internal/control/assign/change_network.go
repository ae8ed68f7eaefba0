package assign

import (
	"context"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
)

// ChangeNetwork changes the spec of a network and queues it on all assigned hosts. change modifies the spec with the
// network locked and returns the audit detail; an empty detail means no change.
func ChangeNetwork(ctx context.Context, s *store.Store, a fleet.Actor, id fleet.NetworkID, act string, change func(*db.Queries, *fleet.NetworkSpec) (detail string, err error)) ([]fleet.TaskID, error) {
	tasks := []fleet.TaskID{}
	err := NetworkType.ChangeObject(ctx, s, a, string(id), func(q *db.Queries, o AssignableObject) error {
		tasks = []fleet.TaskID{}
		detail, err := change(q, o.spec)
		if err != nil || detail == "" {
			return err
		}
		if err := q.ChangeNetwork(ctx, db.ChangeNetworkParams{ID: id, Spec: o.spec}); err != nil {
			return err
		}
		o.generation++
		hosts, err := q.HostsGiven(ctx, db.HostsGivenParams{Noun: NetworkType.typ, ObjectID: o.id})
		if err != nil {
			return err
		}
		for _, h := range hosts {
			task, err := o.queueJob(ctx, q, a, h, NetworkType.applyKind, NetworkType.releaseKind)
			if err != nil {
				return err
			}
			tasks = append(tasks, task)
		}
		return o.Audit(ctx, q, a, act, detail)
	})
	return tasks, err
}
