package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/wire"
)

// What is defined once is assigned to hosts; each executes it and reports on it. All that is the same for every noun of this kind
// stands here; an executed says what is not.

// executed is a noun whose objects are assigned to hosts.
type executed struct {
	noun           string // of assignments, subjects and actions
	apply, release fleet.JobKind
	lock           func(ctx context.Context, q *db.Queries, id string) (object, error)
	// fits refuses hosts that cannot take the object.
	fits func(ctx context.Context, q *db.Queries, o object, hosts []string) error
	// free refuses while something needs the object: on a host, or on any where host is empty.
	free func(ctx context.Context, q *db.Queries, o object, host fleet.HostID) error
	// allows is the noun's table of what one cell of its matrix allows.
	allows     func(on db.AssignmentOnRow, act fleet.Action) (ok bool, why string, err error)
	markDelete func(ctx context.Context, q *db.Queries, id string) error // raises the generation; the row goes with the last host
	drop       func(ctx context.Context, q *db.Queries, id string) error
	status     func(wire.Finish) any // what the host then saw; nil: it did not look
}

// object is a locked row of an executed noun.
type object struct {
	*executed
	id, name   string
	generation int64
	leaving    string // why nothing more can be asked of it; empty: it can
	path       string
}

// executedNouns are all of them by the first part of their subjects.
var executedNouns = map[string]*executed{storagePools.noun: storagePools}

func (o object) subject() fleet.Subject { return fleet.Subject(o.noun + ":" + o.id) }

func (o object) audit(ctx context.Context, q *db.Queries, a fleet.Actor, act, detail string) error {
	return audit(ctx, q, a, o.noun+"."+act, o.subject(), o.name, detail)
}

// change runs do with the locked object, if anything can be asked of it.
func (e *executed) change(ctx context.Context, c *Control, a fleet.Actor, id string, do func(*db.Queries, object) error) error {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return err
	}
	if err := checkID(id, e.noun); err != nil {
		return err
	}
	return c.tx(ctx, func(q *db.Queries) error {
		o, err := e.lock(ctx, q, id)
		if err != nil {
			return notFound(err, e.noun)
		}
		o.executed, o.id = e, id
		if o.leaving != "" {
			return fleet.Errorf(fleet.Conflict, "%s", o.leaving)
		}
		return do(q, o)
	})
}

// assign puts the object on hosts and queues its set-up there. Hosts that have it already stay as they are.
func (o object) assign(ctx context.Context, q *db.Queries, a fleet.Actor, hosts []fleet.HostID) ([]fleet.TaskID, error) {
	ids := texts(hosts)
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
	if err := o.fits(ctx, q, o, ids); err != nil {
		return nil, err
	}
	fresh, err := q.Assign(ctx, db.AssignParams{Noun: o.noun, ObjectID: o.id, Hosts: ids})
	if err != nil {
		return nil, err
	}
	known = slices.DeleteFunc(known, func(h db.HostsNamedRow) bool { return !slices.Contains(fresh, h.ID) })
	jobs := make([]fleet.TaskID, len(known))
	for i, h := range known {
		if jobs[i], err = o.queue(ctx, q, a, h.ID, o.executed.apply, o.executed.release); err != nil {
			return nil, err
		}
	}
	return jobs, nil
}

// queue queues work on one host and cancels the waiting contrary.
func (o object) queue(ctx context.Context, q *db.Queries, a fleet.Actor, host fleet.HostID, kind, contrary fleet.JobKind) (fleet.TaskID, error) {
	err := q.CancelWaiting(ctx, db.CancelWaitingParams{
		Subject: o.subject(), HostID: host, Kinds: []string{string(contrary)}, Error: "Not done: the contrary was asked for before its turn came.",
	})
	if err != nil {
		return "", err
	}
	return queue(ctx, q, a, db.QueueJobParams{HostID: host, Kind: kind, Subject: o.subject(), SubjectName: o.name, Generation: o.generation})
}

func (e *executed) assign(ctx context.Context, c *Control, a fleet.Actor, id string, hosts []fleet.HostID) ([]fleet.TaskID, error) {
	jobs := []fleet.TaskID{}
	err := e.change(ctx, c, a, id, func(q *db.Queries, o object) error {
		if len(hosts) == 0 {
			var checks fleet.Checks
			checks.Add("hostIds", "Choose at least one host.")
			return checks.Err()
		}
		var err error
		if jobs, err = o.assign(ctx, q, a, hosts); err != nil {
			return err
		}
		return o.audit(ctx, q, a, "assign", fmt.Sprintf("to %d hosts", len(jobs)))
	})
	return jobs, err
}

