// Package assign handles objects that are defined once and assigned to hosts: pools, networks and security groups.
// Hosts execute their assignments and report on them. An AssignableType has the functions that differ between the
// resource types.
package assign

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/wire"
)

// AssignableType is a resource type whose objects are assigned to hosts.
type AssignableType struct {
	typ                    string // prefix of subjects and audit actions
	applyKind, releaseKind fleet.JobKind
	reapplyKind            fleet.JobKind // empty: the type has no definition that can drift
	lockObject             func(ctx context.Context, q *db.Queries, id string) (AssignableObject, error)
	// checkHostsFit returns an Invalid error if one of the hosts cannot have the object.
	checkHostsFit func(ctx context.Context, q *db.Queries, o AssignableObject, hosts []string) error
	// checkUnusedOnHost returns a conflict while VMs need the object on the host, or on any host if host is empty.
	checkUnusedOnHost func(ctx context.Context, q *db.Queries, o AssignableObject, host fleet.HostID) error
	// actionAllowed reports whether the status of an assignment allows the action, and if not, why.
	actionAllowed func(on db.AssignmentOnRow, act fleet.Action) (ok bool, why string, err error)
	// markDeleted marks the object as deleted and raises its generation. The row is deleted with the object's last
	// assignment.
	markDeleted    func(ctx context.Context, q *db.Queries, id string) error
	deleteRow      func(ctx context.Context, q *db.Queries, id string) error
	observedStatus func(wire.Finish) any // returns the state that the host observed after the job; nil if it reported none
	// readAssigned returns the objects with their hosts, sorted by name; nil: reports do not list all objects of the type
	readAssigned func(ctx context.Context, q *db.Queries) ([]assignedObject, error)
}

// AssignableObject is an object of an AssignableType. The transaction has locked or created its row.
type AssignableObject struct {
	Name          string
	assignable    *AssignableType
	id            string
	generation    int64
	changeRefusal string             // why the object cannot change any more, for a deleted one; otherwise empty
	locationField string             // pools: field of the spec that contains location
	location      string             // pools: storage location that no two pools of a host may share
	oneHostReason string             // pools: why only one host can have the pool; empty if many can
	spec          *fleet.NetworkSpec // networks only
}

// assignableTypes are all types, in the order of their names.
var assignableTypes []*AssignableType

// registerAssignableType adds a type to assignableTypes. Each type is a package variable in its own file.
func registerAssignableType(n AssignableType) *AssignableType {
	assignableTypes = append(assignableTypes, &n)
	slices.SortFunc(assignableTypes, func(a, b *AssignableType) int { return strings.Compare(a.typ, b.typ) })
	return &n
}

// AssignableTypeByName returns the AssignableType with this subject prefix, or nil if objects of the resource type are
// not assigned to hosts.
func AssignableTypeByName(typ string) *AssignableType {
	if i := slices.IndexFunc(assignableTypes, func(n *AssignableType) bool { return n.typ == typ }); i >= 0 {
		return assignableTypes[i]
	}
	return nil
}

func assignableTypeNames() []string {
	names := make([]string, len(assignableTypes))
	for i, n := range assignableTypes {
		names[i] = n.typ
	}
	return names
}

// typeLabel returns the label of the resource type for error texts.
func (n *AssignableType) typeLabel() string { return fleet.ResourceType(n.typ).Info().Label }

// createdObject fills in type, ID and generation of an object whose row the transaction has just created.
func (n *AssignableType) createdObject(id string, o AssignableObject) AssignableObject {
	o.assignable, o.id, o.generation = n, id, 1
	return o
}

// ID returns the object's ID.
func (o AssignableObject) ID() string { return o.id }

// Subject returns the object's subject in jobs and in the audit log.
func (o AssignableObject) Subject() fleet.Subject {
	return fleet.Subject(o.assignable.typ + ":" + o.id)
}

// Audit writes an audit entry about the object.
func (o AssignableObject) Audit(ctx context.Context, q *db.Queries, a fleet.Actor, act, detail string) error {
	return store.Audit(ctx, q, a, o.assignable.typeLabel()+"."+act, o.Subject(), o.Name, detail)
}

