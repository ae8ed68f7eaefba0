package assign

import (
	"context"

	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// Assignments has the use cases of pools and networks that are assigned to hosts.
type Assignments struct{ store *store.Store }

// NewAssignments returns Assignments.
func NewAssignments(s *store.Store) *Assignments { return &Assignments{s} }

// resolveAssignable returns the assignable resource type (pool or network) of a subject, and the object's id.
func resolveAssignable(a fleet.Actor, of fleet.Subject, permission policy.Permission) (*AssignableType, string, error) {
	if err := policy.Check(a, permission, ""); err != nil {
		return nil, "", err
	}
	typ, id := of.ResourceAndID()
	if n := AssignableTypeByName(typ); n != nil {
		return n, id, nil
	}
	return nil, "", fleet.Errorf(fleet.NotFound, "Objects of this kind are not assigned to hosts.")
}

// Assign assigns an object to further hosts and returns one task per new host. Existing assignments do not change.
func (as *Assignments) Assign(ctx context.Context, a fleet.Actor, of fleet.Subject, hosts []fleet.HostID) ([]fleet.TaskID, error) {
	n, id, err := resolveAssignable(a, of, policy.InfraChange)
	if err != nil {
		return nil, err
	}
	return n.Assign(ctx, as.store, a, id, hosts)
}

// Release removes an object's assignment to a host; the object's data on the host stays. Release is refused while VMs
// on that host use the object.
func (as *Assignments) Release(ctx context.Context, a fleet.Actor, of fleet.Subject, host fleet.HostID) (fleet.TaskID, error) {
	n, id, err := resolveAssignable(a, of, policy.InfraChange)
	if err != nil {
		return "", err
	}
	return n.Release(ctx, as.store, a, id, host)
}

// Retry queues the set-up of an object on a host again at once, instead of after the retry delay.
func (as *Assignments) Retry(ctx context.Context, a fleet.Actor, of fleet.Subject, host fleet.HostID) (fleet.TaskID, error) {
	n, id, err := resolveAssignable(a, of, policy.InfraChange)
	if err != nil {
		return "", err
	}
	return n.Retry(ctx, as.store, a, id, host)
}

// ReapplyOnHost asks a host to define an object by its spec again, which undoes changes made outside Quantix.
func (as *Assignments) ReapplyOnHost(ctx context.Context, a fleet.Actor, of fleet.Subject, host fleet.HostID) (fleet.TaskID, error) {
	n, id, err := resolveAssignable(a, of, policy.InfraChange)
	if err != nil {
		return "", err
	}
	return n.Reapply(ctx, as.store, a, id, host)
}

// AcceptDriftOnHost writes a host's values of the given fields into a network's spec and returns one task per host of
// the network. seen contains the value of each field that the page showed, or an empty one; if the host now reports
// another value, the error is a Conflict.
func (as *Assignments) AcceptDriftOnHost(ctx context.Context, a fleet.Actor, of fleet.Subject, host fleet.HostID, seen map[string]string) ([]fleet.TaskID, error) {
	n, id, err := resolveAssignable(a, of, policy.InfraChange)
	if err != nil {
		return nil, err
	}
	return n.AcceptDrift(ctx, as.store, a, id, host, seen)
}

// IgnoreDriftOnHost makes an object's drift of the given fields on a host count no more, until the host's value
// changes. seen works as for AcceptDriftOnHost.
func (as *Assignments) IgnoreDriftOnHost(ctx context.Context, a fleet.Actor, of fleet.Subject, host fleet.HostID, seen map[string]string) error {
	n, id, err := resolveAssignable(a, of, policy.InfraChange)
	if err != nil {
		return err
	}
	return n.IgnoreDrift(ctx, as.store, a, id, host, seen)
}

// ShowDriftOnHost makes an object's ignored drift of the given fields on a host count again.
func (as *Assignments) ShowDriftOnHost(ctx context.Context, a fleet.Actor, of fleet.Subject, host fleet.HostID, fields []string) error {
	n, id, err := resolveAssignable(a, of, policy.InfraChange)
	if err != nil {
		return err
	}
	return n.ShowDrift(ctx, as.store, a, id, host, fields)
}

// RetryEverywhere sets up an object again on all hosts where it failed.
func (as *Assignments) RetryEverywhere(ctx context.Context, a fleet.Actor, of fleet.Subject) (fleet.RetryResult, error) {
	n, id, err := resolveAssignable(a, of, policy.InfraChange)
	if err != nil {
		return fleet.RetryResult{}, err
	}
	return n.RetryAll(ctx, as.store, a, id)
}

// DeleteEverywhere releases an object on all its hosts; data on hosts stays. The object's row is deleted with its last
// assignment. Without any assignment the row is deleted at once and no task is returned. DeleteEverywhere is refused
// while VMs use the object.
func (as *Assignments) DeleteEverywhere(ctx context.Context, a fleet.Actor, of fleet.Subject) ([]fleet.TaskID, error) {
	n, id, err := resolveAssignable(a, of, policy.InfraChange)
	if err != nil {
		return nil, err
	}
	return n.Delete(ctx, as.store, a, id)
}

// AssignByLabel sets the label selector by which the portal assigns an object to hosts automatically. An empty selector
// removes the old one. The object is assigned to matching hosts at once.
func (as *Assignments) AssignByLabel(ctx context.Context, a fleet.Actor, of fleet.Subject, selector string) (fleet.ByLabel, error) {
	n, id, err := resolveAssignable(a, of, policy.InfraChange)
	if err != nil {
		return fleet.ByLabel{}, err
	}
	return n.SetSelector(ctx, as.store, a, id, selector)
}

// ByLabel returns an object's label selector, the matching hosts without the object, and the assigned hosts that do not
// match.
func (as *Assignments) ByLabel(ctx context.Context, a fleet.Actor, of fleet.Subject) (fleet.ByLabel, error) {
	n, id, err := resolveAssignable(a, of, policy.InfraSee)
	if err != nil {
		return fleet.ByLabel{}, err
	}
	return n.AssignmentByLabel(ctx, as.store, a, id)
}

// PreviewHostsByLabel returns the hosts that a selector matches, and which of them have the object. A subject without
// an id means a new object.
func (as *Assignments) PreviewHostsByLabel(ctx context.Context, a fleet.Actor, of fleet.Subject, selector string) (fleet.MatchingHosts, error) {
	n, id, err := resolveAssignable(a, of, policy.InfraSee)
	if err != nil {
		return fleet.MatchingHosts{}, err
	}
	return n.PreviewSelector(ctx, as.store, a, id, selector)
}
