package assign

import (
	"context"
	"encoding/json"

	"quantix/db"
	"quantix/internal/adoption"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
)

// ChangeNetwork changes the spec of a network and queues it on all assigned hosts. change modifies the spec with the
// network locked and returns the audit detail; an empty detail means no change.
func ChangeNetwork(ctx context.Context, s *store.Store, a fleet.Actor, id fleet.NetworkID, act string, change func(*db.Queries, *fleet.NetworkSpec) (detail string, err error)) ([]fleet.TaskID, error) {
	tasks := []fleet.TaskID{}
	err := NetworkType.ChangeObject(ctx, s, a, string(id), func(q *db.Queries, o AssignableObject) error {
		tasks = []fleet.TaskID{}
		if o.spec.Adopted {
			return fleet.RefusalError(adoption.ChangeRefusal)
		}
		var was fleet.NetworkSpec
		if err := copySpec(&was, *o.spec); err != nil {
			return err
		}
		detail, err := change(q, o.spec)
		if err != nil || detail == "" {
			return err
		}
		hosts, err := q.HostsGiven(ctx, db.HostsGivenParams{Noun: NetworkType.typ, ObjectID: o.id})
		if err != nil {
			return err
		}
		if tasks, err = o.storeNetwork(ctx, q, a, was, hosts); err != nil {
			return err
		}
		return o.Audit(ctx, q, a, act, detail)
	})
	return tasks, err
}

// copySpec copies a spec with everything that it refers to, because changes are made in place.
func copySpec(to *fleet.NetworkSpec, from fleet.NetworkSpec) error {
	text, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, to)
}
