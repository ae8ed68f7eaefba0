package control

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/placing"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// Limits of one person's plans: those whose host has not answered yet, and all stored plans.
const (
	maxPendingPlans = 8
	maxStoredPlans  = 20
)

// PlannedRequest is the request whose effect a plan predicts. Either Update or Create is set.
type PlannedRequest struct {
	VM     fleet.VMID `json:"-"`
	Update *UpdateVM  `json:"update,omitempty"`
	Create *CreateVM  `json:"create,omitempty"`
}

func planInputLabel(id fleet.PlanID) string { return "order of plan " + string(id) }

// errRollBackDryRun is returned from the transaction of dryRun to roll it back.
var errRollBackDryRun = errors.New("only tried")

// PlanVM predicts the effect of UpdateVM with the same input, and changes nothing. It returns the same errors as
// UpdateVM. The VM's host computes the new domain definition, which GetPlan returns once it is ready. If the input
// changes nothing, the host computes nothing and the plan has no id.
func (c *Control) PlanVM(ctx context.Context, a fleet.Actor, id fleet.VMID, in UpdateVM) (fleet.Plan, error) {
	if err := policy.Check(a, policy.VMChange, ""); err != nil {
		return fleet.Plan{}, err
	}
	if err := store.CheckID(id, "VM"); err != nil {
		return fleet.Plan{}, err
	}
	in, err := revealEdit(ctx, c, a, id, in)
	if err != nil {
		return fleet.Plan{}, err
	}
	if in.plans, err = c.planNewDisks(ctx, a, id, in.Spec); err != nil {
		return fleet.Plan{}, err
	}
	return c.addPlan(ctx, a, func(ctx context.Context, tx pgx.Tx) (params db.AddPlanParams, order PlannedRequest, err error) {
		var old, vm fleet.VMView
		var drawn fleet.VMSpec
		if err := dryRun(ctx, tx, func(q *db.Queries) error {
			if old, vm, _, err = c.updateVM(ctx, q, a, id, in, ""); err == nil {
				drawn, err = placing.SpecWithDevices(ctx, q, vm.VM)
			}
			return err
		}); err != nil {
			return params, order, err
		}
		in.IfGeneration = old.Generation // the plan is only valid for this generation
		params = db.AddPlanParams{ProjectID: vm.ProjectID, HostID: vm.HostID, VMID: (*string)(&id), VM: vm.VM, Changes: old.Diff(vm.VM)}
		params.VM.Spec = drawn
		return params, PlannedRequest{Update: &in}, nil
	})
}

// PlanNewVM predicts the effect of CreateVM with the same input, as PlanVM does for UpdateVM. The plan names the VM's
// host. The creation chooses another VM id and other NIC addresses.
func (c *Control) PlanNewVM(ctx context.Context, a fleet.Actor, in CreateVM) (fleet.Plan, error) {
	if err := policy.Check(a, policy.VMChange, in.ProjectID); err != nil {
		return fleet.Plan{}, err
	}
	id := fleet.NewID[fleet.VMID]()
	completed, from, err := c.planSource(ctx, a, id, in)
	if err != nil {
		return fleet.Plan{}, err
	}
	return c.addPlan(ctx, a, func(ctx context.Context, tx pgx.Tx) (params db.AddPlanParams, order PlannedRequest, err error) {
		var vm fleet.VMView
		var drawn fleet.VMSpec
		if err := dryRun(ctx, tx, func(q *db.Queries) error {
			if vm, _, err = c.createVM(ctx, q, a, completed, from, ""); err == nil {
				drawn, err = placing.SpecWithDevices(ctx, q, vm.VM)
			}
			return err
		}); err != nil {
			return params, order, err
		}
		order.Create = &completed // with the defaults and versions shown in the plan
		order.Create.HostID = vm.HostID
		params = db.AddPlanParams{ProjectID: vm.ProjectID, HostID: vm.HostID, VM: vm.VM, Changes: []fleet.Change{}}
		params.VM.Spec = drawn
		return params, order, nil
	})
}

// dryRun calls do in a transaction and rolls it back. Plans thereby use the code of the real operation.
func dryRun(ctx context.Context, tx pgx.Tx, do func(q *db.Queries) error) error {
	err := pgx.BeginFunc(ctx, tx, func(sub pgx.Tx) error {
		if err := do(db.New(sub)); err != nil {
			return err
		}
		return errRollBackDryRun
	})
	if errors.Is(err, errRollBackDryRun) {
		return nil
	}
	return err
}

