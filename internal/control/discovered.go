package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

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
		return fleet.Task{}, unknownDiscoveredAction(act)
	}
	var task fleet.Task
	err := c.store.Tx(ctx, func(q *db.Queries) error {
		vm, err := getDiscoveredVM(ctx, q, a, host, id)
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

// RequestDiscoveredVMActions requests a power action on many domains that Quantix does not manage, each with the checks of
// RequestDiscoveredVMAction. It writes a task with one child per domain and returns without waiting for the children.
func (c *Control) RequestDiscoveredVMActions(ctx context.Context, a fleet.Actor, act fleet.Action, of []DiscoveredVMRef) (fleet.Task, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return fleet.Task{}, err
	}
	kind := act.DiscoveredJobKind()
	if kind == "" {
		return fleet.Task{}, unknownDiscoveredAction(act)
	}
	if err := checkDiscoveredCount(a, of); err != nil {
		return fleet.Task{}, err
	}
	return c.addDiscoveredTask(ctx, a, kind, act, of, func(*db.Queries, fleet.TaskID) (string, error) { return "", nil })
}

// checkDiscoveredCount refuses a bulk request without a person, without VMs, or with more than MaxBulkVMs VMs.
func checkDiscoveredCount(a fleet.Actor, of []DiscoveredVMRef) error {
	ids := make([]fleet.VMID, len(of))
	for i, r := range of {
		ids[i] = r.ID
	}
	return checkVMCount(a, ids)
}

func unknownDiscoveredAction(act fleet.Action) error {
	var checks fleet.Checks
	checks.Add("action", "There is no power action %q. Use start, shutdown, reboot, pause, resume, reset or stop.", string(act))
	return checks.Err()
}

// addDiscoveredTask writes a task with one child of the kind for each discovered VM. addInput writes further rows of the task
// and returns the detail of its audit line.
func (c *Control) addDiscoveredTask(ctx context.Context, a fleet.Actor, kind fleet.JobKind, act fleet.Action, of []DiscoveredVMRef, addInput func(*db.Queries, fleet.TaskID) (detail string, err error)) (task fleet.Task, err error) {
	err = c.store.Tx(ctx, func(q *db.Queries) error {
		steps, err := discoveredSteps(ctx, q, a, act, of)
		if err != nil {
			return err
		}
		id := fleet.NewID[fleet.TaskID]()
		steps.ID, steps.Kind, steps.CreatedBy, steps.UserID, steps.Address = &id, string(kind), a.Name, store.ActorUserID(a), a.Address
		detail := ""
		err = q.AddSteps(ctx, steps)
		err = store.FirstErrorOf(err, func() (err error) { detail, err = addInput(q, id); return err })
		err = store.FirstErrorOf(err, func() error { return q.SettleParent(ctx, string(id)) })
		err = store.FirstErrorOf(err, func() error { return q.NotifyWaiters(ctx) })
		err = store.FirstErrorOf(err, func() error {
			return store.Audit(ctx, q, a, "found."+string(act), fleet.SubjectTask(id), steps.Name, detail)
		})
		if err != nil {
			return err
		}
		task, err = store.GetTask(ctx, q, fleet.SystemActor, id)
		return err
	})
	return task, err
}

// discoveredSteps makes one child for each discovered VM. The child of a VM that its host no longer reports, or whose
// state forbids the action, ends at once with the reason.
func discoveredSteps(ctx context.Context, q *db.Queries, a fleet.Actor, act fleet.Action, of []DiscoveredVMRef) (steps db.AddStepsParams, err error) {
	var named db.DiscoveredVMsNamedParams
	for _, r := range of {
		named.Hosts, named.Ids = append(named.Hosts, string(r.HostID)), append(named.Ids, string(r.ID))
	}
	rows, err := q.DiscoveredVMsNamed(ctx, named)
	if err != nil {
		return steps, err
	}
	vms := map[DiscoveredVMRef]fleet.DiscoveredVM{}
	for _, r := range rows {
		vms[DiscoveredVMRef{r.FoundVM.HostID, r.FoundVM.ID}] = query.DiscoveredVMView(r.FoundVM, r.HostName, fleet.NewReportTime(r.LookedAt, r.FreshFor), fleet.MaintenanceState(r.HostMaintenance), r.Now)
	}
	var others []fleet.VMID
	for _, r := range of {
		if _, known := vms[r]; !known {
			others = append(others, r.ID)
		}
	}
	managed, err := visibleVMs(ctx, q, a, others)
	if err != nil {
		return steps, err
	}
	seen := map[DiscoveredVMRef]bool{}
	for _, r := range of {
		if seen[r] {
			continue
		}
		seen[r] = true
		vm, known := vms[r]
		subject, name, note := fleet.SubjectDiscoveredVM(r.HostID, r.ID), vm.Name, ""
		if ok, why := vm.Allows(act); known && !ok {
			note = why
		}
		if !known {
			subject, name, note = "", string(r.ID), adoptedAlreadyError(managed, r.ID).Error()
			if _, is := managed[r.ID]; is {
				subject = fleet.SubjectVM(r.ID) // the task's page leads to the VM
			}
		}
		steps.Ids, steps.Subjects = append(steps.Ids, string(fleet.NewID[fleet.TaskID]())), append(steps.Subjects, string(subject))
		steps.Names, steps.Projects, steps.Errors = append(steps.Names, name), append(steps.Projects, ""), append(steps.Errors, note)
	}
	steps.Name = fleet.CountWithUnit(len(seen), "VM")
	return steps, nil
}

// discoveredVMsByID returns the discovered VMs that a bulk request names by their UUIDs, for actors who may change hosts.
// managed are the request's VMs of Quantix.
func discoveredVMsByID(ctx context.Context, q *db.Queries, a fleet.Actor, in bulkRequest, managed map[fleet.VMID]fleet.VMView) (map[fleet.VMID][]fleet.DiscoveredVM, error) {
	if in.discovered == "" || !policy.May(a, policy.InfraChange, "") {
		return nil, nil
	}
	others := slices.DeleteFunc(slices.Clone(in.ids), func(id fleet.VMID) bool { _, has := managed[id]; return has })
	if len(others) == 0 {
		return nil, nil
	}
	rows, err := q.DiscoveredVMsWithIDs(ctx, store.ToStrings(others))
	out := map[fleet.VMID][]fleet.DiscoveredVM{}
	for _, r := range rows {
		vm := query.DiscoveredVMView(r.FoundVM, r.HostName, fleet.NewReportTime(r.LookedAt, r.FreshFor), fleet.MaintenanceState(r.HostMaintenance), r.Now)
		out[vm.ID] = append(out[vm.ID], vm)
	}
	return out, err
}

// discoveredChild returns the child of a bulk request for a discovered VM. twins are the domains with its UUID: if several
// hosts have one, the request is refused.
func discoveredChild(a fleet.Actor, twins []fleet.DiscoveredVM, in bulkRequest) (kind fleet.JobKind, subject fleet.Subject, name string, err error) {
	vm := twins[0]
	kind = cmp.Or(in.discovered.DiscoveredJobKind(), in.kind)
	if len(twins) > 1 {
		return kind, "", vm.Name, fleet.Errorf(fleet.Conflict, "%s and %s both have a discovered VM with this UUID. Choose the VM on the page of its host.", vm.HostName, twins[1].HostName)
	}
	return kind, fleet.SubjectDiscoveredVM(vm.HostID, vm.ID), vm.Name, store.FirstErrorOf(policy.Check(a, policy.InfraChange, ""), func() error {
		return conflictIfNotAllowed(vm.Allows(in.discovered))
	})
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

// discoveredVMs implements consoles.DiscoveredVMs.
type discoveredVMs struct{}

func (discoveredVMs) DiscoveredVM(ctx context.Context, q *db.Queries, a fleet.Actor, host fleet.HostID, id fleet.VMID) (fleet.DiscoveredVM, error) {
	return getDiscoveredVM(ctx, q, a, host, id)
}

// getDiscoveredVM reads an unmanaged domain of a host as the host last reported it. The error about a domain that was
// adopted meanwhile names its VM, if the actor sees the VM.
func getDiscoveredVM(ctx context.Context, q *db.Queries, a fleet.Actor, host fleet.HostID, id fleet.VMID) (fleet.DiscoveredVM, error) {
	if err := store.CheckID(host, "VM"); err != nil {
		return fleet.DiscoveredVM{}, err
	}
	if err := store.CheckID(id, "VM"); err != nil {
		return fleet.DiscoveredVM{}, err
	}
	r, err := q.GetDiscoveredVM(ctx, db.GetDiscoveredVMParams{HostID: host, ID: id})
	if errors.Is(err, pgx.ErrNoRows) {
		vms, err := visibleVMs(ctx, q, a, []fleet.VMID{id})
		return fleet.DiscoveredVM{}, store.FirstErrorOf(err, func() error { return adoptedAlreadyError(vms, id) })
	}
	if err != nil {
		return fleet.DiscoveredVM{}, store.UserError(err)
	}
	return query.DiscoveredVMView(r.FoundVM, r.HostName, fleet.NewReportTime(r.LookedAt, r.FreshFor), fleet.MaintenanceState(r.HostMaintenance), r.Now), nil
}
