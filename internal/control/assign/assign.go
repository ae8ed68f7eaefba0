// Package assign is the room of control for what is defined once and assigned to hosts, which execute it and report on it. All that is
// the same for every noun of this kind stands here; a Noun says what is not. People assign and release; what agents send settles it.
package assign

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/wire"
)

// Assignable is one whose objects are assigned to hosts.
type Assignable struct {
	typ            string // of assignments, subjects and actions
	apply, release fleet.JobKind
	lock           func(ctx context.Context, q *db.Queries, id string) (Object, error)
	// fits refuses hosts that cannot take the object.
	fits func(ctx context.Context, q *db.Queries, o Object, hosts []string) error
	// free refuses while something needs the object: on a host, or on any where host is empty.
	free func(ctx context.Context, q *db.Queries, o Object, host fleet.HostID) error
	// allows is the noun's table of what one cell of its matrix allows.
	allows     func(on db.AssignmentOnRow, act fleet.Action) (ok bool, why string, err error)
	markDelete func(ctx context.Context, q *db.Queries, id string) error // raises the generation; the row goes with the last host
	drop       func(ctx context.Context, q *db.Queries, id string) error
	status     func(wire.Finish) any // what the host then saw; nil: it did not look
}

// Object is one of a Noun, whose row the transaction has locked or made.
type Object struct {
	Name       string
	of         *Assignable
	id         string
	generation int64
	leaving    string             // why nothing more can be asked of it; empty: it can
	field      string             // of a pool: of its spec, that which says place
	place      string             // of a pool: what no two pools of a host share
	oneHost    string             // of a pool: why it can be on one host only; empty: it can be on many
	spec       *fleet.NetworkSpec // of a network
}

var assignables = map[string]*Assignable{Pools.typ: Pools, Networks.typ: Networks, SecurityGroups.typ: SecurityGroups}

// Of is the Noun of subjects that begin so; nil: hosts execute nothing of that kind.
func Of(noun string) *Assignable { return assignables[noun] }

// word is what people call one of them.
func (n *Assignable) word() string { return fleet.ResourceType(n.typ).Is().Label }

// added is an object whose row the transaction has just written.
func (n *Assignable) added(id string, o Object) Object {
	o.of, o.id, o.generation = n, id, 1
	return o
}

// Subject is what jobs and the audit call it.
func (o Object) Subject() fleet.Subject { return fleet.Subject(o.of.typ + ":" + o.id) }

// Audit writes that somebody did something to it.
func (o Object) Audit(ctx context.Context, q *db.Queries, a fleet.Actor, act, detail string) error {
	return store.Audit(ctx, q, a, o.of.word()+"."+act, o.Subject(), o.Name, detail)
}

// Change runs do with the locked object, if anything can be asked of it.
func (n *Assignable) Change(ctx context.Context, s *store.Store, a fleet.Actor, id string, do func(*db.Queries, Object) error) error {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return err
	}
	if err := store.CheckID(id, n.word()); err != nil {
		return err
	}
	return s.Tx(ctx, func(q *db.Queries) error {
		o, err := n.lock(ctx, q, id)
		if err != nil {
			return store.NotFound(err, n.word())
		}
		o.of, o.id = n, id
		if o.leaving != "" {
			return fleet.Errorf(fleet.Conflict, "%s", o.leaving)
		}
		return do(q, o)
	})
}

