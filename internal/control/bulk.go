package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// MaxBulkVMs is the maximum number of VMs in one bulk task.
const MaxBulkVMs = 500

// RequestPowerActions requests a power action for many VMs. It writes a task with one child per VM and returns without
// waiting for the children. A child for a VM whose state forbids the action ends at once with the reason. BeginTasks
// starts the other children later, with the person's permissions at that time. An ID may be the UUID of a discovered VM.
func (c *Control) RequestPowerActions(ctx context.Context, a fleet.Actor, act fleet.Action, ids []fleet.VMID) (fleet.Task, error) {
	return c.RequestPowerActionsWith(ctx, a, act, ids, PowerOptions{})
}

// RequestPowerActionsWith works like RequestPowerActions, with options for all VMs.
func (c *Control) RequestPowerActionsWith(ctx context.Context, a fleet.Actor, act fleet.Action, ids []fleet.VMID, with PowerOptions) (fleet.Task, error) {
	if err := policy.Check(a, policy.VMUse, ""); err != nil {
		return fleet.Task{}, err
	}
	if err := checkPowerAction(act); err != nil {
		return fleet.Task{}, err
	}
	if err := checkVMCount(a, ids); err != nil {
		return fleet.Task{}, err
	}
	if err := checkMayOvercommit(a, with.Overcommit); err != nil {
		return fleet.Task{}, err
	}
	in := bulkRequest{
		kind: act.JobKind(), action: "vms." + string(act), permission: policy.VMUse, ids: ids,
		auditDetail: strings.TrimPrefix(overcommitAuditSuffix(with.Overcommit), ", "),
		refuseVM:    func(vm fleet.VMView) error { return checkActionAllowed(vm, act) },
		startOrder:  fleet.BulkActionPosition(act),
		discovered:  act,
	}
	if with != (PowerOptions{}) {
		return c.storeInputAndAddBulkTask(ctx, a, with, in)
	}
	return c.addBulkTask(ctx, a, in)
}

// bulkRequest is a request for the same operation on many VMs.
type bulkRequest struct {
	kind   fleet.JobKind
	action string // audit action
	// auditDetail is the detail of the task's audit line
	auditDetail string
	permission  policy.Permission
	ids         []fleet.VMID
	refuseVM    func(fleet.VMView) error // refuses a VM by its state in the database at the time of the request
	// startOrder returns a VM's stage and its delay in seconds; nil: all children start at once.
	startOrder  func(fleet.VMPolicy) (startOrder, wait int)
	afterInsert func(q *db.Queries, parent fleet.TaskID) error // stores further rows for the task; nil: nothing
	// discovered is the power action on discovered VMs that ids names; empty: an ID of such a VM is unknown.
	discovered fleet.Action
}

func (c *Control) addBulkTask(ctx context.Context, a fleet.Actor, in bulkRequest) (fleet.Task, error) {
	var task fleet.Task
	var forbidden *fleet.Error
	err := c.store.Tx(ctx, func(q *db.Queries) error {
		var steps db.AddStepsParams
		var err error
		if steps, forbidden, err = buildChildSteps(ctx, q, a, in); err != nil {
			return err
		}
		id := fleet.NewID[fleet.TaskID]()
		steps.ID, steps.Kind, steps.CreatedBy, steps.UserID, steps.Address = &id, string(in.kind), a.Name, store.ActorUserID(a), a.Address
		if in.kind == fleet.VMApply {
			steps.Generation = fleet.EditOfMany
		}
		if err := q.AddSteps(ctx, steps); err != nil {
			return err
		}
		if in.afterInsert != nil {
			if err := in.afterInsert(q, id); err != nil {
				return err
			}
		}
		if err := q.SettleParent(ctx, string(id)); err != nil {
			return err
		}
		if err := q.NotifyWaiters(ctx); err != nil {
			return err
		}
		if err := store.Audit(ctx, q, a, in.action, fleet.SubjectTask(id), steps.Name, in.auditDetail); err != nil {
			return err
		}
		task, err = store.GetTask(ctx, q, fleet.SystemActor, id)
		return err
	})
	if err != nil {
		return fleet.Task{}, err
	}
	if forbidden != nil {
		if err := c.AuditRefusal(ctx, fleet.SystemActor, a, in.action, forbidden); err != nil {
			return fleet.Task{}, err
		}
	}
	return store.RedactTask(a, task), nil
}

