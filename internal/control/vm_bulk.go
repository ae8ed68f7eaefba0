package control

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/flavors"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/vmedit"
)

// CreateVMs is the input of Control.CreateVMs: several VMs with equal settings. In the name, {n} stands for the VM's
// number, and {nn} for the number with at least two digits.
type CreateVMs struct {
	CreateVM
	vmedit.BulkNames
}

// errRollBackTrial is returned from the transaction of a trial creation to roll it back.
var errRollBackTrial = errors.New("only tried")

// CreateVMs writes a task with one child per VM and returns without waiting for the children. An error in the first
// VM's settings or in any name refuses the whole request. BeginTasks later creates one VM after the other, with the
// person's permissions at that time. A failed child has the reason as its error. A single VM whose name has no {n} is
// created at once, by a task without children.
func (c *Control) CreateVMs(ctx context.Context, a fleet.Actor, in CreateVMs) (fleet.Task, error) {
	none := fleet.Task{}
	if err := policy.Check(a, policy.VMChange, in.ProjectID); err != nil {
		return none, err
	}
	var checks fleet.Checks
	names := in.ExpandPattern(&checks, in.Name)
	if err := checks.Err(); err != nil {
		return none, err
	}
	switch {
	case a.UserID == "":
		return none, fleet.Errorf(fleet.Forbidden, "Only a person can create several VMs at once.")
	case in.ProjectID == "":
		checks.Add("projectId", "Choose the project.")
	}
	if len(names) > 1 {
		in.checkNoUniqueSettings(&checks)
	}
	if err := checks.Err(); err != nil {
		return none, err
	}
	var task fleet.Task
	err := c.store.RunPgxTx(ctx, func(tx pgx.Tx) (err error) {
		task, err = c.addBulkCreateTask(store.WithTx(ctx, tx), tx, a, in, names)
		return err
	})
	return store.RedactTask(a, task), err
}

func sealedInputLabel(id fleet.TaskID) string { return "order of task " + string(id) }

// checkNoUniqueSettings refuses settings that two VMs cannot share.
func (in CreateVMs) checkNoUniqueSettings(c *fleet.Checks) {
	for i, n := range in.Spec.NICs {
		if n.MAC != "" {
			c.Add(fmt.Sprintf("spec.nics[%d].mac", i), "Several VMs cannot have the same address. Leave the address out: each VM gets its own.")
		}
	}
	for i, d := range in.Spec.Disks {
		if d.Existing {
			c.Add(fmt.Sprintf("spec.disks[%d].existing", i), "Several VMs cannot have the same LUN.")
		}
	}
}

func (c *Control) addBulkCreateTask(ctx context.Context, tx pgx.Tx, a fleet.Actor, in CreateVMs, names []string) (fleet.Task, error) {
	none, q := fleet.Task{}, db.New(tx)
	project, err := q.ProjectName(ctx, in.ProjectID)
	if err != nil {
		return none, store.NotFoundError(err, "project")
	}
	taken, err := q.NamesInUse(ctx, db.NamesInUseParams{ProjectID: string(in.ProjectID), Names: names})
	if err != nil {
		return none, err
	}
	if len(taken) > 0 {
		return none, vmNamesTakenError(taken, project)
	}
	if err := flavors.CheckNames(ctx, q, a, in.ProjectID, names); err != nil {
		return none, err
	}
	first := in.CreateVM
	first.Name = names[0]
	if len(names) == 1 {
		vm, err := c.CreateVM(ctx, a, first)
		if err != nil {
			return none, err
		}
		return findCreationTask(ctx, q, vm.ID)
	}
	completed, err := c.tryCreate(ctx, tx, a, first)
	if err != nil {
		return none, err
	}
	id := fleet.NewID[fleet.TaskID]()
	sealedInput, err := secretSealer{c.opts.Vault}.encodeInput(sealedInputLabel(id), completed, completed.FirstBoot != nil)
	if err != nil {
		return none, err
	}
	steps := db.AddStepsParams{
		ID: &id, Kind: string(fleet.VMApply), Name: in.Range(names), ProjectID: &in.ProjectID, CreatedBy: a.Name, UserID: store.ActorUserID(a), Address: a.Address,
	}
	for _, name := range names {
		steps.Ids, steps.Subjects = append(steps.Ids, string(fleet.NewID[fleet.TaskID]())), append(steps.Subjects, string(fleet.SubjectVM(fleet.NewID[fleet.VMID]())))
		steps.Names, steps.Projects, steps.Errors = append(steps.Names, name), append(steps.Projects, string(in.ProjectID)), append(steps.Errors, "")
	}
	if err := q.AddSteps(ctx, steps); err != nil {
		return none, err
	}
	if err := q.AddVMOrder(ctx, db.AddVMOrderParams{TaskID: id, Request: sealedInput}); err != nil {
		return none, err
	}
	if err := q.SettleParent(ctx, string(id)); err != nil {
		return none, err
	}
	if err := q.NotifyWaiters(ctx); err != nil {
		return none, err
	}
	if err := store.Audit(ctx, q, a, "vms.create", fleet.SubjectTask(id), steps.Name, fmt.Sprintf("%d in %s", len(names), project)); err != nil {
		return none, err
	}
	return store.GetTask(ctx, q, fleet.SystemActor, id)
}