// ChangeObject locks the object and calls do with it in the same transaction. It refuses if the object is being
// deleted.
func (n *AssignableType) ChangeObject(ctx context.Context, s *store.Store, a fleet.Actor, id string, do func(*db.Queries, AssignableObject) error) error {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return err
	}
	if err := store.CheckID(id, n.typeLabel()); err != nil {
		return err
	}
	return s.Tx(ctx, func(q *db.Queries) error {
		o, err := n.LockObject(ctx, q, id)
		if err != nil {
			return err
		}
		return do(q, o)
	})
}

// LockObject locks the object until the transaction ends. It refuses if the object is being deleted.
func (n *AssignableType) LockObject(ctx context.Context, q *db.Queries, id string) (AssignableObject, error) {
	o, err := n.lockObject(ctx, q, id)
	if err != nil {
		return o, store.NotFoundError(err, n.typeLabel())
	}
	o.assignable, o.id = n, id
	if o.changeRefusal != "" {
		return o, fleet.RefusalError(o.changeRefusal)
	}
	return o, nil
}

// Assign assigns the object to hosts and queues its setup there. Existing assignments are unchanged.
func (o AssignableObject) Assign(ctx context.Context, q *db.Queries, a fleet.Actor, hosts []fleet.HostID) ([]fleet.TaskID, error) {
	ids := store.ToStrings(hosts)
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
	if err := o.assignable.checkHostsFit(ctx, q, o, ids); err != nil {
		return nil, err
	}
	fresh, err := q.Assign(ctx, db.AssignParams{Noun: o.assignable.typ, ObjectID: o.id, Hosts: ids})
	if err != nil {
		return nil, err
	}
	if err := q.IncludeHosts(ctx, db.IncludeHostsParams{Noun: o.assignable.typ, ObjectID: o.id, Hosts: ids}); err != nil {
		return nil, err
	}
	known = slices.DeleteFunc(known, func(h db.HostsNamedRow) bool { return !slices.Contains(fresh, h.ID) })
	jobs := make([]fleet.TaskID, len(known))
	for i, h := range known {
		if jobs[i], err = o.queueJob(ctx, q, a, h.ID, o.assignable.applyKind, o.assignable.releaseKind); err != nil {
			return nil, err
		}
	}
	return jobs, nil
}

// queueJob queues a job of the object on one host, and cancels the object's queued jobs of the opposite kind there. The
// opposite of a release includes a reapply.
func (o AssignableObject) queueJob(ctx context.Context, q *db.Queries, a fleet.Actor, host fleet.HostID, kind, opposite fleet.JobKind) (fleet.TaskID, error) {
	opposites := []string{string(opposite)}
	if reapply := o.assignable.reapplyKind; opposite == o.assignable.applyKind && reapply != "" {
		opposites = append(opposites, string(reapply))
	}
	err := q.CancelWaiting(ctx, db.CancelWaitingParams{
		Subject: o.Subject(), HostID: host, Kinds: opposites, Error: "Not done: the opposite was requested before this task started.",
	})
	if err != nil {
		return "", err
	}
	return store.JoinOrQueueJob(ctx, q, a, db.JoinQueueParams{HostID: host, Kind: kind, Subject: o.Subject(), SubjectName: o.Name, Generation: o.generation})
}

