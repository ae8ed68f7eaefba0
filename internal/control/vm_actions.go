package control

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"quantix/db"
	"quantix/internal/bin"
	"quantix/internal/control/network"
	"quantix/internal/control/recycling"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// powerActionList lists the power actions for an error text, such as "start, stop or reset".
var powerActionList = func() string {
	var texts []string
	for _, k := range store.PowerJobKinds {
		texts = append(texts, string(fleet.MenuActionForJobKind(k)))
	}
	last := len(texts) - 1
	return strings.Join(texts[:last], ", ") + " or " + texts[last]
}()

// jobKindsChangingVM lists the job kinds that change a VM, except its deletion and kinds that a host can stop and undo.
var jobKindsChangingVM = fleet.JobKindsWhere(func(k fleet.JobKindInfo) bool {
	return k.Type == fleet.TypeVM && !k.Background && !k.Stoppable && k.Name != fleet.VMDelete
})

// jobKindsWaitingForGuest lists the job kinds that make a host wait for the guest.
var jobKindsWaitingForGuest = store.ToStrings(fleet.JobKindsWhere(func(k fleet.JobKindInfo) bool { return k.WaitsForGuest }))

// RequestPowerAction requests a power action. It queues the job and returns its task without waiting for the host. If
// fleet.VMView.Allows forbids the action, the error is a Conflict with the reason. Queued jobs of other power actions
// are cancelled.
func (c *Control) RequestPowerAction(ctx context.Context, a fleet.Actor, id fleet.VMID, act fleet.Action) (fleet.Task, error) {
	return c.RequestPowerActionWith(ctx, a, id, act, PowerOptions{})
}

// PowerOptions modify a power action.
type PowerOptions struct {
	// Overcommit starts the VM although its host has not enough capacity. This needs the permission to change
	// infrastructure.
	Overcommit bool `json:"overcommit,omitempty"`
}

// RequestPowerActionWith works like RequestPowerAction, with options.
func (c *Control) RequestPowerActionWith(ctx context.Context, a fleet.Actor, id fleet.VMID, act fleet.Action, with PowerOptions) (fleet.Task, error) {
	if err := policy.Check(a, policy.VMUse, ""); err != nil {
		return fleet.Task{}, err
	}
	if err := checkPowerAction(act); err != nil {
		return fleet.Task{}, err
	}
	if err := store.CheckID(id, "VM"); err != nil {
		return fleet.Task{}, err
	}
	var task fleet.Task
	err := c.store.Tx(ctx, func(q *db.Queries) error {
		id, err := queuePowerAction(ctx, q, a, id, act, with, "")
		if err != nil {
			return err
		}
		task, err = store.GetTask(ctx, q, fleet.SystemActor, id)
		return err
	})
	return store.RedactTask(a, task), err
}

func checkPowerAction(act fleet.Action) error {
	var checks fleet.Checks
	if !slices.Contains(store.PowerJobKinds, act.JobKind()) {
		checks.Add("action", "There is no power action %q. Use %s.", string(act), powerActionList)
	}
	return checks.Err()
}

// queuePowerAction works like RequestPowerActionWith within a transaction. child is the child of a bulk task for the
// action. Without a child, the action gets a new task, or coalesces with a queued task of its kind.
func queuePowerAction(ctx context.Context, q *db.Queries, a fleet.Actor, id fleet.VMID, act fleet.Action, with PowerOptions, child fleet.TaskID) (fleet.TaskID, error) {
	vm, err := store.LockVM(ctx, q, a, id, policy.VMUse)
	if err != nil {
		return "", err
	}
	if err := checkActionAllowed(vm, act); err != nil {
		return "", err
	}
	if act == fleet.ActStart {
		if err := checkHostStartsVMs(ctx, q, a, vm.HostID); err != nil {
			return "", err
		}
		if err := checkStartCapacity(ctx, q, a, vm, with.Overcommit); err != nil {
			return "", err
		}
		vm.Spec.Placement.Overcommit = vm.Spec.Placement.Overcommit || with.Overcommit
	}
	if power := act.Power(); power != "" {
		vm.Spec.Power = power
		if err := storeChangedVM(ctx, q, &vm); err != nil {
			return "", err
		}
	}
	if err := cancelContradictingJobs(ctx, q, vm, act.JobKind(), act.Label()); err != nil {
		return "", err
	}
	var args fleet.JobArgs
	if act == fleet.ActRestart {
		args.Run = vm.Status.StartedAt
	}
	order := vmJobParams(vm, act.JobKind(), args)
	if child != "" {
		order.Child = (*string)(&child)
	}
	task, err := store.JoinOrQueueJob(ctx, q, a, order)
	if err != nil {
		return "", fmt.Errorf("queue %s: %w", order.Kind, err)
	}
	return task, store.Audit(ctx, q, a, "vm."+string(act), fleet.SubjectVM(id), vm.Name, strings.TrimPrefix(overcommitAuditSuffix(with.Overcommit), ", "))
}

func checkActionAllowed(vm fleet.VMView, act fleet.Action) error {
	if ok, why := vm.Allows(act); !ok {
		return fleet.Errorf(fleet.Conflict, "%s is not possible: %s", act.Label(), why)
	}
	return nil
}

