package control

import (
	"context"

	"quantix/internal/control/assign"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// executed is the noun of a subject that hosts execute (a pool, a network), and the object's id.
func executed(a fleet.Actor, of fleet.Subject, right policy.Permission) (*assign.Assignable, string, error) {
	if err := policy.Check(a, right, ""); err != nil {
		return nil, "", err
	}
	noun, id := of.Split()
	if n := assign.Of(noun); n != nil {
		return n, id, nil
	}
	return nil, "", fleet.Errorf(fleet.NotFound, "Nothing of that kind is assigned to hosts.")
}

// Assign puts an object on more hosts. Hosts that have it already stay as they are.
func (c *Control) Assign(ctx context.Context, a fleet.Actor, of fleet.Subject, hosts []fleet.HostID) ([]fleet.TaskID, error) {
	n, id, err := executed(a, of, policy.InfraChange)
	if err != nil {
		return nil, err
	}
	return n.Assign(ctx, c.store, a, id, hosts)
}

// Release takes an object from one host; data stays. It is refused while VMs of that host need it.
func (c *Control) Release(ctx context.Context, a fleet.Actor, of fleet.Subject, host fleet.HostID) (fleet.TaskID, error) {
	n, id, err := executed(a, of, policy.InfraChange)
	if err != nil {
		return "", err
	}
	return n.Release(ctx, c.store, a, id, host)
}

// Retry sets an object up on a host again, at once.
func (c *Control) Retry(ctx context.Context, a fleet.Actor, of fleet.Subject, host fleet.HostID) (fleet.TaskID, error) {
	n, id, err := executed(a, of, policy.InfraChange)
	if err != nil {
		return "", err
	}
	return n.Retry(ctx, c.store, a, id, host)
}

// RetryEverywhere sets an object up again on all hosts where it failed.
func (c *Control) RetryEverywhere(ctx context.Context, a fleet.Actor, of fleet.Subject) (fleet.Retried, error) {
	n, id, err := executed(a, of, policy.InfraChange)
	if err != nil {
		return fleet.Retried{}, err
	}
	return n.RetryAll(ctx, c.store, a, id)
}

// DeleteEverywhere releases an object on all its hosts; its row goes with the last of them, and data stays. It is refused while VMs need
// it. No task: it was on no host and is gone.
func (c *Control) DeleteEverywhere(ctx context.Context, a fleet.Actor, of fleet.Subject) ([]fleet.TaskID, error) {
	n, id, err := executed(a, of, policy.InfraChange)
	if err != nil {
		return nil, err
	}
	return n.Delete(ctx, c.store, a, id)
}

// AssignByLabel says which labels a host must have to get an object by itself; none: no host does. Those that have them get it at once.
func (c *Control) AssignByLabel(ctx context.Context, a fleet.Actor, of fleet.Subject, selector string) (fleet.ByLabel, error) {
	n, id, err := executed(a, of, policy.InfraChange)
	if err != nil {
		return fleet.ByLabel{}, err
	}
	return n.Select(ctx, c.store, a, id, selector)
}

// ByLabel tells how an object comes to hosts by their labels.
func (c *Control) ByLabel(ctx context.Context, a fleet.Actor, of fleet.Subject) (fleet.ByLabel, error) {
	n, id, err := executed(a, of, policy.InfraSee)
	if err != nil {
		return fleet.ByLabel{}, err
	}
	return n.ByLabel(ctx, c.store, a, id)
}

// LabelledHosts tells which hosts a selector matches, and which of them have the object; without an id it is a new one.
func (c *Control) LabelledHosts(ctx context.Context, a fleet.Actor, of fleet.Subject, selector string) (fleet.Labelled, error) {
	n, id, err := executed(a, of, policy.InfraSee)
	if err != nil {
		return fleet.Labelled{}, err
	}
	return n.Preview(ctx, c.store, a, id, selector)
}