// Assign puts the object on hosts and queues its set-up there. Hosts that have it already stay as they are.
func (o Object) Assign(ctx context.Context, q *db.Queries, a fleet.Actor, hosts []fleet.HostID) ([]fleet.TaskID, error) {
	ids := store.Texts(hosts)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	known, err := q.HostsNamed(ctx, ids)
	if err != nil {
		return nil, err
	}
	if len(known) != len(ids) {
		var checks fleet.Checks
		checks.Add("hostIds", "One of the hosts does not exist any more. Reload and choose again.")
		return nil, checks.Err()
	}
	if err := o.of.fits(ctx, q, o, ids); err != nil {
		return nil, err
	}
	fresh, err := q.Assign(ctx, db.AssignParams{Noun: o.of.typ, ObjectID: o.id, Hosts: ids})
	if err != nil {
		return nil, err
	}
	if err := q.IncludeHosts(ctx, db.IncludeHostsParams{Noun: o.of.typ, ObjectID: o.id, Hosts: ids}); err != nil {
		return nil, err
	}
	known = slices.DeleteFunc(known, func(h db.HostsNamedRow) bool { return !slices.Contains(fresh, h.ID) })
	jobs := make([]fleet.TaskID, len(known))
	for i, h := range known {
		if jobs[i], err = o.queue(ctx, q, a, h.ID, o.of.apply, o.of.release); err != nil {
			return nil, err
		}
	}
	return jobs, nil
}

// queue queues work on one host and cancels the waiting contrary.
func (o Object) queue(ctx context.Context, q *db.Queries, a fleet.Actor, host fleet.HostID, kind, contrary fleet.JobKind) (fleet.TaskID, error) {
	err := q.CancelWaiting(ctx, db.CancelWaitingParams{
		Subject: o.Subject(), HostID: host, Kinds: []string{string(contrary)}, Error: "Not done: the contrary was asked for before its turn came.",
	})
	if err != nil {
		return "", err
	}
	return store.Queue(ctx, q, a, db.JoinQueueParams{HostID: host, Kind: kind, Subject: o.Subject(), SubjectName: o.Name, Generation: o.generation})
}

// Assign puts an object on more hosts.
func (n *Assignable) Assign(ctx context.Context, s *store.Store, a fleet.Actor, id string, hosts []fleet.HostID) ([]fleet.TaskID, error) {
	jobs := []fleet.TaskID{}
	err := n.Change(ctx, s, a, id, func(q *db.Queries, o Object) error {
		if len(hosts) == 0 {
			var checks fleet.Checks
			checks.Add("hostIds", "Choose at least one host.")
			return checks.Err()
		}
		var err error
		if jobs, err = o.Assign(ctx, q, a, hosts); err != nil {
			return err
		}
		return o.Audit(ctx, q, a, "assign", fmt.Sprintf("to %d hosts", len(jobs)))
	})
	return jobs, err
}

// check refuses what the object's cell does not allow, in the words that the page shows.
func (o Object) check(ctx context.Context, q *db.Queries, host fleet.HostID, act fleet.Action) error {
	on, err := q.AssignmentOn(ctx, db.AssignmentOnParams{Noun: o.of.typ, ObjectID: o.id, HostID: host})
	if errors.Is(err, pgx.ErrNoRows) {
		return fleet.Errorf(fleet.NotFound, "The %s is not assigned to this host.", o.of.word())
	}
	if err != nil {
		return err
	}
	ok, why, err := o.of.allows(on, act)
	if err == nil && !ok {
		err = fleet.Errorf(fleet.Conflict, "%s", why)
	}
	return err
}

// Release takes the object from one host, unless something there needs it. Where the host's labels ask for it, it stays away all the same.
func (n *Assignable) Release(ctx context.Context, s *store.Store, a fleet.Actor, id string, host fleet.HostID) (fleet.TaskID, error) {
	var job fleet.TaskID
	err := n.Change(ctx, s, a, id, func(q *db.Queries, o Object) error {
		if err := o.check(ctx, q, host, fleet.ActRelease); err != nil {
			return err
		}
		if err := n.free(ctx, q, o, host); err != nil {
			return err
		}
		err := q.Release(ctx, db.ReleaseParams{Noun: n.typ, ObjectID: id, Hosts: []string{string(host)}})
		if err != nil {
			return err
		}
		if err := q.ExcludeReleasedHosts(ctx, db.ExcludeReleasedHostsParams{Noun: n.typ, ObjectID: id, HostID: string(host)}); err != nil {
			return err
		}
		if job, err = o.queue(ctx, q, a, host, n.release, n.apply); err != nil {
			return err
		}
		return o.Audit(ctx, q, a, "release", "from host "+string(host))
	})
	return job, err
}