// storeChangedVM writes a locked VM's name, labels, description and spec as its next generation.
func storeChangedVM(ctx context.Context, q *db.Queries, vm *fleet.VMView) error {
	spec, err := network.StoredSpec(ctx, q, vm.ProjectID, vm.Spec)
	if err != nil {
		return err
	}
	vm.Generation++
	n, err := q.ChangeVM(ctx, db.ChangeVMParams{ID: vm.ID, Name: vm.Name, Labels: vm.Labels, Description: vm.Description, Spec: spec})
	if err == nil && n == 0 {
		err = fleet.Errorf(fleet.Conflict, "A disk of the VM is being moved to another pool or host, so the VM cannot be changed. Wait until the migration has ended, or cancel it in the VM's tasks.")
	}
	return err
}

// cancelContradictingJobs cancels queued power jobs of other kinds; jobs of the same kind coalesce. Actions such as
// force off also abort running jobs that wait for the guest.
func cancelContradictingJobs(ctx context.Context, q *db.Queries, vm fleet.VMView, by fleet.JobKind, action string) error {
	kinds := slices.DeleteFunc(store.ToStrings(store.PowerJobKinds), func(k string) bool { return k == string(by) })
	subject := fleet.SubjectVM(vm.ID)
	err := q.CancelWaitingOf(ctx, db.CancelWaitingOfParams{
		Subject: subject, Kinds: kinds, Error: fmt.Sprintf("Not done: %q was requested before this task started.", action),
	})
	if err == nil && by == fleet.VMStop {
		_, err = q.StopMoves(ctx, db.StopMovesParams{Subject: subject, Error: fmt.Sprintf("Aborted: %q was requested.", action)})
	}
	if err != nil || !by.Info().InterruptsWaits {
		return err
	}
	return q.BreakOffWaits(ctx, db.BreakOffWaitsParams{
		Kinds:   jobKindsWaitingForGuest,
		Subject: subject, HostID: vm.HostID, Error: fmt.Sprintf("Aborted: %q was requested.", action),
	})
}

// queueVMJob queues a job for a VM at its current generation.
func queueVMJob(ctx context.Context, q *db.Queries, a fleet.Actor, vm fleet.VMView, kind fleet.JobKind, args fleet.JobArgs) (fleet.Task, error) {
	id, err := store.JoinOrQueueJob(ctx, q, a, vmJobParams(vm, kind, args))
	if err != nil {
		return fleet.Task{}, fmt.Errorf("queue %s: %w", kind, err)
	}
	return store.GetTask(ctx, q, fleet.SystemActor, id)
}

func vmJobParams(vm fleet.VMView, kind fleet.JobKind, args fleet.JobArgs) db.JoinQueueParams {
	return db.JoinQueueParams{
		HostID: vm.HostID, ProjectID: &vm.ProjectID, Kind: kind, Subject: fleet.SubjectVM(vm.ID), SubjectName: vm.Name,
		Args: args, Generation: vm.Generation,
	}
}

// DeleteVM deletes a VM. Without disks, the host removes the VM and keeps its disks. With disks, the VM goes into the
// recycle bin of its project; while the bin is off, it is deleted as by DeleteVMPermanently. Queued jobs of the VM are
// cancelled. If the host has begun no job of the VM, the VM is removed at once, and the returned task is done.
func (c *Control) DeleteVM(ctx context.Context, a fleet.Actor, id fleet.VMID, disks bool, confirmName string) (fleet.Task, error) {
	return c.deleteVM(ctx, a, id, VMDeletion{Disks: disks}, confirmName)
}

// DeleteVMPermanently deletes a VM with its disks, past the recycle bin. confirmName must be the VM's name.
func (c *Control) DeleteVMPermanently(ctx context.Context, a fleet.Actor, id fleet.VMID, confirmName string) (fleet.Task, error) {
	return c.deleteVM(ctx, a, id, VMDeletion{Disks: true, Permanent: true}, confirmName)
}

// VMDeletion describes how VMs are deleted.
type VMDeletion struct {
	Disks     bool `json:"disks"`     // with their disks
	Permanent bool `json:"permanent"` // with their disks, past the recycle bin
	Recycle   bool `json:"recycle"`   // into the recycle bin; a VM whose project has none is refused
}