// tryCreate creates a VM and rolls back, to find errors before the task is written. In the returned input, the
// template's version or the source VM's spec is filled in, so that all VMs are created from the same source.
func (c *Control) tryCreate(ctx context.Context, tx pgx.Tx, a fleet.Actor, in CreateVM) (CreateVM, error) {
	completed := in
	err := pgx.BeginFunc(ctx, tx, func(sub pgx.Tx) error {
		var err error
		if completed, _, err = c.createVMInTx(store.WithTx(ctx, sub), db.New(sub), a, fleet.NewID[fleet.VMID](), in, ""); err != nil {
			return err
		}
		return errRollBackTrial
	})
	if errors.Is(err, errRollBackTrial) {
		err = nil
	}
	return completed, err
}

// createVMInTx works like CreateVM within the transaction of ctx.
func (c *Control) createVMInTx(ctx context.Context, q *db.Queries, a fleet.Actor, id fleet.VMID, in CreateVM, child fleet.TaskID) (CreateVM, fleet.VMView, error) {
	if err := policy.Check(a, policy.VMChange, in.ProjectID); err != nil {
		return in, fleet.VMView{}, err
	}
	completed, from, err := c.planSource(ctx, a, id, in)
	if err != nil {
		return completed, fleet.VMView{}, err
	}
	vm, _, err := c.createVM(ctx, q, a, completed, from, child)
	return completed, vm, err
}

// createPendingVM creates the VM of a pending child. a is the person who requested the task.
func (c *Control) createPendingVM(ctx context.Context, q *db.Queries, a fleet.Actor, p db.PendingTasksRow) error {
	if p.ParentID == nil {
		return fleet.Errorf(fleet.Conflict, "Not done: the stored request is missing.")
	}
	text, err := q.VMOrder(ctx, *p.ParentID)
	if errors.Is(err, pgx.ErrNoRows) {
		return c.runEditChild(ctx, q, a, p) // without a stored creation, this is the child of a bulk edit
	}
	if err != nil {
		return err
	}
	var in CreateVM
	if err := (secretSealer{c.opts.Vault}).decodeInput(sealedInputLabel(*p.ParentID), text, &in); err != nil {
		return err
	}
	in.Name = p.SubjectName
	_, id := p.Subject.ResourceAndID()
	_, _, err = c.createVMInTx(ctx, q, a, fleet.VMID(id), in, p.ID)
	return joinFieldErrors(err)
}

// joinFieldErrors joins the errors of all fields into one sentence, because a task has no form to show them.
func joinFieldErrors(err error) error {
	e, ok := errors.AsType[*fleet.Error](err)
	if !ok || len(e.Fields) < 2 {
		return err
	}
	var all []string
	for _, f := range e.Fields {
		all = append(all, f.Message)
	}
	return fleet.Errorf(e.Code, "%s", strings.Join(all, " "))
}

func vmNamesTakenError(taken []string, project string) error {
	text := fmt.Sprintf("A VM named %q exists in %s already. Choose another name.", taken[0], project)
	if more := len(taken) - 5; more > 0 {
		text = fmt.Sprintf("VMs of these names exist in %s already: %s and %d more. Choose other names, or another first number.", project, strings.Join(taken[:5], ", "), more)
	} else if len(taken) > 1 {
		text = fmt.Sprintf("VMs of these names exist in %s already: %s. Choose other names, or another first number.", project, strings.Join(taken, ", "))
	}
	return &fleet.Error{Code: fleet.Conflict, Message: text, Fields: []fleet.FieldError{{Field: "name", Message: text}}}
}

// findCreationTask returns the task that creates the VM.
func findCreationTask(ctx context.Context, q *db.Queries, id fleet.VMID) (fleet.Task, error) {
	rows, err := q.VMTasks(ctx, fleet.SubjectVM(id))
	if err != nil {
		return fleet.Task{}, err
	}
	for _, r := range rows {
		if r.Task.Kind == fleet.VMApply {
			return store.TaskFromRow(r.Task, r.HostName), nil
		}
	}
	return fleet.Task{}, store.NotFoundError(pgx.ErrNoRows, "task")
}