func (c *Control) addPlan(ctx context.Context, a fleet.Actor, try func(ctx context.Context, tx pgx.Tx) (db.AddPlanParams, PlannedRequest, error)) (out fleet.Plan, err error) {
	if a.UserID == "" {
		return out, fleet.Errorf(fleet.Forbidden, "Only a person can request a plan.")
	}
	err = c.store.RunPgxTx(ctx, func(tx pgx.Tx) error {
		q := db.New(tx)
		params, order, err := try(ctx, tx)
		if err != nil {
			return err
		}
		if order.Update != nil && len(params.Changes) == 0 {
			out = fleet.Plan{VMID: fleet.VMID(*params.VMID), ProjectID: params.ProjectID, Name: params.VM.Name, Changes: []fleet.Change{}, State: fleet.PlanReady}
			return nil
		}
		params.ID = fleet.NewID[fleet.PlanID]()
		if params.Asked, err = (secretSealer{c.opts.Vault}).encodeInput(planInputLabel(params.ID), order, order.Create != nil && order.Create.FirstBoot != nil); err != nil {
			return err
		}
		params.UserID, params.Patience, params.Most = a.UserID, fleet.PlanTimeout, maxPendingPlans
		params.VM.Status, params.VM.Sightings = nil, nil // only the host reports the status and other hosts' domains
		if err := q.DropOldPlans(ctx, db.DropOldPlansParams{UserID: a.UserID, Most: maxStoredPlans - 1}); err != nil {
			return err
		}
		n, err := q.AddPlan(ctx, params)
		if err == nil && n == 0 {
			err = fleet.Errorf(fleet.TooMany, "You have %d unfinished plans already. Wait until they are ready, or try again in half a minute.", maxPendingPlans)
		}
		if err != nil {
			return err
		}
		if err := q.QueuePlan(ctx, db.QueuePlanParams{
			ID: fleet.NewID[fleet.JobID](), HostID: params.HostID, Subject: fleet.Subject("plan:" + string(params.ID)), Args: fleet.JobArgs{Plan: params.ID},
		}); err != nil {
			return err
		}
		about := fleet.SubjectOf(fleet.TypeProject, params.ProjectID)
		if params.VMID != nil {
			about = fleet.SubjectVM(fleet.VMID(*params.VMID))
		}
		if err := store.Audit(ctx, q, a, "vm.plan", about, params.VM.Name, describeChanges(params.Changes)); err != nil {
			return err
		}
		out, err = readPlan(ctx, q, a, params.ID)
		return err
	})
	return out, err
}

// GetPlan returns one of the person's own plans. Plans expire fleet.PlanLifetime after the request.
func (c *Control) GetPlan(ctx context.Context, a fleet.Actor, id fleet.PlanID) (fleet.Plan, error) {
	if err := policy.Check(a, policy.VMChange, ""); err != nil {
		return fleet.Plan{}, err
	}
	return readPlan(ctx, c.store.Queries, a, id)
}

// readPlan reads a plan of the actor.
func readPlan(ctx context.Context, q *db.Queries, a fleet.Actor, id fleet.PlanID) (fleet.Plan, error) {
	if !fleet.IsID(string(id)) {
		return fleet.Plan{}, planNotFoundError()
	}
	row, err := q.GetPlan(ctx, db.GetPlanParams{ID: id, UserID: a.UserID, Patience: fleet.PlanTimeout, Life: fleet.PlanLifetime})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return fleet.Plan{}, planNotFoundError()
	case err != nil:
		return fleet.Plan{}, store.UserError(err)
	}
	p := row.VMPlan
	if err := policy.Check(a, policy.VMChange, p.ProjectID); err != nil {
		return fleet.Plan{}, err
	}
	out := fleet.Plan{ID: p.ID, ProjectID: p.ProjectID, Name: p.VM.Name, Changes: p.Changes, State: fleet.PlanRequested, RequestedAt: p.AskedAt}
	if p.VMID != nil {
		out.VMID = *p.VMID
	}
	switch {
	case p.Drawing != nil && p.Failed:
		out.State = fleet.PlanFailed
	case p.Drawing != nil:
		out.State = fleet.PlanReady
	case row.Silent:
		out.State = fleet.PlanTimedOut
	}
	seesHosts := store.SeesHosts(a)
	if p.Drawing != nil {
		d := p.Drawing.VisibleToUser(seesHosts)
		if !seesHosts {
			d.Error = store.RedactText(d.Error, row.HostName)
		}
		out.Drawing = &d
	}
	if seesHosts {
		out.HostID, out.HostName = p.HostID, row.HostName
	}
	return out, nil
}

// PlannedRequest returns the request of one of the person's own plans, so that the person can edit it.
func (c *Control) PlannedRequest(ctx context.Context, a fleet.Actor, id fleet.PlanID) (out PlannedRequest, err error) {
	if _, err := c.GetPlan(ctx, a, id); err != nil {
		return out, err
	}
	row, err := c.store.GetPlan(ctx, db.GetPlanParams{ID: id, UserID: a.UserID, Patience: fleet.PlanTimeout, Life: fleet.PlanLifetime})
	if err != nil {
		return out, store.UserError(err)
	}
	if err := (secretSealer{c.opts.Vault}).decodeInput(planInputLabel(id), row.VMPlan.Asked, &out); err != nil {
		return out, err
	}
	if row.VMPlan.VMID != nil {
		out.VM = *row.VMPlan.VMID
	}
	return out, nil
}

func planNotFoundError() error {
	return fleet.Errorf(fleet.NotFound, "There is no such plan: it was carried out, or is older than an hour. Request a new plan.")
}

// ExecutePlan carries out the request of a plan, once: it creates the new VM, or edits the VM unless the VM changed
// after the plan. It returns the VM's id.
func (c *Control) ExecutePlan(ctx context.Context, a fleet.Actor, id fleet.PlanID) (vm fleet.VMID, err error) {
	if err := policy.Check(a, policy.VMChange, ""); err != nil {
		return "", err
	}
	if !fleet.IsID(string(id)) {
		return "", planNotFoundError()
	}
	err = c.store.RunPgxTx(ctx, func(tx pgx.Tx) error {
		row, err := db.New(tx).TakePlan(ctx, db.TakePlanParams{ID: id, UserID: a.UserID, Life: fleet.PlanLifetime})
		if errors.Is(err, pgx.ErrNoRows) {
			return planNotFoundError()
		}
		if err != nil {
			return err
		}
		var order PlannedRequest
		if err := (secretSealer{c.opts.Vault}).decodeInput(planInputLabel(id), row.Asked, &order); err != nil {
			return err
		}
		within := store.WithTx(ctx, tx)
		if order.Create != nil {
			made, err := c.CreateVM(within, a, *order.Create)
			vm = made.ID
			return err
		}
		vm = *row.VMID
		_, _, err = c.UpdateVM(within, a, vm, *order.Update)
		return err
	})
	return vm, err
}
