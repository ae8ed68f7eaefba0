package control

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/maintenance"
	"quantix/internal/policy"
)

// EnterMaintenance is the input of the use case of the same name.
type EnterMaintenance struct {
	Decisions  map[fleet.VMID]fleet.MaintenanceDecision
	Default    fleet.MaintenanceDo // for VMs with neither a decision nor a proposal: shutdown or leave; empty: none
	Overcommit bool                // migrations may exceed what the other hosts can allocate
}

// EnterMaintenance begins the maintenance of a host, or continues it after a cancellation or a failure. No VM is placed
// or started on the host from then on. It writes a task with one child for each VM that is migrated or shut down; a VM
// without a decision in the input gets the plan's proposal, else the input's default. If a running VM has none of them,
// nothing begins: see maintenance.Plan.Decide. The pass SettleMaintenance notices when no VM runs any more.
func (c *Control) EnterMaintenance(ctx context.Context, a fleet.Actor, id fleet.HostID, in EnterMaintenance) (fleet.Task, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return fleet.Task{}, err
	}
	if err := onlyPersonMaintains(a); err != nil {
		return fleet.Task{}, err
	}
	plan, err := c.PlanMaintenance(ctx, a, id, in.Overcommit)
	if err != nil {
		return fleet.Task{}, err
	}
	if err := plan.ApplyDefault(in.Default); err != nil {
		return fleet.Task{}, err
	}
	chosen, err := plan.Decide(in.Decisions)
	if err != nil {
		return fleet.Task{}, err
	}
	var task fleet.Task
	err = c.store.Tx(ctx, func(q *db.Queries) error {
		host, now, err := lockMaintainedHost(ctx, q, id, fleet.ActEnterMaintenance)
		if err != nil {
			return err
		}
		m := &fleet.HostMaintenance{Since: now, By: a.Name}
		if host.Maintenance != nil {
			m = host.Maintenance
		}
		m.Decisions, m.EnteredAt = chosen, nil
		for id, d := range chosen {
			if d.Do == fleet.MaintenanceLeave {
				m.WithdrawStart(id)
			}
		}
		if err := checkNoneStarted(ctx, q, host, plan, chosen); err != nil {
			return err
		}
		children, counts, err := maintenanceChildren(plan, chosen)
		if err != nil {
			return err
		}
		if task, err = addHostTask(ctx, q, a, host, fleet.HostMaintenanceEnter, children, "no VM had to be moved or shut down"); err != nil {
			return err
		}
		if m.TaskID = ""; len(children) > 0 {
			m.TaskID = task.ID
		}
		if err := q.SetMaintenance(ctx, db.SetMaintenanceParams{ID: id, Maintenance: m}); err != nil {
			return err
		}
		if err := store.Audit(ctx, q, a, "host.enterMaintenance", fleet.SubjectHost(id), host.Name, counts+overcommitAuditSuffix(in.Overcommit)); err != nil {
			return err
		}
		return settleHost(ctx, q, id)
	})
	return task, err
}

// checkNoneStarted refuses if a VM runs on the locked host that the decisions do not name, or that was off when they were
// made.
func checkNoneStarted(ctx context.Context, q *db.Queries, host fleet.HostView, plan maintenance.Plan, chosen map[fleet.VMID]fleet.MaintenanceDecision) error {
	running, err := q.VMsRunningOn(ctx, host.ID)
	for _, vm := range running {
		if _, decided := chosen[vm.ID]; !decided || plan.WasOff(vm.ID) && chosen[vm.ID].Do != fleet.MaintenanceMigrate {
			return fleet.Errorf(fleet.Conflict, "%s was started or came to %s after its VMs were listed. Open the dialog again and decide about it.", vm.Name, host.Name)
		}
	}
	return err
}

// onlyPersonMaintains refuses actors without an account, because the children of the task begin with the person's
// permissions.
func onlyPersonMaintains(a fleet.Actor) error {
	if a.UserID == "" {
		return fleet.Errorf(fleet.Forbidden, "Only a person can begin or end the maintenance of a host.")
	}
	return nil
}