// visibleVMs returns the given VMs that the actor sees, by id.
func visibleVMs(ctx context.Context, q *db.Queries, a fleet.Actor, ids []fleet.VMID) (map[fleet.VMID]fleet.VMView, error) {
	rows, err := q.VMsNamed(ctx, db.VMsNamedParams{Ids: store.ToStrings(ids), AllProjects: policy.SeesAllProjects(a), Projects: store.VisibleProjects(a)})
	if err != nil {
		return nil, store.UserError(err)
	}
	vms := make(map[fleet.VMID]fleet.VMView, len(rows))
	for _, r := range rows {
		vm := store.VMView(r.VM, r.HostName, r.ProjectName, fleet.NewReportTime(r.LookedAt, r.FreshFor), fleet.MaintenanceState(r.HostMaintenance), r.Now)
		if err := store.MarkOfflineSightings(ctx, q, &vm, r.Now); err != nil {
			return nil, err
		}
		vms[vm.ID] = store.RedactVMForActions(a, vm)
	}
	return vms, nil
}

// buildChildSteps makes one child per VM. The child of a VM that in.refuseVM refuses, or for which the actor lacks the
// permission, ends at once with that error. forbidden is the first error about a missing permission.
func buildChildSteps(ctx context.Context, q *db.Queries, a fleet.Actor, in bulkRequest) (steps db.AddStepsParams, forbidden *fleet.Error, err error) {
	vms, err := visibleVMs(ctx, q, a, in.ids)
	if err != nil {
		return steps, nil, err
	}
	found, err := discoveredVMsByID(ctx, q, a, in, vms)
	if err != nil {
		return steps, nil, err
	}
	projects := map[fleet.ProjectID]bool{}
	for _, vm := range vms {
		projects[vm.ProjectID] = true
	}
	for id := range projects {
		if len(projects) == 1 && len(found) == 0 { // other tasks have no project; each child has its own
			steps.ProjectID = &id
		}
	}
	steps.Listed = len(projects) > 0 && steps.ProjectID == nil
	seen := make(map[fleet.VMID]bool, len(in.ids))
	for _, id := range in.ids {
		if seen[id] {
			continue
		}
		seen[id] = true
		vm, visible := vms[id]
		kind, subject, name, project := in.kind, fleet.SubjectVM(id), vm.Name, vm.ProjectID
		err := store.NotFoundError(pgx.ErrNoRows, "VM")
		if twins := found[id]; len(twins) > 0 {
			kind, subject, name, err = discoveredChild(a, twins, in)
		} else if visible {
			err = store.FirstErrorOf(policy.Check(a, in.permission, project), func() error { return in.refuseVM(vm) })
		} else if subject, name = "", string(id); steps.ProjectID != nil {
			project = *steps.ProjectID
		}
		note := ""
		if refused, ok := errors.AsType[*fleet.Error](err); ok {
			if note = refused.Error(); refused.Code == fleet.Forbidden && forbidden == nil {
				forbidden = refused
			}
		}
		steps.Ids, steps.Subjects = append(steps.Ids, string(fleet.NewID[fleet.TaskID]())), append(steps.Subjects, string(subject))
		steps.Names, steps.Projects, steps.Errors = append(steps.Names, name), append(steps.Projects, string(project)), append(steps.Errors, note)
		steps.Kinds = append(steps.Kinds, string(kind))
	}
	if in.startOrder != nil {
		setStartStages(&steps, vms, in.startOrder)
	}
	steps.Name = fleet.CountWithUnit(len(seen), "VM")
	return steps, forbidden, nil
}

