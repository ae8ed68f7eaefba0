package assign

import (
	"context"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
)

// ChangeNetwork gives a network that is defined here another spec, and queues it on each host that is to have it. change is asked under the
// network's lock, for what it makes of the spec and for the audit's words; where it says none, nothing is to change.
func ChangeNetwork(ctx context.Context, s *store.Store, a fleet.Actor, id fleet.NetworkID, act string, change func(*db.Queries, *fleet.NetworkSpec) (detail string, err error)) ([]fleet.TaskID, error) {
	tasks := []fleet.TaskID{}
	err := Networks.Change(ctx, s, a, string(id), func(q *db.Queries, o Object) error {
		tasks = []fleet.TaskID{}
		detail, err := change(q, o.spec)
		if err != nil || detail == "" {
			return err
		}
		if err := q.ChangeNetwork(ctx, db.ChangeNetworkParams{ID: id, Spec: o.spec}); err != nil {
			return err
		}
		o.generation++
		hosts, err := q.HostsGiven(ctx, db.HostsGivenParams{Noun: Networks.typ, ObjectID: o.id})
		if err != nil {
			return err
		}
		for _, h := range hosts {
			task, err := o.queue(ctx, q, a, h, Networks.apply, Networks.release)
			if err != nil {
				return err
			}
			tasks = append(tasks, task)
		}
		return o.Audit(ctx, q, a, act, detail)
	})
	return tasks, err
}
