package control

import (
	"context"
	"fmt"
	"strings"

	"quantix/db"
	"quantix/internal/control/query"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// NewSnapshot is the input of TakeSnapshot.
type NewSnapshot struct {
	Name        string `json:"name" doc:"At most 80 bytes, in one line"`
	Description string `json:"description,omitempty" doc:"At most 1024 bytes, in one line"`
	Memory      bool   `json:"memory,omitempty" doc:"Include the memory of a running guest, which continues from there after a revert"`
	Quiesce     bool   `json:"quiesce,omitempty" doc:"Without memory: the guest agent quiesces the file systems, if it answers"`
}

func (in NewSnapshot) checkFields() error {
	var checks fleet.Checks
	fleet.CheckSnapshot(&checks, in.Name, in.Description)
	if in.Memory && in.Quiesce {
		checks.Add("quiesce", "A snapshot with memory does not quiesce the guest's file systems. Choose either memory or quiescing.")
	}
	return checks.Err()
}

// RevertSnapshot is the input of Control.RevertSnapshot.
type RevertSnapshot struct {
	Start bool `json:"start,omitempty" doc:"Start the VM afterwards, if the snapshot has no memory"`
}

// TakeSnapshot asks the VM's host to take a snapshot of the VM.
func (c *Control) TakeSnapshot(ctx context.Context, a fleet.Actor, id fleet.VMID, in NewSnapshot) (fleet.Task, error) {
	return c.queueSnapshotJob(ctx, a, id, fleet.VMSnapshot, in.checkFields(), func(vm fleet.VMView, busy []fleet.JobKind) (fleet.SnapshotParams, string, error) {
		order := fleet.SnapshotParams{
			ID: fleet.NewID[fleet.SnapshotID](), Name: strings.TrimSpace(in.Name), Description: strings.TrimSpace(in.Description), By: a.Name, Memory: in.Memory, Quiesce: in.Quiesce,
		}
		if vm.Status != nil && vm.Status.Snapshots.HasName(order.Name) {
			var checks fleet.Checks
			checks.Add("name", "This VM has a snapshot named %q already. Choose another name.", order.Name)
			return order, order.Name, checks.Err()
		}
		if why := vm.Spec.WhyNoMemorySnapshot(); in.Memory && why != "" && vm.HasGuest() {
			return order, order.Name, fleet.RefusalError(why)
		}
		return order, order.Name, conflictIfNotAllowed(vm.AllowsNewSnapshot(busy))
	})
}

// RevertSnapshot asks the VM's host to revert the VM to the snapshot. The VM's changes after its last snapshot are
// lost.
func (c *Control) RevertSnapshot(ctx context.Context, a fleet.Actor, id fleet.VMID, snapshot fleet.SnapshotID, in RevertSnapshot) (fleet.Task, error) {
	return c.queueSnapshotJob(ctx, a, id, fleet.VMRevert, nil, func(vm fleet.VMView, busy []fleet.JobKind) (fleet.SnapshotParams, string, error) {
		s, err := findSnapshot(vm, snapshot)
		if err != nil {
			return fleet.SnapshotParams{}, "", err
		}
		return fleet.SnapshotParams{ID: s.ID, Name: s.Name, Start: in.Start && !s.Memory}, s.Name, conflictIfNotAllowed(vm.AllowsRevert(s, busy))
	})
}

// DeleteSnapshot asks the VM's host to delete the snapshot, and all its descendants if subtree is set. The VM's
// current state does not change.
func (c *Control) DeleteSnapshot(ctx context.Context, a fleet.Actor, id fleet.VMID, snapshot fleet.SnapshotID, subtree bool) (fleet.Task, error) {
	return c.queueSnapshotJob(ctx, a, id, fleet.VMSnapshotDelete, nil, func(vm fleet.VMView, busy []fleet.JobKind) (fleet.SnapshotParams, string, error) {
		s, err := findSnapshot(vm, snapshot)
		if err != nil {
			return fleet.SnapshotParams{}, "", err
		}
		detail := s.Name
		if below := len(vm.Status.Snapshots.Descendants(s.ID)); subtree && below > 0 {
			detail += fmt.Sprintf(", and %d that came after it", below)
		}
		return fleet.SnapshotParams{ID: s.ID, Name: s.Name, Subtree: subtree}, detail, conflictIfNotAllowed(vm.AllowsSnapshots(busy))
	})
}

// ConsolidateVM asks the VM's host to merge overlays left by deleted snapshots.
func (c *Control) ConsolidateVM(ctx context.Context, a fleet.Actor, id fleet.VMID) (fleet.Task, error) {
	return c.queueSnapshotJob(ctx, a, id, fleet.VMConsolidate, nil, func(vm fleet.VMView, busy []fleet.JobKind) (fleet.SnapshotParams, string, error) {
		return fleet.SnapshotParams{}, "", conflictIfNotAllowed(vm.AllowsSnapshotMerge(busy))
	})
}

// UnfinishedSnapshotJobKinds returns the kinds of the VM's unfinished snapshot jobs.
func (c *Control) UnfinishedSnapshotJobKinds(ctx context.Context, a fleet.Actor, id fleet.VMID) ([]fleet.JobKind, error) {
	if _, err := query.VMWithPools(ctx, c.Queries, a, id); err != nil {
		return nil, err
	}
	return c.store.SnapshotWork(ctx, fleet.SubjectVM(id))
}

// queueSnapshotJob queues one snapshot job. inputErr is an error in the input; queueSnapshotJob returns it only after
// the permission checks.
func (c *Control) queueSnapshotJob(ctx context.Context, a fleet.Actor, id fleet.VMID, kind fleet.JobKind, inputErr error,
	decide func(fleet.VMView, []fleet.JobKind) (order fleet.SnapshotParams, detail string, err error),
) (task fleet.Task, err error) {
	if err := policy.Check(a, policy.VMChange, ""); err != nil {
		return task, err
	}
	if err := store.CheckID(id, "VM"); err != nil {
		return task, err
	}
	if inputErr != nil {
		return task, inputErr
	}
	err = c.store.Tx(ctx, func(q *db.Queries) error {
		vm, err := store.LockVM(ctx, q, a, id, policy.VMChange)
		if err != nil {
			return err
		}
		busy, err := q.SnapshotWork(ctx, fleet.SubjectVM(id))
		if err != nil {
			return err
		}
		order, detail, err := decide(vm, busy)
		if err != nil {
			return err
		}
		if task, err = queueVMJob(ctx, q, a, vm, kind, fleet.JobArgs{Snapshot: &order}); err != nil {
			return err
		}
		return store.Audit(ctx, q, a, string(kind), fleet.SubjectVM(id), vm.Name, detail)
	})
	return store.RedactTask(a, task), err
}

func findSnapshot(vm fleet.VMView, id fleet.SnapshotID) (fleet.Snapshot, error) {
	if vm.Status != nil {
		if s := vm.Status.Snapshots.SnapshotByID(id); s != nil {
			return *s, nil
		}
	}
	return fleet.Snapshot{}, fleet.Errorf(fleet.NotFound, "The VM has no such snapshot any more. Reload the page.")
}

func conflictIfNotAllowed(ok bool, why string) error {
	if ok {
		return nil
	}
	return fleet.RefusalError(why)
}