// Retry sets the object up on a host again, at once.
func (n *Assignable) Retry(ctx context.Context, s *store.Store, a fleet.Actor, id string, host fleet.HostID) (fleet.TaskID, error) {
	var job fleet.TaskID
	err := n.Change(ctx, s, a, id, func(q *db.Queries, o Object) error {
		err := o.check(ctx, q, host, fleet.ActRetry)
		if err != nil {
			return err
		}
		if job, err = o.queue(ctx, q, a, host, n.apply, n.release); err != nil {
			return err
		}
		return o.Audit(ctx, q, a, "retry", "on host "+string(host))
	})
	return job, err
}

// Delete releases the object on all its hosts, unless something needs it; its row goes with the last of them. No job: it was on
// no host and is gone.
func (n *Assignable) Delete(ctx context.Context, s *store.Store, a fleet.Actor, id string) ([]fleet.TaskID, error) {
	jobs := []fleet.TaskID{}
	err := n.Change(ctx, s, a, id, func(q *db.Queries, o Object) error {
		jobs = []fleet.TaskID{}
		if err := n.free(ctx, q, o, ""); err != nil {
			return err
		}
		on, err := q.AssignedHosts(ctx, db.AssignedHostsParams{Noun: n.typ, ObjectID: id})
		if err != nil {
			return err
		}
		if err := q.DropSelector(ctx, db.DropSelectorParams{Noun: n.typ, ObjectID: id}); err != nil {
			return err
		}
		if err := o.Audit(ctx, q, a, "delete", fmt.Sprintf("from %d hosts", len(on))); err != nil {
			return err
		}
		if len(on) == 0 {
			return n.drop(ctx, q, id)
		}
		if err := n.markDelete(ctx, q, id); err != nil {
			return err
		}
		o.generation++
		all := make([]string, len(on))
		jobs = make([]fleet.TaskID, len(on))
		for i, x := range on {
			all[i] = string(x)
			if jobs[i], err = o.queue(ctx, q, a, x, n.release, n.apply); err != nil {
				return err
			}
		}
		return q.Release(ctx, db.ReleaseParams{Noun: n.typ, ObjectID: id, Hosts: all})
	})
	return jobs, err
}

// Settle writes what the end of a job means for the object on its host, but for what the host then saw, which is for the end itself to
// write; stays: there is a place for it.
func (n *Assignable) Settle(ctx context.Context, q *db.Queries, job db.Job, id string, in wire.Finish) (saw any, stays bool, err error) {
	if job.Kind == n.release && in.Outcome == wire.Done {
		return nil, false, q.EndRelease(ctx, db.EndReleaseParams{Noun: n.typ, ObjectID: id, HostID: job.HostID})
	}
	return n.status(in), true, nil
}

// QueueDrifted queues the orders and releases that got lost on their way, of the nouns that there are jobs for.
func QueueDrifted(ctx context.Context, q *db.Queries, a fleet.Actor) error {
	rows, err := q.DriftedAssignments(ctx, db.DriftedAssignmentsParams{Fresh: fleet.Freshness, Nouns: slices.Sorted(maps.Keys(assignables))})
	if err != nil {
		return err
	}
	for _, r := range rows {
		n := assignables[r.Noun]
		kind := n.apply
		if !r.Assigned {
			kind = n.release
		}
		if _, err := store.Queue(ctx, q, a, db.JoinQueueParams{
			HostID: r.HostID, Kind: kind, Subject: fleet.Subject(r.Noun + ":" + r.ObjectID), SubjectName: r.Name, Generation: r.Generation,
		}); err != nil {
			return err
		}
	}
	return nil
}
