package control

import (
	"context"
	"fmt"

	"quantix/db"
	"quantix/internal/control/query"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// RequestDiscoveredVMAction requests a power action on a domain that Quantix does not manage. It queues the job and
// returns its task without waiting for the host. If fleet.DiscoveredVM.Allows forbids the action, the error is a
// Conflict with the reason. Queued jobs of the domain's other power actions are cancelled.
func (c *Control) RequestDiscoveredVMAction(ctx context.Context, a fleet.Actor, host fleet.HostID, id fleet.VMID, act fleet.Action) (fleet.Task, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return fleet.Task{}, err
	}
	kind := act.DiscoveredJobKind()
	if kind == "" {
		var checks fleet.Checks
		checks.Add("action", "There is no power action %q. Use start, shutdown, reboot, pause, resume, reset or stop.", string(act))
		return fleet.Task{}, checks.Err()
	}
	var task fleet.Task
	err := c.store.Tx(ctx, func(q *db.Queries) error {
		vm, err := getDiscoveredVM(ctx, q, host, id)
		if err != nil {
			return err
		}
		if ok, why := vm.Allows(act); !ok {
			return fleet.Errorf(fleet.Conflict, "%s is not possible: %s", act.Label(), why)
		}
		if act == fleet.ActStart {
			if err := checkHostStartsVMs(ctx, q, a, host); err != nil {
				return err
			}
		}
		subject := fleet.SubjectDiscoveredVM(host, id)
		err = q.CancelWaitingOf(ctx, db.CancelWaitingOfParams{
			Subject: subject, Kinds: otherDiscoveredJobKinds(act), Error: fmt.Sprintf("Not done: %q was requested before this task started.", act.Label()),
		})
		if err != nil {
			return err
		}
		queued, err := store.JoinOrQueueJob(ctx, q, a, db.JoinQueueParams{HostID: host, Kind: kind, Subject: subject, SubjectName: vm.Name})
		if err != nil {
			return fmt.Errorf("queue %s: %w", kind, err)
		}
		if err := store.Audit(ctx, q, a, "found."+string(act), subject, vm.Name, "on "+vm.HostName); err != nil {
			return err
		}
		task, err = store.GetTask(ctx, q, fleet.SystemActor, queued)
		return err
	})
	return task, err
}

// otherDiscoveredJobKinds lists the kinds of all power jobs of discovered VMs except the action's.
func otherDiscoveredJobKinds(act fleet.Action) (kinds []string) {
	for _, other := range fleet.DiscoveredVMActions {
		if k := other.DiscoveredJobKind(); k != "" && other != act {
			kinds = append(kinds, string(k))
		}
	}
	return kinds
}

// OpenDiscoveredConsole makes a ticket for the console of a domain that Quantix does not manage: see OpenConsole.
func (c *Control) OpenDiscoveredConsole(ctx context.Context, a fleet.Actor, host fleet.HostID, id fleet.VMID) (ConsoleTicket, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return ConsoleTicket{}, err
	}
	if a.UserID == "" || a.Session == "" {
		return ConsoleTicket{}, fleet.Errorf(fleet.Unauthorized, "Sign in first.")
	}
	ticket := newConsoleTicket()
	err := c.store.Tx(ctx, func(q *db.Queries) error {
		vm, err := getDiscoveredVM(ctx, q, host, id)
		if err != nil {
			return err
		}
		if ok, why := vm.Allows(fleet.ActConsole); !ok {
			return fleet.RefusalError(why)
		}
		if err := addConsoleTicket(ctx, q, a, ticket, host, id); err != nil {
			return err
		}
		return store.Audit(ctx, q, a, "found.console", fleet.SubjectDiscoveredVM(host, id), vm.Name, "on "+vm.HostName)
	})
	if err != nil {
		return ConsoleTicket{}, err
	}
	return ticket, nil
}

// queueDiscoveredConsole asks the host to dial this portal for the console of an unmanaged domain.
func (c *Control) queueDiscoveredConsole(ctx context.Context, q *db.Queries, a fleet.Actor, console fleet.PairID, host fleet.HostID, id fleet.VMID) error {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return err
	}
	vm, err := getDiscoveredVM(ctx, q, host, id)
	if err != nil {
		return err
	}
	if ok, why := vm.Allows(fleet.ActConsole); !ok {
		return fleet.RefusalError(why)
	}
	return q.QueueConsole(ctx, db.QueueConsoleParams{
		ID: fleet.NewID[fleet.JobID](), HostID: host, Subject: fleet.SubjectDiscoveredVM(host, id), Args: fleet.JobArgs{Console: console, PortalURL: c.opts.PairURL},
	})
}

// getDiscoveredVM reads an unmanaged domain of a host as the host last reported it.
func getDiscoveredVM(ctx context.Context, q *db.Queries, host fleet.HostID, id fleet.VMID) (fleet.DiscoveredVM, error) {
	if err := store.CheckID(host, "VM"); err != nil {
		return fleet.DiscoveredVM{}, err
	}
	if err := store.CheckID(id, "VM"); err != nil {
		return fleet.DiscoveredVM{}, err
	}
	r, err := q.GetDiscoveredVM(ctx, db.GetDiscoveredVMParams{HostID: host, ID: id})
	if err != nil {
		return fleet.DiscoveredVM{}, store.NotFoundError(err, "VM")
	}
	return query.DiscoveredVMView(r.FoundVM, r.HostName, fleet.NewReportTime(r.LookedAt, r.FreshFor), fleet.MaintenanceState(r.HostMaintenance), r.Now), nil
}