// setStartStages sets the stages of the children that were not refused. A stage starts when all children of earlier
// stages have ended and the longest delay of the previous stage has passed.
func setStartStages(steps *db.AddStepsParams, vms map[fleet.VMID]fleet.VMView, startOrder func(fleet.VMPolicy) (startOrder, wait int)) {
	waits := map[int]int{} // longest wait in seconds, by start order
	at := make([]int, len(steps.Ids))
	for i, subject := range steps.Subjects {
		if steps.Errors[i] != "" {
			continue
		}
		_, id := fleet.Subject(subject).ResourceAndID()
		p, wait := startOrder(vms[fleet.VMID(id)].Spec.Policy)
		at[i], waits[p] = p, max(waits[p], wait)
	}
	order := slices.Sorted(maps.Keys(waits))
	steps.Stages, steps.Waits = make([]int32, len(at)), make([]int32, len(at))
	for i, p := range at {
		stage, found := slices.BinarySearch(order, p)
		if steps.Errors[i] != "" || !found || stage == 0 {
			continue
		}
		steps.Stages[i], steps.Waits[i] = int32(stage), int32(waits[order[stage-1]]) //nolint:gosec // far below
	}
}

// BeginTasks starts the pending children of bulk tasks until none is left. Each child runs the use case of one VM as
// the person who requested the task. Starting a child and its effects share one transaction, so a crash neither loses
// nor repeats a child. Several portals may run BeginTasks at once.
func (c *Control) BeginTasks(ctx context.Context, a fleet.Actor) error {
	if err := store.CheckSystemActor(a); err != nil {
		return err
	}
	if _, err := c.store.LetStagesBegin(ctx); err != nil {
		return err
	}
	for {
		n, err := c.startPendingChildren(ctx)
		if err != nil || n == 0 {
			return err
		}
	}
}

// startPendingChildren starts a few pending children and returns their number.
func (c *Control) startPendingChildren(ctx context.Context) (n int, err error) {
	err = c.store.RunPgxTx(ctx, func(tx pgx.Tx) error {
		q := db.New(tx)
		pending, err := q.PendingTasks(ctx)
		if n = len(pending); err != nil {
			return err
		}
		// A fixed lock order of the VMs prevents deadlocks between portals.
		slices.SortFunc(pending, func(x, y db.PendingTasksRow) int { return strings.Compare(string(x.Subject), string(y.Subject)) })
		actors := map[fleet.UserID]fleet.Actor{}
		busy := map[fleet.HostID]string{} // why further migrations from the host wait, which spares the check of each VM
		for _, p := range pending {
			if reason := busy[fleet.HostID(p.VMHost)]; reason != "" {
				if err := q.DelayTask(ctx, db.DelayTaskParams{ID: p.ID, Note: reason}); err != nil {
					return err
				}
				continue
			}
			err := pgx.BeginFunc(ctx, tx, func(sub pgx.Tx) error { return c.startChildTask(store.WithTx(ctx, sub), db.New(sub), actors, p) })
			if delay, ok := errors.AsType[*delayError](err); ok {
				if err := q.DelayTask(ctx, db.DelayTaskParams{ID: p.ID, Note: delay.reason}); err != nil {
					return err
				}
				if delay.source != "" {
					busy[delay.source] = delay.reason
				}
				continue
			}
			note, refused := c.refusalText(ctx, p, store.UserError(err))
			if !refused {
				return err
			}
			if note == "" {
				continue
			}
			if err := q.RefuseTask(ctx, db.RefuseTaskParams{ID: p.ID, Error: note}); err != nil {
				return err
			}
		}
		return deleteUnneededInputs(ctx, q, pending)
	})
	return n, err
}

// delayError is the reason why a child of a bulk task cannot start yet. BeginTasks tries the child again later.
type delayError struct {
	reason string
	source fleet.HostID // the host that sends as many transfers as it may; empty: other VMs of that host need not wait
}

func (e *delayError) Error() string { return e.reason }