// lockMaintainedHost locks the host and returns it with the database's time. It refuses the action if the host's
// lifecycle does, or while the task of its maintenance has not ended. It adds the results of that task to the host's
// maintenance.
func lockMaintainedHost(ctx context.Context, q *db.Queries, id fleet.HostID, act fleet.Action) (host fleet.HostView, now time.Time, err error) {
	if _, err := q.LockHost(ctx, id); err != nil {
		return host, now, store.NotFoundError(err, "host")
	}
	row, err := q.GetHost(ctx, id)
	if err != nil {
		return host, now, err
	}
	host = store.HostViewFromRow(row)
	if err := conflictIfNotAllowed(host.Allows(act)); err != nil {
		return host, now, err
	}
	if m := host.Maintenance; m != nil && m.TaskID != "" {
		state, err := q.TaskState(ctx, m.TaskID)
		if err != nil {
			return host, now, err
		}
		if state := fleet.JobState(state); state != "" && !state.IsFinal() {
			return host, now, fleet.Errorf(fleet.Conflict, "%s is still entering maintenance. Wait for its task, or cancel the task first.", host.Name)
		}
		if _, err := recordMaintenanceResults(ctx, q, m); err != nil {
			return host, now, err
		}
	}
	return host, row.Now, nil
}

// recordMaintenanceResults adds the VMs that the task's children have shut down and migrated. It reports whether
// something was added.
func recordMaintenanceResults(ctx context.Context, q *db.Queries, m *fleet.HostMaintenance) (bool, error) {
	if m.TaskID == "" {
		return false, nil
	}
	children, err := q.EndedChildren(ctx, &m.TaskID)
	if err != nil {
		return false, err
	}
	was := len(m.Stopped) + len(m.Moved)
	for _, t := range children {
		_, id := t.Subject.ResourceAndID()
		switch vm := fleet.VMID(id); {
		case t.State != fleet.JobDone || t.Attempt == 0: // attempt 0: the VM was in the wanted state already
		case t.Kind == fleet.VMShutdown:
			m.AddStopped(vm)
		case t.Kind == fleet.VMMigrate && !slices.ContainsFunc(m.Moved, func(v fleet.MovedVM) bool { return v.VMID == vm }):
			m.AddMoved(vm, m.Decisions[vm].HostID)
		}
	}
	return len(m.Stopped)+len(m.Moved) != was, nil
}

// hostTaskChild is a child of a host's task, for one VM.
type hostTaskChild struct {
	kind    fleet.JobKind
	subject fleet.Subject
	name    string
	project fleet.ProjectID
	input   any // nil: none
}

// maintenanceChildren returns the children for the decisions, and how many VMs each decision is for: "3 migrated, 1
// shut down, 2 left".
func maintenanceChildren(plan maintenance.Plan, chosen map[fleet.VMID]fleet.MaintenanceDecision) (children []hostTaskChild, counts string, err error) {
	n := map[fleet.MaintenanceDo]int{}
	for _, vm := range plan.VMs {
		d := chosen[vm.ID]
		n[d.Do]++
		child := hostTaskChild{subject: fleet.SubjectVM(vm.ID), name: vm.Name, project: vm.ProjectID}
		switch {
		case d.Do == fleet.MaintenanceMigrate:
			child.kind, child.input = fleet.VMMigrate, MigrateVM{HostID: d.HostID, PoolID: d.PoolID, OvercommitHost: plan.Overcommit}
		case d.Do == fleet.MaintenanceShutdown && vm.Runs: // the maintenance shut down a VM that is off earlier
			if child.kind = fleet.VMShutdown; !vm.Managed {
				child.kind, child.subject = fleet.DiscoveredShutdown, fleet.SubjectDiscoveredVM(plan.HostID, vm.ID)
			}
		default:
			continue
		}
		children = append(children, child)
	}
	return children, fmt.Sprintf("%d migrated, %d shut down, %d left", n[fleet.MaintenanceMigrate], n[fleet.MaintenanceShutdown], n[fleet.MaintenanceLeave]), nil
}