func (c *Control) deleteVM(ctx context.Context, a fleet.Actor, id fleet.VMID, what VMDeletion, confirmName string) (fleet.Task, error) {
	if err := policy.Check(a, policy.VMChange, ""); err != nil {
		return fleet.Task{}, err
	}
	if err := store.CheckID(id, "VM"); err != nil {
		return fleet.Task{}, err
	}
	var job fleet.Task
	err := c.store.Tx(ctx, func(q *db.Queries) error {
		vm, err := store.LockVM(ctx, q, a, id, policy.VMChange)
		if err != nil {
			return err
		}
		if err := checkRemovableVM(vm, what.Disks); err != nil {
			return err
		}
		into, recycles, err := recycling.Stays(ctx, q, vm)
		if err != nil {
			return err
		}
		if what.Disks && what.Recycle && !what.Permanent && into.Days == 0 {
			return fleet.Errorf(fleet.Conflict, "The recycle bin of the VM's project is off. To delete the VM with its disks, choose to delete it permanently.")
		}
		recycles = recycles && what.Disks && !what.Permanent
		if what.Disks && !recycles && confirmName != vm.Name {
			var checks fleet.Checks
			checks.Add("confirm", "Type the VM's name, %s, to delete it with its disks.", vm.Name)
			return checks.Err()
		}
		work, err := q.SnapshotWork(ctx, fleet.SubjectVM(id))
		if err != nil {
			return err
		}
		if slices.Contains(work, fleet.VolumeCopy) {
			return fleet.Errorf(fleet.Conflict, "Disks of a new VM are being copied from this VM's snapshots. Wait until the copy has ended, or cancel it.")
		}
		detail := "disks are kept"
		switch {
		case recycles:
			detail = "into the recycle bin for " + bin.DaysText(into.Days)
		case what.Disks:
			detail = "with disks"
		}
		if err := store.Audit(ctx, q, a, "vm.delete", fleet.SubjectVM(id), vm.Name, detail); err != nil {
			return err
		}
		if !recycles {
			job, err = queueVMDeletion(ctx, q, a, vm, fleet.JobArgs{DeleteDisks: what.Disks})
			return err
		}
		if err := cancelVMJobs(ctx, q, vm); err != nil {
			return err
		}
		job, err = recycling.Recycle(ctx, q, a, vm, into)
		return err
	})
	return store.RedactTask(a, job), err
}

// checkRemovableVM refuses the deletion of a protected VM. With disks, it also refuses if disks are in use; without
// disks, it refuses if snapshots need the VM.
func checkRemovableVM(vm fleet.VMView, disks bool) error {
	if ok, why := vm.Allows(fleet.ActDelete); !ok {
		return fleet.RefusalError(why)
	}
	if why := vm.WhyDisksInUse(); disks && why != "" {
		return fleet.Errorf(fleet.Conflict, "The VM's disks cannot be deleted now: %s", why)
	}
	if why := vm.WhySnapshotsBlockDiskJobs(); !disks && why != "" {
		return fleet.Errorf(fleet.Conflict, "The VM cannot be deleted without its disks: %s", why)
	}
	return nil
}

// cancelVMJobs cancels the jobs of a VM whose deletion is requested.
func cancelVMJobs(ctx context.Context, q *db.Queries, vm fleet.VMView) error {
	const cancelled, aborted = "Not done: the deletion of the VM was requested.", "Aborted: the deletion of the VM was requested."
	subject := fleet.SubjectVM(vm.ID)
	if err := cancelDiskCopies(ctx, q, vm); err != nil {
		return err
	}
	if err := q.CancelWaitingOf(ctx, db.CancelWaitingOfParams{Subject: subject, Kinds: store.ToStrings(jobKindsChangingVM), Error: cancelled}); err != nil {
		return err
	}
	if _, err := q.StopMoves(ctx, db.StopMovesParams{Subject: subject, Error: aborted}); err != nil {
		return err
	}
	return q.BreakOffWaits(ctx, db.BreakOffWaitsParams{Kinds: jobKindsWaitingForGuest, Subject: subject, HostID: vm.HostID, Error: aborted})
}

func queueVMDeletion(ctx context.Context, q *db.Queries, a fleet.Actor, vm fleet.VMView, args fleet.JobArgs) (fleet.Task, error) {
	subject := fleet.SubjectVM(vm.ID)
	touched, err := q.VMTouched(ctx, subject)
	if err != nil {
		return fleet.Task{}, err
	}
	// The host may have disks of a VM that is not yet defined, because it copies disks before it defines the VM.
	hasDisks, err := q.HasCreatedDisks(ctx, vm.ID)
	if err != nil {
		return fleet.Task{}, err
	}
	if err := cancelVMJobs(ctx, q, vm); err != nil {
		return fleet.Task{}, err
	}
	if touched || hasDisks || vm.ObservedGeneration > 0 || vm.Status != nil {
		if err := q.MarkVMDeleted(ctx, vm.ID); err != nil {
			return fleet.Task{}, err
		}
		vm.Generation++
		return queueVMJob(ctx, q, a, vm, fleet.VMDelete, args)
	}
	if err := q.DropVM(ctx, vm.ID); err != nil {
		return fleet.Task{}, err
	}
	const neverCreated = "The host had never created the VM."
	if child := store.ChildTask(ctx); child != "" {
		return fleet.Task{}, q.EndUnchanged(ctx, db.EndUnchangedParams{ID: child, Note: neverCreated})
	}
	task, err := q.NoteDone(ctx, db.NoteDoneParams{
		ID: fleet.NewID[fleet.TaskID](), HostID: &vm.HostID, ProjectID: &vm.ProjectID, Kind: fleet.VMDelete, Subject: subject, SubjectName: vm.Name,
		Generation: vm.Generation, Note: neverCreated, CreatedBy: a.Name, UserID: store.ActorUserID(a),
	})
	return store.TaskFromRow(task, vm.HostName), err
}