// deleteUnneededInputs deletes the stored input of the children's tasks that have no more pending children.
func deleteUnneededInputs(ctx context.Context, q *db.Queries, children []db.PendingTasksRow) error {
	var parents []string
	for _, p := range children {
		if p.Kind == fleet.VMApply && p.ParentID != nil && !slices.Contains(parents, string(*p.ParentID)) {
			parents = append(parents, string(*p.ParentID))
		}
	}
	if len(parents) == 0 {
		return nil
	}
	return q.DropVMOrders(ctx, parents)
}

func (c *Control) startChildTask(ctx context.Context, q *db.Queries, actors map[fleet.UserID]fleet.Actor, p db.PendingTasksRow) error {
	a, err := readTaskCreator(ctx, q, actors, p)
	if err != nil {
		return err
	}
	if p.ForKind != string(p.Kind) { // the child of a host's maintenance
		if done, err := c.prepareMaintenanceChild(ctx, q, a, p); done || err != nil {
			return err
		}
	}
	if run, ok := childRunners[p.Kind]; ok {
		return run(c, ctx, q, a, p)
	}
	with, err := powerOptionsOf(ctx, q, p)
	if err != nil {
		return err
	}
	_, err = queuePowerAction(ctx, q, a, vmOfChild(p), fleet.MenuActionForJobKind(p.Kind), with, p.ID)
	return err
}

// powerOptionsOf returns the options of a child's bulk task, which few tasks have.
func powerOptionsOf(ctx context.Context, q *db.Queries, p db.PendingTasksRow) (with PowerOptions, err error) {
	text, err := q.TaskEdit(ctx, p.ID)
	if errors.Is(err, pgx.ErrNoRows) {
		return with, nil
	}
	if err != nil {
		return with, fmt.Errorf("read the options of task %s: %w", p.ID, err)
	}
	return with, json.Unmarshal(text, &with)
}

// readTaskCreator returns the person who requested the child's task, with that person's current permissions.
func readTaskCreator(ctx context.Context, q *db.Queries, actors map[fleet.UserID]fleet.Actor, p db.PendingTasksRow) (fleet.Actor, error) {
	noAccount := fleet.Errorf(fleet.Unauthorized, "Not done: the account of %s is deleted or disabled.", p.CreatedBy)
	if p.UserID == nil {
		return fleet.Actor{}, noAccount
	}
	a, refusal := actors[*p.UserID]
	if !refusal {
		row, err := q.UserNow(ctx, *p.UserID)
		if errors.Is(err, pgx.ErrNoRows) {
			return a, noAccount
		}
		if err != nil {
			return a, err
		}
		a = fleet.Actor{UserID: row.ID, Name: row.Name, Role: row.Role}
		if a.Projects, err = store.DecodeProjectRoles(row.Projects); err != nil {
			return a, err
		}
		actors[row.ID] = a
	}
	a.Address = p.Address
	return a, nil
}

// refusalText returns the error text stored for a refused child. refused is false for a temporary error and for an
// error that concerns all children: BeginTasks then retries the child later.
func (c *Control) refusalText(ctx context.Context, p db.PendingTasksRow, err error) (note string, refused bool) {
	var refusal *fleet.Error
	var pg *pgconn.PgError
	const deadlock = "40P01"
	switch {
	case err == nil:
		return "", true
	case errors.As(err, &refusal) && refusal.Code != fleet.Unavailable:
		return refusalReasons(refusal), true
	case refusal != nil, ctx.Err() != nil, errors.As(err, &pg) && pg.Code == deadlock:
		return "", false
	}
	c.log.Error("a child of a task could not be started", "task", p.ID, "error", err)
	return "Something went wrong in the portal. The portal's log has the cause under this task's id.", true
}

// refusalReasons returns the reasons of a refusal: of each field, or else its message.
func refusalReasons(refusal *fleet.Error) string {
	if len(refusal.Fields) == 0 {
		return refusal.Error()
	}
	reasons := make([]string, len(refusal.Fields))
	for i, f := range refusal.Fields {
		reasons[i] = f.Message
	}
	return strings.Join(reasons, " ")
}
