package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/flavors"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/vmedit"
)

// EditVMs applies the same edit to many VMs. It writes a task with one child per VM and returns without waiting for the
// children. BeginTasks runs the children later, with the person's permissions at that time.
func (c *Control) EditVMs(ctx context.Context, a fleet.Actor, ids []fleet.VMID, edit vmedit.BulkEdit) (fleet.Task, error) {
	if err := policy.Check(a, policy.VMChange, ""); err != nil {
		return fleet.Task{}, err
	}
	if err := checkVMCount(a, ids); err != nil {
		return fleet.Task{}, err
	}
	if err := edit.Check(); err != nil {
		return fleet.Task{}, err
	}
	text, err := json.Marshal(edit)
	if err != nil {
		return fleet.Task{}, err
	}
	return c.addBulkTask(ctx, a, bulkRequest{
		kind: fleet.VMApply, action: "vms.edit", permission: policy.VMChange, ids: ids,
		refuseVM: func(vm fleet.VMView) error { _, _, err := applyBulkEdit(edit, vm); return err },
		afterInsert: func(q *db.Queries, id fleet.TaskID) error {
			return q.AddTaskEdit(ctx, db.AddTaskEditParams{TaskID: id, Edit: text})
		},
	})
}

// checkVMCount refuses a bulk request without a person, without VMs, or with more than MaxBulkVMs VMs.
func checkVMCount(a fleet.Actor, ids []fleet.VMID) error {
	switch {
	case a.UserID == "":
		return fleet.Errorf(fleet.Forbidden, "Only a person can change several VMs at once.")
	case len(ids) == 0:
		return fleet.Errorf(fleet.Malformed, "Select VMs first.")
	case len(ids) > MaxBulkVMs:
		return fleet.Errorf(fleet.TooLarge, "Select at most %d VMs at once.", MaxBulkVMs)
	case slices.ContainsFunc(ids, func(id fleet.VMID) bool { return !fleet.IsID(string(id)) }):
		return fleet.Errorf(fleet.Malformed, "A VM ID must be a UUID in lower case.")
	}
	return nil
}

// applyBulkEdit returns the VM after the edit and the changed fields. It refuses edits that a VM in this state does not
// allow. It does not check whether the host supports them.
func applyBulkEdit(edit vmedit.BulkEdit, old fleet.VMView) (vm fleet.VMView, changes []fleet.Change, err error) {
	if ok, why := old.Allows(fleet.ActEdit); !ok {
		return vm, nil, fleet.RefusalError(why)
	}
	vm = old
	if vm.VM, err = edit.ApplyTo(old.VM); err != nil {
		return vm, nil, err
	}
	changes = old.Diff(vm.VM)
	return vm, changes, checkEditable(old, vm, changes)
}

// BulkPreview is the predicted outcome of an edit of many VMs.
type BulkPreview struct {
	Now      int                `json:"now"`      // VMs where all changes apply at once
	NextBoot int                `json:"nextBoot"` // VMs where some change needs a restart
	Same     int                `json:"same"`     // VMs that need no change
	Refused  []vmedit.RefusedVM `json:"refused"`  // the first refusals, with reasons
	Left     int                `json:"left"`     // number of refusals not in Refused
}

// maxListedRefusals limits the refusals listed in a preview.
const maxListedRefusals = 50

// PreviewEdit predicts the outcome of EditVMs with the same input from data in the database. Checks of host resources,
// such as free memory, run only when the edit is applied.
func (c *Control) PreviewEdit(ctx context.Context, a fleet.Actor, ids []fleet.VMID, edit vmedit.BulkEdit) (out BulkPreview, err error) {
	if err := policy.Check(a, policy.VMChange, ""); err != nil {
		return out, err
	}
	if err := checkVMCount(a, ids); err != nil {
		return out, err
	}
	if err := edit.Check(); err != nil {
		return out, err
	}
	vms, err := visibleVMs(ctx, c.store.Queries, a, ids)
	if err != nil {
		return out, err
	}
	seen := map[fleet.VMID]bool{}
	for _, id := range ids {
		if seen[id] {
			continue
		}
		seen[id] = true
		vm, visible := vms[id]
		name := vm.Name
		err := store.NotFoundError(pgx.ErrNoRows, "VM")
		var changes []fleet.Change
		if visible {
			err = store.FirstErrorOf(policy.Check(a, policy.VMChange, vm.ProjectID), func() (err error) {
				var to fleet.VMView
				if to, changes, err = applyBulkEdit(edit, vm); err == nil {
					err = checkReservedFields(a, vm.Spec, to.Spec)
				}
				if err == nil && len(changes) > 0 {
					err = flavors.CheckEdit(ctx, c.store.Queries, a, vm.VM, to.VM)
				}
				return err
			})
		} else {
			name = string(id)
		}
		switch refused, ok := errors.AsType[*fleet.Error](err); {
		case ok && len(out.Refused) == maxListedRefusals:
			out.Left++
		case ok:
			out.Refused = append(out.Refused, vmedit.RefusedVM{VMID: id, Name: name, Why: refused.Error()})
		case err != nil:
			return out, err
		case len(changes) == 0:
			out.Same++
		case slices.ContainsFunc(changes, func(c fleet.Change) bool { return c.When == fleet.WhenNextBoot }):
			out.NextBoot++
		default:
			out.Now++
		}
	}
	return out, nil
}

// runEditChild runs one child of EditVMs. A child whose VM needs no change ends at once.
func (c *Control) runEditChild(ctx context.Context, q *db.Queries, a fleet.Actor, p db.PendingTasksRow) error {
	text, err := q.TaskEdit(ctx, p.ID)
	if err != nil {
		return fmt.Errorf("read the edit of task %s: %w", p.ID, err)
	}
	var edit vmedit.BulkEdit
	if err := json.Unmarshal(text, &edit); err != nil {
		return fmt.Errorf("read the edit of task %s: %w", p.ID, err)
	}
	_, id := p.Subject.ResourceAndID()
	old, err := store.LockVM(ctx, q, a, fleet.VMID(id), policy.VMChange)
	if err != nil {
		return err
	}
	to, err := edit.ApplyTo(old.VM)
	if err != nil {
		return err
	}
	_, _, job, err := c.updateVM(ctx, q, a, old.ID, UpdateVM{Labels: to.Labels, Spec: &to.Spec}, p.ID)
	if err == nil && job == "" {
		err = q.EndUnchanged(ctx, db.EndUnchangedParams{ID: p.ID, Note: "It is so already."})
	}
	return err
}