// Assign assigns an object to further hosts.
func (n *AssignableType) Assign(ctx context.Context, s *store.Store, a fleet.Actor, id string, hosts []fleet.HostID) ([]fleet.TaskID, error) {
	jobs := []fleet.TaskID{}
	err := n.ChangeObject(ctx, s, a, id, func(q *db.Queries, o AssignableObject) error {
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

// checkAction returns a conflict with the reason shown on the page if the assignment's status does not allow the
// action.
func (o AssignableObject) checkAction(ctx context.Context, q *db.Queries, host fleet.HostID, act fleet.Action) error {
	on, err := q.AssignmentOn(ctx, db.AssignmentOnParams{Noun: o.assignable.typ, ObjectID: o.id, HostID: host})
	if errors.Is(err, pgx.ErrNoRows) {
		return fleet.Errorf(fleet.NotFound, "The %s is not assigned to this host.", o.assignable.typeLabel())
	}
	if err != nil {
		return err
	}
	ok, why, err := o.assignable.actionAllowed(on, act)
	if err == nil && !ok {
		err = fleet.RefusalError(why)
	}
	return err
}

// Release removes the object's assignment to one host, unless VMs there need the object. It also excludes the host from
// the object's selector, so that the host's labels do not cause the object to be assigned again.
func (n *AssignableType) Release(ctx context.Context, s *store.Store, a fleet.Actor, id string, host fleet.HostID) (fleet.TaskID, error) {
	var job fleet.TaskID
	err := n.ChangeObject(ctx, s, a, id, func(q *db.Queries, o AssignableObject) error {
		if err := o.checkAction(ctx, q, host, fleet.ActRelease); err != nil {
			return err
		}
		if err := n.checkUnusedOnHost(ctx, q, o, host); err != nil {
			return err
		}
		err := q.Release(ctx, db.ReleaseParams{Noun: n.typ, ObjectID: id, Hosts: []string{string(host)}})
		if err != nil {
			return err
		}
		if err := q.ExcludeReleasedHosts(ctx, db.ExcludeReleasedHostsParams{Noun: n.typ, ObjectID: id, HostID: string(host)}); err != nil {
			return err
		}
		if job, err = o.queueJob(ctx, q, a, host, n.releaseKind, n.applyKind); err != nil {
			return err
		}
		return o.Audit(ctx, q, a, "release", "from host "+string(host))
	})
	return job, err
}

// Retry queues the object's setup on a host again.
func (n *AssignableType) Retry(ctx context.Context, s *store.Store, a fleet.Actor, id string, host fleet.HostID) (fleet.TaskID, error) {
	var job fleet.TaskID
	err := n.ChangeObject(ctx, s, a, id, func(q *db.Queries, o AssignableObject) error {
		err := o.checkAction(ctx, q, host, fleet.ActRetry)
		if err != nil {
			return err
		}
		if job, err = o.queueJob(ctx, q, a, host, n.applyKind, n.releaseKind); err != nil {
			return err
		}
		return o.Audit(ctx, q, a, "retry", "on host "+string(host))
	})
	return job, err
}

// Delete releases the object on all its hosts, unless VMs need it. Its row is deleted with the last assignment. Without
// assignments it is deleted at once, and no task is returned.
func (n *AssignableType) Delete(ctx context.Context, s *store.Store, a fleet.Actor, id string) ([]fleet.TaskID, error) {
	jobs := []fleet.TaskID{}
	err := n.ChangeObject(ctx, s, a, id, func(q *db.Queries, o AssignableObject) error {
		jobs = []fleet.TaskID{}
		if err := n.checkUnusedOnHost(ctx, q, o, ""); err != nil {
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
			return n.deleteRow(ctx, q, id)
		}
		if err := n.markDeleted(ctx, q, id); err != nil {
			return err
		}
		o.generation++
		all := make([]string, len(on))
		jobs = make([]fleet.TaskID, len(on))
		for i, x := range on {
			all[i] = string(x)
			if jobs[i], err = o.queueJob(ctx, q, a, x, n.releaseKind, n.applyKind); err != nil {
				return err
			}
		}
		return q.Release(ctx, db.ReleaseParams{Noun: n.typ, ObjectID: id, Hosts: all})
	})
	return jobs, err
}

// RecordJobEnd deletes the assignment after a successful release. Otherwise it returns the state that the host
// observed, which the caller writes. exists reports whether the assignment still exists.
func (n *AssignableType) RecordJobEnd(ctx context.Context, q *db.Queries, job db.Job, id string, in wire.Finish) (saw any, exists bool, err error) {
	if job.Kind == n.releaseKind && in.Outcome == wire.Done {
		return nil, false, q.EndRelease(ctx, db.EndReleaseParams{Noun: n.typ, ObjectID: id, HostID: job.HostID})
	}
	return n.observedStatus(in), true, nil
}

// QueueDriftedAssignments queues a job for each assignment that its host has not applied and that has no unfinished job.
func QueueDriftedAssignments(ctx context.Context, q *db.Queries, a fleet.Actor) error {
	rows, err := q.DriftedAssignments(ctx, assignableTypeNames())
	if err != nil {
		return err
	}
	for _, r := range rows {
		n := AssignableTypeByName(r.Noun)
		kind := n.applyKind
		if !r.Assigned {
			kind = n.releaseKind
		}
		if _, err := store.JoinOrQueueJob(ctx, q, a, db.JoinQueueParams{
			HostID: r.HostID, Kind: kind, Subject: fleet.Subject(r.Noun + ":" + r.ObjectID), SubjectName: r.Name, Generation: r.Generation,
		}); err != nil {
			return err
		}
	}
	return nil
}
