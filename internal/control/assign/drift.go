package assign

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/drift"
	"quantix/internal/fleet"
)

// CheckReapplies refuses a host whose agent cannot reapply single fields of a VM, pools and networks.
func CheckReapplies(ctx context.Context, q *db.Queries, host fleet.HostID, name string) error {
	ok, err := q.HostReapplies(ctx, host)
	if err == nil && !ok {
		err = fleet.Errorf(fleet.Conflict, "The agent of %s is too old for this. Upgrade the host's agent.", name)
	}
	return err
}

// driftOnHost is what one host reports about the definition of an object there.
type driftOnHost struct {
	on                db.AssignmentOnRow
	reported, ignored []fleet.Drift
}

// changeDrift locks the object and calls do with its drift on the host. It refuses if the status does not allow the
// action, unless the action is empty.
func (n *AssignableType) changeDrift(ctx context.Context, s *store.Store, a fleet.Actor, id string, host fleet.HostID, act fleet.Action, do func(*db.Queries, AssignableObject, driftOnHost) error) error {
	return n.ChangeObject(ctx, s, a, id, func(q *db.Queries, o AssignableObject) error {
		on, err := q.AssignmentOn(ctx, db.AssignmentOnParams{Noun: n.typ, ObjectID: id, HostID: host})
		if errors.Is(err, pgx.ErrNoRows) {
			return fleet.Errorf(fleet.NotFound, "The %s is not assigned to this host.", n.typeLabel())
		}
		if err != nil {
			return err
		}
		if act != "" {
			ok, why, err := n.actionAllowed(on, act)
			if err != nil {
				return err
			}
			if !ok {
				return fleet.RefusalError(why)
			}
		}
		d := driftOnHost{on: on, ignored: on.IgnoredDrift}
		if len(on.Status) > 0 {
			var status struct {
				Drift []fleet.Drift `json:"drift"`
			}
			if err := json.Unmarshal(on.Status, &status); err != nil {
				return err
			}
			d.reported = status.Drift
		}
		return do(q, o, d)
	})
}

// Reapply asks a host to define the object by its spec again, which undoes changes made outside Quantix. It also ends
// the ignoring of drift there.
func (n *AssignableType) Reapply(ctx context.Context, s *store.Store, a fleet.Actor, id string, host fleet.HostID) (task fleet.TaskID, err error) {
	err = n.changeDrift(ctx, s, a, id, host, fleet.ActReapply, func(q *db.Queries, o AssignableObject, d driftOnHost) error {
		if err := CheckReapplies(ctx, q, host, d.on.HostName); err != nil {
			return err
		}
		if task, err = o.queueJob(ctx, q, a, host, n.reapplyKind, n.releaseKind); err != nil {
			return err
		}
		if err := o.setIgnoredDrift(ctx, q, host, []fleet.Drift{}); err != nil {
			return err
		}
		return o.Audit(ctx, q, a, "reapply", strings.Join(drift.Fields(d.reported), ", ")+" on "+d.on.HostName)
	})
	return task, err
}

// IgnoreDrift makes the object's drift of the given fields on a host count no more, until the host's value changes. seen
// contains the value of each field that the page showed, or an empty one.
func (n *AssignableType) IgnoreDrift(ctx context.Context, s *store.Store, a fleet.Actor, id string, host fleet.HostID, seen map[string]string) error {
	return n.changeDrift(ctx, s, a, id, host, fleet.ActIgnoreDrift, func(q *db.Queries, o AssignableObject, d driftOnHost) error {
		next, err := drift.Ignore(d.ignored, d.reported, seen)
		if err != nil {
			return err
		}
		if err := o.setIgnoredDrift(ctx, q, host, next); err != nil {
			return err
		}
		return o.Audit(ctx, q, a, "ignore-drift", strings.Join(slices.Sorted(maps.Keys(seen)), ", ")+" on "+d.on.HostName)
	})
}

// ShowDrift makes ignored drift of the given fields on a host count again.
func (n *AssignableType) ShowDrift(ctx context.Context, s *store.Store, a fleet.Actor, id string, host fleet.HostID, fields []string) error {
	return n.changeDrift(ctx, s, a, id, host, "", func(q *db.Queries, o AssignableObject, d driftOnHost) error {
		if err := drift.CheckFields(fields); err != nil {
			return err
		}
		if err := o.setIgnoredDrift(ctx, q, host, drift.Forget(d.ignored, fields)); err != nil {
			return err
		}
		return o.Audit(ctx, q, a, "show-drift", strings.Join(slices.Sorted(slices.Values(fields)), ", ")+" on "+d.on.HostName)
	})
}

