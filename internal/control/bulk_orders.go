package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// DeleteVMs writes a task that deletes many VMs, each with the checks of DeleteVM or DeleteVMPermanently.
func (c *Control) DeleteVMs(ctx context.Context, a fleet.Actor, ids []fleet.VMID, in VMDeletion) (fleet.Task, error) {
	return c.addBulkTaskWithInput(ctx, a, policy.VMChange, in, bulkRequest{
		kind: fleet.VMDelete, action: "vms.delete", permission: policy.VMChange, ids: ids,
		refuseVM: func(vm fleet.VMView) error { return checkRemovableVM(vm, in.Disks) },
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

// ReleaseVMs writes a task that releases many VMs, each with the checks of ReleaseVM.
func (c *Control) ReleaseVMs(ctx context.Context, a fleet.Actor, ids []fleet.VMID) (fleet.Task, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return fleet.Task{}, err
	}
	if err := checkVMCount(a, ids); err != nil {
		return fleet.Task{}, err
	}
	return c.addBulkTask(ctx, a, bulkRequest{
		kind: fleet.VMRelease, action: "vms.release", permission: policy.VMChange, ids: ids,
		refuseVM: func(vm fleet.VMView) error { return conflictIfNotAllowed(vm.Allows(fleet.ActRelease)) },
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

// childRunner calls the use case of one pending child, as the person who requested the task.
type childRunner func(c *Control, ctx context.Context, q *db.Queries, a fleet.Actor, p db.PendingTasksRow) error

// childRunners are the runners by the child's kind. The children of all other kinds are power actions.
var childRunners = map[fleet.JobKind]childRunner{
	fleet.VMApply: (*Control).createPendingVM,
	fleet.VMDelete: childWithInput(func(c *Control, ctx context.Context, a fleet.Actor, p db.PendingTasksRow, in VMDeletion) (fleet.Task, error) {
		return c.deleteVM(ctx, a, vmOfChild(p), in, p.SubjectName)
	}),
	fleet.VMSnapshot: childWithInput(func(c *Control, ctx context.Context, a fleet.Actor, p db.PendingTasksRow, in NewSnapshot) (fleet.Task, error) {
		return c.TakeSnapshot(ctx, a, vmOfChild(p), in)
	}),
	fleet.VMMigrate: childWithInput(func(c *Control, ctx context.Context, a fleet.Actor, p db.PendingTasksRow, in MigrateVM) (fleet.Task, error) {
		return c.MigrateVM(ctx, a, vmOfChild(p), in)
	}),
	fleet.DiscoveredAdopt: childWithInput(func(c *Control, ctx context.Context, a fleet.Actor, p db.PendingTasksRow, in AdoptVM) (fleet.Task, error) {
		host, id, _ := p.Subject.DiscoveredVMOnHost()
		return c.AdoptVM(ctx, a, host, id, in)
	}),
	fleet.VMRelease: func(c *Control, ctx context.Context, _ *db.Queries, a fleet.Actor, p db.PendingTasksRow) error {
		_, err := c.ReleaseVM(store.WithChildTask(ctx, p.ID), a, vmOfChild(p))
		return err
	},
	fleet.HostAgentUpgrade: childWithInput(func(c *Control, ctx context.Context, a fleet.Actor, p db.PendingTasksRow, in fleet.AgentUpgrade) (fleet.Task, error) {
		_, host := p.Subject.ResourceAndID()
		return c.RequestAgentUpgrade(ctx, a, fleet.HostID(host), in)
	}),
	fleet.DiscoveredStart:    runDiscoveredAction(fleet.ActStart),
	fleet.DiscoveredShutdown: runDiscoveredAction(fleet.ActShutdown),
	fleet.DiscoveredReboot:   runDiscoveredAction(fleet.ActReboot),
	fleet.DiscoveredReset:    runDiscoveredAction(fleet.ActReset),
	fleet.DiscoveredPause:    runDiscoveredAction(fleet.ActPause),
	fleet.DiscoveredResume:   runDiscoveredAction(fleet.ActResume),
	fleet.DiscoveredStop:     runDiscoveredAction(fleet.ActStop),
}

// runDiscoveredAction returns the runner of a child with a power action on a discovered VM.
func runDiscoveredAction(act fleet.Action) childRunner {
	return func(c *Control, ctx context.Context, _ *db.Queries, a fleet.Actor, p db.PendingTasksRow) error {
		host, id, _ := p.Subject.DiscoveredVMOnHost()
		_, err := c.RequestDiscoveredVMAction(store.WithChildTask(ctx, p.ID), a, host, id, act)
		return err
	}
}

func vmOfChild(p db.PendingTasksRow) fleet.VMID {
	_, id := p.Subject.ResourceAndID()
	return fleet.VMID(id)
}

// childWithInput returns the runner of a child whose task stored an input of type T.
func childWithInput[T any](do func(c *Control, ctx context.Context, a fleet.Actor, p db.PendingTasksRow, in T) (fleet.Task, error)) childRunner {
	return func(c *Control, ctx context.Context, q *db.Queries, a fleet.Actor, p db.PendingTasksRow) error {
		text, err := q.TaskEdit(ctx, p.ID)
		if errors.Is(err, pgx.ErrNoRows) {
			return fleet.Errorf(fleet.Conflict, "Not done: the stored request is missing.")
		}
		if err != nil {
			return fmt.Errorf("read the input of task %s: %w", p.ID, err)
		}
		var in T
		if err := json.Unmarshal(text, &in); err != nil {
			return err
		}
		_, err = do(c, store.WithChildTask(ctx, p.ID), a, p, in)
		return joinFieldErrors(err)
	}
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
