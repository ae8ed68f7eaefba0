package control

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/flavors"
	"quantix/internal/control/quotas"
	"quantix/internal/control/requests"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/request"
)

// vmApproval is who has approved a new VM.
type vmApproval int

const (
	approvedByNobody        vmApproval = iota
	approvedByOwner                    // the VM needs no further approval
	approvedByAdministrator            // and the project's rules do not bind it
)

// check refuses a new VM that needs approval.
func (v vmApproval) check(ctx context.Context, q *db.Queries, a fleet.Actor, project fleet.ProjectID) error {
	if v != approvedByNobody {
		return nil
	}
	needed, err := flavors.NeedsApproval(ctx, q, a, project)
	var checks fleet.Checks
	if needed {
		checks.Add("projectId", "New VMs of this project need approval. Request them one at a time.")
	}
	return store.FirstErrorOf(err, checks.Err)
}

func requestLabel(id request.ID) string { return "input of request " + string(id) }

// RequestVM asks for a new VM that needs approval, or that exceeds the project's quota or rules. It refuses what
// CreateVM would refuse for other reasons.
func (c *Control) RequestVM(ctx context.Context, a fleet.Actor, in CreateVM, reason string) (request.Request, error) {
	if err := policy.Check(a, policy.VMChange, in.ProjectID); err != nil {
		return request.Request{}, err
	}
	var checks fleet.Checks
	request.CheckReason(&checks, reason)
	if err := checks.Err(); err != nil {
		return request.Request{}, err
	}
	var id request.ID
	err := c.store.RunPgxTx(ctx, func(tx pgx.Tx) error {
		completed, vm, err := c.tryRequestedVM(ctx, tx, a, in)
		if err != nil {
			return err
		}
		id, err = requests.AddVM(ctx, db.New(tx), a, in.ProjectID, vm, reason, func(id request.ID) ([]byte, error) {
			return secretSealer{c.opts.Vault}.encodeInput(requestLabel(id), completed, completed.FirstBoot != nil)
		})
		return err
	})
	if err != nil {
		return request.Request{}, err
	}
	return c.GetRequest(ctx, a, id)
}

// tryRequestedVM creates the VM without the project's quota and rolls back. If the project's rules refuse the VM, it
// tries again without them. In the returned input, the source's values are filled in, so that later changes of a flavor
// or template do not change the VM.
func (c *Control) tryRequestedVM(ctx context.Context, tx pgx.Tx, a fleet.Actor, in CreateVM) (completed CreateVM, out request.WantedVM, err error) {
	create := func(by vmApproval) error {
		in.approval = by
		return dryRun(ctx, tx, func(q *db.Queries) error {
			if err := q.SkipQuota(ctx); err != nil {
				return err
			}
			var vm fleet.VMView
			var err error
			if completed, vm, err = c.createVMInTx(store.WithTx(ctx, tx), q, a, fleet.NewID[fleet.VMID](), in, ""); err != nil {
				return err
			}
			out = request.WantedVM{Name: vm.Name, Spec: completed.Spec, Guest: in.FirstBoot != nil}
			out.Uses, err = quotas.VMUse(ctx, q, vm.ID)
			return err
		})
	}
	broken := create(approvedByOwner)
	if broken == nil {
		return completed, out, nil
	}
	if err := create(approvedByAdministrator); err != nil {
		return completed, out, err
	}
	if e, ok := errors.AsType[*fleet.Error](broken); ok {
		for _, f := range e.Fields {
			out.Broken = append(out.Broken, f.Message)
		}
	}
	return completed, out, nil
}

// requestedVMs creates the VMs of approved requests.
type requestedVMs struct{ c *Control }

// CreateRequestedVM implements requests.VMCreator.
func (r requestedVMs) CreateRequestedVM(ctx context.Context, tx pgx.Tx, requester fleet.Actor, id request.ID, input []byte, mayBreakRules bool) (fleet.VMView, error) {
	var in CreateVM
	if err := (secretSealer{r.c.opts.Vault}).decodeInput(requestLabel(id), input, &in); err != nil {
		return fleet.VMView{}, err
	}
	if !policy.May(requester, policy.VMChange, in.ProjectID) {
		return fleet.VMView{}, fleet.Errorf(fleet.Conflict, "%s may not create VMs in this project any more. Refuse the request.", requester.Name)
	}
	in.approval = approvedByOwner
	if mayBreakRules {
		in.approval = approvedByAdministrator
	}
	_, vm, err := r.c.createVMInTx(store.WithTx(ctx, tx), db.New(tx), requester, fleet.NewID[fleet.VMID](), in, "")
	return vm, joinFieldErrors(err)
}