// check refuses what the object's cell does not allow, in the words that the page shows.
func (o object) check(ctx context.Context, q *db.Queries, host fleet.HostID, act fleet.Action) error {
	on, err := q.AssignmentOn(ctx, db.AssignmentOnParams{Noun: o.noun, ObjectID: o.id, HostID: host})
	if errors.Is(err, pgx.ErrNoRows) {
		return fleet.Errorf(fleet.NotFound, "The %s is not assigned to this host.", o.noun)
	}
	if err != nil {
		return err
	}
	ok, why, err := o.allows(on, act)
	if err == nil && !ok {
		err = fleet.Errorf(fleet.Conflict, "%s", why)
	}
	return err
}

// releaseFrom takes the object from one host, unless something there needs it.
func (e *executed) releaseFrom(ctx context.Context, c *Control, a fleet.Actor, id string, host fleet.HostID) (fleet.TaskID, error) {
	var job fleet.TaskID
	err := e.change(ctx, c, a, id, func(q *db.Queries, o object) error {
		if err := o.check(ctx, q, host, fleet.ActRelease); err != nil {
			return err
		}
		if err := e.free(ctx, q, o, host); err != nil {
			return err
		}
		err := q.Release(ctx, db.ReleaseParams{Noun: e.noun, ObjectID: id, Hosts: []string{string(host)}})
		if err != nil {
			return err
		}
		if job, err = o.queue(ctx, q, a, host, e.release, e.apply); err != nil {
			return err
		}
		return o.audit(ctx, q, a, "release", "from host "+string(host))
	})
	return job, err
}

// retry sets the object up on a host again, at once.
func (e *executed) retry(ctx context.Context, c *Control, a fleet.Actor, id string, host fleet.HostID) (fleet.TaskID, error) {
	var job fleet.TaskID
	err := e.change(ctx, c, a, id, func(q *db.Queries, o object) error {
		err := o.check(ctx, q, host, fleet.ActRetry)
		if err != nil {
			return err
		}
		if job, err = o.queue(ctx, q, a, host, e.apply, e.release); err != nil {
			return err
		}
		return o.audit(ctx, q, a, "retry", "on host "+string(host))
	})
	return job, err
}

// delete releases the object on all its hosts, unless something needs it; its row goes with the last of them. No job: it was on
// no host and is gone.
func (e *executed) delete(ctx context.Context, c *Control, a fleet.Actor, id string) ([]fleet.TaskID, error) {
	jobs := []fleet.TaskID{}
	err := e.change(ctx, c, a, id, func(q *db.Queries, o object) error {
		jobs = []fleet.TaskID{}
		if err := e.free(ctx, q, o, ""); err != nil {
			return err
		}
		on, err := q.AssignedHosts(ctx, db.AssignedHostsParams{Noun: e.noun, ObjectID: id})
		if err != nil {
			return err
		}
		if err := o.audit(ctx, q, a, "delete", fmt.Sprintf("from %d hosts", len(on))); err != nil {
			return err
		}
		if len(on) == 0 {
			return e.drop(ctx, q, id)
		}
		if err := e.markDelete(ctx, q, id); err != nil {
			return err
		}
		o.generation++
		all := make([]string, len(on))
		jobs = make([]fleet.TaskID, len(on))
		for i, x := range on {
			all[i] = string(x)
			if jobs[i], err = o.queue(ctx, q, a, x, e.release, e.apply); err != nil {
				return err
			}
		}
		return q.Release(ctx, db.ReleaseParams{Noun: e.noun, ObjectID: id, Hosts: all})
	})
	return jobs, err
}

// settle writes what the end of a job means for the object on its host.
func (e *executed) settle(ctx context.Context, q *db.Queries, job db.Job, id string, in wire.Finish) error {
	if job.Kind == e.release && in.Outcome == wire.Done {
		return q.EndRelease(ctx, db.EndReleaseParams{Noun: e.noun, ObjectID: id, HostID: job.HostID})
	}
	out := db.SettleAssignmentParams{Noun: e.noun, ObjectID: id, HostID: job.HostID, Generation: in.Generation, Seq: in.Seq}
	if saw := e.status(in); saw != nil {
		var err error
		if out.Status, err = json.Marshal(saw); err != nil {
			return err
		}
	}
	err := q.SettleAssignment(ctx, out)
	return firstError(err, func() error {
		return q.AskFullReport(ctx, db.AskFullReportParams{HostID: job.HostID, Seq: in.Seq})
	})
}

// queueDriftedAssignments queues the orders and releases that got lost on their way.
func queueDriftedAssignments(ctx context.Context, q *db.Queries, a fleet.Actor) error {
	rows, err := q.DriftedAssignments(ctx, fleet.Freshness)
	if err != nil {
		return err
	}
	for _, r := range rows {
		e := executedNouns[r.Noun]
		kind := e.apply
		if !r.Assigned {
			kind = e.release
		}
		if _, err := queue(ctx, q, a, db.QueueJobParams{
			HostID: r.HostID, Kind: kind, Subject: fleet.Subject(r.Noun + ":" + r.ObjectID), SubjectName: r.Name, Generation: r.Generation,
		}); err != nil {
			return err
		}
	}
	return nil
}
