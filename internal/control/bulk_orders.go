package control

import (
	"context"
	"encoding/json"
	"fmt"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// DeleteVMs writes a task that deletes many VMs, each with the checks of DeleteVM.
func (c *Control) DeleteVMs(ctx context.Context, a fleet.Actor, ids []fleet.VMID, disks bool) (fleet.Task, error) {
	return c.addBulkTaskWithInput(ctx, a, policy.VMChange, disks, bulkRequest{
		kind: fleet.VMDelete, action: "vms.delete", permission: policy.VMChange, ids: ids,
		refuseVM: func(vm fleet.VMView) error { return checkRemovableVM(vm, disks) },
	})
}

// SnapshotVMs writes a task that takes a snapshot of many VMs, each with the checks of TakeSnapshot. Memory is included
// only for running VMs.
func (c *Control) SnapshotVMs(ctx context.Context, a fleet.Actor, ids []fleet.VMID, in NewSnapshot) (fleet.Task, error) {
	if err := in.checkFields(); err != nil {
		return fleet.Task{}, err
	}
	return c.addBulkTaskWithInput(ctx, a, policy.VMChange, in, bulkRequest{
		kind: fleet.VMSnapshot, action: "vms.snapshot", permission: policy.VMChange, ids: ids,
		refuseVM: func(vm fleet.VMView) error { return conflictIfNotAllowed(vm.AllowsNewSnapshot(nil)) },
	})
}

// MigrateVMs writes a task that migrates many VMs to another host, each with the checks of MigrateVM.
func (c *Control) MigrateVMs(ctx context.Context, a fleet.Actor, ids []fleet.VMID, in MigrateVM) (fleet.Task, error) {
	if err := in.checkFields(); err != nil {
		return fleet.Task{}, err
	}
	return c.addBulkTaskWithInput(ctx, a, policy.InfraChange, in, bulkRequest{
		kind: fleet.VMMigrate, action: "vms.leave", permission: policy.VMChange, ids: ids,
		refuseVM: func(vm fleet.VMView) error { return conflictIfNotAllowed(vm.AllowsMigration(nil, nil)) },
	})
}

// addBulkTaskWithInput writes a task with one child per VM and stores the input with the task until all children have
// started. The actor needs the permission required in at least one project, and in.permission in the project of each
// VM.
func (c *Control) addBulkTaskWithInput(ctx context.Context, a fleet.Actor, required policy.Permission, input any, in bulkRequest) (fleet.Task, error) {
	if err := policy.Check(a, required, ""); err != nil {
		return fleet.Task{}, err
	}
	if err := checkVMCount(a, in.ids); err != nil {
		return fleet.Task{}, err
	}
	return c.storeInputAndAddBulkTask(ctx, a, input, in)
}

// storeInputAndAddBulkTask works like addBulkTask and stores the input with the task.
func (c *Control) storeInputAndAddBulkTask(ctx context.Context, a fleet.Actor, input any, in bulkRequest) (fleet.Task, error) {
	text, err := json.Marshal(input)
	if err != nil {
		return fleet.Task{}, err
	}
	in.afterInsert = func(q *db.Queries, id fleet.TaskID) error {
		return q.AddTaskEdit(ctx, db.AddTaskEditParams{TaskID: id, Edit: text})
	}
	return c.addBulkTask(ctx, a, in)
}

// bulkChildRunners maps the kind of a bulk task to the function that calls the use case for one VM. name is the VM's
// name at the time of the request.
var bulkChildRunners = map[fleet.JobKind]func(c *Control, ctx context.Context, a fleet.Actor, id fleet.VMID, name string, input json.RawMessage) error{
	fleet.VMDelete: func(c *Control, ctx context.Context, a fleet.Actor, id fleet.VMID, name string, input json.RawMessage) error {
		return decodeInputAndRun(input, func(disks bool) (fleet.Task, error) { return c.DeleteVM(ctx, a, id, disks, name) })
	},
	fleet.VMSnapshot: func(c *Control, ctx context.Context, a fleet.Actor, id fleet.VMID, _ string, input json.RawMessage) error {
		return decodeInputAndRun(input, func(in NewSnapshot) (fleet.Task, error) { return c.TakeSnapshot(ctx, a, id, in) })
	},
	fleet.VMMigrate: func(c *Control, ctx context.Context, a fleet.Actor, id fleet.VMID, _ string, input json.RawMessage) error {
		return decodeInputAndRun(input, func(in MigrateVM) (fleet.Task, error) { return c.MigrateVM(ctx, a, id, in) })
	},
}

func decodeInputAndRun[T any](input json.RawMessage, do func(T) (fleet.Task, error)) error {
	var in T
	if err := json.Unmarshal(input, &in); err != nil {
		return err
	}
	_, err := do(in)
	return joinFieldErrors(err)
}

// runChildWithInput runs one child of a task that addBulkTaskWithInput wrote.
func (c *Control) runChildWithInput(ctx context.Context, q *db.Queries, a fleet.Actor, p db.PendingTasksRow) error {
	text, err := q.TaskEdit(ctx, p.ID)
	if err != nil {
		return fmt.Errorf("read the input of task %s: %w", p.ID, err)
	}
	_, id := p.Subject.ResourceAndID()
	return bulkChildRunners[p.Kind](c, store.WithChildTask(ctx, p.ID), a, fleet.VMID(id), p.SubjectName, text)
}

// VMsByID returns the given VMs that the actor sees, in the given order. Pages use it to show the VMs of a bulk task.
func (c *Control) VMsByID(ctx context.Context, a fleet.Actor, ids []fleet.VMID) ([]fleet.VMView, error) {
	if err := policy.Check(a, policy.VMUse, ""); err != nil {
		return nil, err
	}
	if err := checkVMCount(a, ids); err != nil {
		return nil, err
	}
	vms, err := visibleVMs(ctx, c.store.Queries, a, ids)
	if err != nil {
		return nil, err
	}
	out := make([]fleet.VMView, 0, len(vms))
	for _, id := range ids {
		if vm, ok := vms[id]; ok {
			out = append(out, vm)
			delete(vms, id)
		}
	}
	return out, nil
}