func (o AssignableObject) setIgnoredDrift(ctx context.Context, q *db.Queries, host fleet.HostID, all []fleet.Drift) error {
	return q.SetIgnoredDrift(ctx, db.SetIgnoredDriftParams{Noun: o.assignable.typ, ObjectID: o.id, HostID: host, IgnoredDrift: all})
}

// AcceptDrift writes a host's values of the given fields into a network's spec, and queues the network on all its hosts.
// seen contains the value of each field that the page showed. It refuses values that another host of the network
// contradicts by an edit of its own, and values that are not valid for all hosts. The drift of pools cannot be accepted.
func (n *AssignableType) AcceptDrift(ctx context.Context, s *store.Store, a fleet.Actor, id string, host fleet.HostID, seen map[string]string) (tasks []fleet.TaskID, err error) {
	fields := slices.Sorted(maps.Keys(seen))
	err = n.changeDrift(ctx, s, a, id, host, fleet.ActAcceptDrift, func(q *db.Queries, o AssignableObject, d driftOnHost) error {
		if _, err := drift.Ignore(nil, d.reported, seen); err != nil { // the same checks of the fields and their values
			return err
		}
		was := *o.spec
		for _, f := range fields {
			if err := drift.Accept(o.spec, *drift.Find(d.reported, f)); err != nil {
				return err
			}
		}
		if err := o.checkOtherHosts(ctx, q, host, d.reported, fields); err != nil {
			return err
		}
		var checks fleet.Checks
		o.spec.Check(&checks, "spec")
		if err := checks.Err(); err != nil {
			return err
		}
		hosts, err := q.HostsGiven(ctx, db.HostsGivenParams{Noun: n.typ, ObjectID: o.id})
		if err != nil {
			return err
		}
		if err := checkNetworkFitsHosts(ctx, q, o, store.ToStrings(hosts)); err != nil {
			return err
		}
		if tasks, err = o.storeNetwork(ctx, q, a, was, hosts); err != nil {
			return err
		}
		return o.Audit(ctx, q, a, "accept-drift", strings.Join(fields, ", ")+" of "+d.on.HostName)
	})
	return tasks, err
}

// checkOtherHosts refuses values that another host contradicts by an edit of its own.
func (o AssignableObject) checkOtherHosts(ctx context.Context, q *db.Queries, host fleet.HostID, accepted []fleet.Drift, fields []string) error {
	others, err := q.DriftOnOtherHosts(ctx, db.DriftOnOtherHostsParams{Noun: o.assignable.typ, ObjectID: o.id, HostID: host, Fields: fields})
	if err != nil {
		return err
	}
	for _, other := range others {
		if drift.Find(accepted, other.Field).Actual != other.Actual {
			return fleet.RefusalError(drift.OtherHostText(other.Field, other.HostName))
		}
	}
	return nil
}

// storeNetwork writes the network's new spec, ends the ignoring of drift of the changed fields, and queues the network
// on the hosts.
func (o AssignableObject) storeNetwork(ctx context.Context, q *db.Queries, a fleet.Actor, was fleet.NetworkSpec, hosts []fleet.HostID) ([]fleet.TaskID, error) {
	if err := q.ChangeNetwork(ctx, db.ChangeNetworkParams{ID: fleet.NetworkID(o.id), Spec: o.spec}); err != nil {
		return nil, err
	}
	if changed := drift.ChangedNetworkFields(was, *o.spec); len(changed) > 0 {
		if err := q.EndIgnoredDrift(ctx, db.EndIgnoredDriftParams{Noun: o.assignable.typ, ObjectID: o.id, Fields: changed}); err != nil {
			return nil, err
		}
	}
	o.generation++
	tasks := make([]fleet.TaskID, len(hosts))
	var err error
	for i, h := range hosts {
		if tasks[i], err = o.queueJob(ctx, q, a, h, NetworkType.applyKind, NetworkType.releaseKind); err != nil {
			return nil, err
		}
	}
	return tasks, nil
}