// addHostTask adds a task of a host with its children, which BeginTasks starts. Without children, the task is done at
// once with the note nothing.
func addHostTask(ctx context.Context, q *db.Queries, a fleet.Actor, host fleet.HostView, kind fleet.JobKind, children []hostTaskChild, nothing string) (fleet.Task, error) {
	if len(children) == 0 {
		row, err := q.NoteDone(ctx, db.NoteDoneParams{
			ID: fleet.NewID[fleet.TaskID](), HostID: &host.ID, Kind: kind, Subject: fleet.SubjectHost(host.ID), SubjectName: host.Name,
			Note: nothing, CreatedBy: a.Name, UserID: store.ActorUserID(a),
		})
		return store.TaskFromRow(row, host.Name), err
	}
	id := fleet.NewID[fleet.TaskID]()
	steps := db.AddStepsParams{
		ID: &id, HostID: &host.ID, Kind: string(kind), Name: host.Name, Listed: true, CreatedBy: a.Name, UserID: store.ActorUserID(a), Address: a.Address,
	}
	var inputs db.AddStepInputsParams
	for _, child := range children {
		of := string(fleet.NewID[fleet.TaskID]())
		steps.Ids, steps.Kinds, steps.Subjects = append(steps.Ids, of), append(steps.Kinds, string(child.kind)), append(steps.Subjects, string(child.subject))
		steps.Names, steps.Projects, steps.Errors = append(steps.Names, child.name), append(steps.Projects, string(child.project)), append(steps.Errors, "")
		if child.input != nil {
			text, err := json.Marshal(child.input)
			if err != nil {
				return fleet.Task{}, err
			}
			inputs.Ids, inputs.Inputs = append(inputs.Ids, of), append(inputs.Inputs, text)
		}
	}
	if err := q.AddSteps(ctx, steps); err != nil {
		return fleet.Task{}, err
	}
	if err := q.AddStepInputs(ctx, inputs); err != nil {
		return fleet.Task{}, err
	}
	if err := q.SettleParent(ctx, string(id)); err != nil {
		return fleet.Task{}, err
	}
	if err := q.NotifyWaiters(ctx); err != nil {
		return fleet.Task{}, err
	}
	return store.GetTask(ctx, q, fleet.SystemActor, id)
}

// prepareMaintenanceChild runs before a child of a host's maintenance begins. done: the VM is in the wanted state
// already, and the child has ended.
func (c *Control) prepareMaintenanceChild(ctx context.Context, q *db.Queries, a fleet.Actor, p db.PendingTasksRow) (done bool, err error) {
	resource, id := p.Subject.ResourceAndID()
	if resource != string(fleet.TypeVM) {
		return false, nil
	}
	vms, err := visibleVMs(ctx, q, a, []fleet.VMID{fleet.VMID(id)})
	vm, there := vms[fleet.VMID(id)]
	if err != nil || !there {
		return false, err // the child's use case refuses it
	}
	note := ""
	switch p.Kind {
	case fleet.VMShutdown:
		if vm.Phase == fleet.PhaseStopped {
			note = "The VM was off already."
		}
	case fleet.VMStart:
		if isOn(vm.Status) {
			note = "The VM ran already."
		}
	case fleet.VMMigrate:
		var in MigrateVM
		text, err := q.TaskEdit(ctx, p.ID)
		if err != nil {
			return false, fmt.Errorf("read the input of task %s: %w", p.ID, err)
		}
		if err := json.Unmarshal(text, &in); err != nil {
			return false, err
		}
		if vm.HostID == in.HostID {
			note = "The VM was on that host already."
			break
		}
	}
	if note == "" {
		return false, nil
	}
	return true, q.EndUnchanged(ctx, db.EndUnchangedParams{ID: p.ID, Note: note})
}

// checkHostStartsVMs refuses the start of a VM on a host in maintenance. If EnterMaintenance runs at the same time, either
// it waits and then sees the requested start, or the start waits and is refused.
func checkHostStartsVMs(ctx context.Context, q *db.Queries, a fleet.Actor, id fleet.HostID) error {
	host, err := q.MaintenanceOf(ctx, id)
	if err != nil {
		return err
	}
	name := host.Name
	if !store.SeesHosts(a) {
		name = ""
	}
	if why := fleet.MaintenanceState(host.HostMaintenance).StartRefusal(name); why != "" {
		return fleet.Errorf(fleet.Conflict, "Start is not possible: %s", why)
	}
	return nil
}
