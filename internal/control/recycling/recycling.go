// Package recycling has the use cases of the recycle bin: see ADR 109.
package recycling

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"quantix/db"
	"quantix/internal/bin"
	"quantix/internal/control/flavors"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// Recycling has the use cases of the recycle bin.
type Recycling struct {
	store *store.Store
	log   *slog.Logger
}

// New returns the Recycling of the store's database.
func New(s *store.Store, log *slog.Logger) *Recycling { return &Recycling{s, log} }

// Stays reports whether a deleted VM goes into the recycle bin, and the settings of its project. A VM that its host has
// not created has nothing to restore.
func Stays(ctx context.Context, q *db.Queries, vm fleet.VMView) (bin.Settings, bool, error) {
	s, err := settings(ctx, q, vm.ProjectID)
	created := vm.Status != nil && vm.ObservedGeneration > 0 && vm.Phase != fleet.PhaseFailed && vm.Phase != fleet.PhaseCreating
	return s.Settings, s.Days > 0 && created, err
}

// Recycle puts a locked VM into the recycle bin. The caller has cancelled the VM's jobs. The host powers the VM off.
func Recycle(ctx context.Context, q *db.Queries, a fleet.Actor, vm fleet.VMView, s bin.Settings) (fleet.Task, error) {
	if err := q.RecycleVM(ctx, db.RecycleVMParams{ID: vm.ID, RecycledBy: a.Name, Days: int32(s.Days), Counted: s.Counted}); err != nil {
		return fleet.Task{}, err
	}
	vm.Generation++
	return queueJob(ctx, q, a, vm.VM, fleet.VMRecycle, fleet.JobArgs{})
}

func queueJob(ctx context.Context, q *db.Queries, a fleet.Actor, vm fleet.VM, kind fleet.JobKind, args fleet.JobArgs) (fleet.Task, error) {
	id, err := store.JoinOrQueueJob(ctx, q, a, db.JoinQueueParams{
		HostID: vm.HostID, ProjectID: &vm.ProjectID, Kind: kind, Subject: fleet.SubjectVM(vm.ID), SubjectName: vm.Name, Args: args, Generation: vm.Generation,
	})
	if err != nil {
		return fleet.Task{}, fmt.Errorf("queue %s: %w", kind, err)
	}
	return store.GetTask(ctx, q, fleet.SystemActor, id)
}

// item is a locked VM in the recycle bin.
type item struct {
	fleet.VM
	hostName, projectName string
	purgeAt               time.Time
	state                 bin.State
	inUse                 string // why its disks must not be deleted: see fleet.VMView.WhyDisksInUse
}

// change calls do with the locked VM, if the actor may change it.
func (r *Recycling) change(ctx context.Context, a fleet.Actor, id fleet.VMID, do func(q *db.Queries, i item) error) error {
	if err := policy.Check(a, policy.VMChange, ""); err != nil {
		return err
	}
	if err := store.CheckID(id, "VM in the recycle bin"); err != nil {
		return err
	}
	return r.store.Tx(ctx, func(q *db.Queries) error {
		row, err := q.LockRecycledVM(ctx, db.LockRecycledVMParams{ID: id, AllProjects: policy.SeesAllProjects(a), Projects: store.VisibleProjects(a)})
		if err != nil {
			return store.NotFoundError(err, "VM in the recycle bin")
		}
		if err := policy.Check(a, policy.VMChange, row.VM.ProjectID); err != nil {
			return err
		}
		i := item{VM: store.VMFromRow(row.VM), hostName: row.HostName, projectName: row.ProjectName, purgeAt: *row.VM.PurgeAt}
		is, err := q.RecycledState(ctx, id)
		if err != nil {
			return err
		}
		v := fleet.VMView{VM: i.VM}
		if err := store.MarkOfflineSightings(ctx, q, &v, is.Now); err != nil {
			return err
		}
		if v = store.RedactVMForActions(a, v); v.ChangeRefusal != "" {
			return fleet.RefusalError(v.ChangeRefusal)
		}
		i.inUse = v.WhyDisksInUse()
		i.state = bin.StateOf(i.power(), i.inUse != "", is.Purging, is.Stopping, is.Fresh)
		return do(q, i)
	})
}

func (i item) power() fleet.Power {
	if i.Status == nil {
		return ""
	}
	return i.Status.Power
}

// RestoreVM is the input of RestoreRecycled.
type RestoreVM struct {
	Name string `json:"name,omitempty" doc:"The VM's name; left out: as before. A name is free for other VMs while its VM is in the recycle bin"`
}

// RestoreRecycled takes a VM out of the recycle bin, with its disks, snapshots and addresses. The VM is off. It returns
// the task that applies the VM's spec again.
func (r *Recycling) RestoreRecycled(ctx context.Context, a fleet.Actor, id fleet.VMID, in RestoreVM) (task fleet.Task, err error) {
	err = r.change(ctx, a, id, func(q *db.Queries, i item) error {
		if why := (bin.Item{State: i.state}).RestoreRefusal(); why != "" {
			return fleet.RefusalError(why)
		}
		was := i.Name
		if in.Name != "" && in.Name != was {
			var checks fleet.Checks
			if fleet.CheckName(&checks, "name", in.Name); checks.Len() > 0 {
				return checks.Err()
			}
			if err := flavors.CheckNames(ctx, q, a, i.ProjectID, []string{in.Name}); err != nil {
				return err
			}
			i.Name = in.Name
		}
		if err := checkPools(ctx, q, a, i); err != nil {
			return err
		}
		if err := q.RestoreVM(ctx, db.RestoreVMParams{ID: id, Name: i.Name}); err != nil {
			return store.NameTakenError(err, "vm_name_taken", "A VM named %q exists in %s already. Choose another name.", i.Name, i.projectName)
		}
		if err := q.CancelWaitingOf(ctx, db.CancelWaitingOfParams{
			Subject: fleet.SubjectVM(id), Kinds: []string{string(fleet.VMRecycle)}, Error: "Not done: the VM was restored.",
		}); err != nil {
			return err
		}
		detail := ""
		if i.Name != was {
			detail = "was " + was
		}
		if err := store.Audit(ctx, q, a, "vm.restore", fleet.SubjectVM(id), i.Name, detail); err != nil {
			return err
		}
		i.Generation++
		task, err = queueJob(ctx, q, a, i.VM, fleet.VMApply, fleet.JobArgs{})
		return err
	})
	return store.RedactTask(a, task), err
}

// checkPools refuses the restore of a VM whose disks are in a pool that is gone.
func checkPools(ctx context.Context, q *db.Queries, a fleet.Actor, i item) error {
	rows, err := q.PoolsForRestore(ctx, db.PoolsForRestoreParams{
		Ids: store.ToStrings(i.Spec.Pools()), HostID: i.HostID, SeesHosts: store.SeesHosts(a), Projects: store.VisibleProjects(a),
	})
	if err != nil {
		return err
	}
	host := "the VM's host"
	if store.SeesHosts(a) {
		host = i.hostName
	}
	var checks fleet.Checks
	for _, p := range rows {
		pool := "A pool"
		if p.Name != "" {
			pool = "The pool " + p.Name
		}
		switch {
		case !p.Exists:
			checks.Add("pool", "A pool with disks of the VM is deleted, so the VM cannot be restored. Purge it, or create the VM anew.")
		case !p.Assigned:
			checks.Add("pool", "%s with disks of the VM is not on %s any more. Assign the pool to the host again, or purge the VM.", pool, host)
		case p.State != "" && p.State != string(fleet.PoolActive):
			checks.Add("pool", "%s with disks of the VM is not active on %s. Make the pool active, then restore the VM.", pool, host)
		}
	}
	return checks.Err()
}

// PurgeRecycled asks the host to delete a VM in the recycle bin with its disks. confirmName must be its name. A guest that
// runs on the host is never powered off, and disks that a guest on another host may use are never deleted.
func (r *Recycling) PurgeRecycled(ctx context.Context, a fleet.Actor, id fleet.VMID, confirmName string) (task fleet.Task, err error) {
	err = r.change(ctx, a, id, func(q *db.Queries, i item) error {
		if confirmName != i.Name {
			var checks fleet.Checks
			checks.Add("confirm", "Type the VM's name, %s, to delete it with its disks.", i.Name)
			return checks.Err()
		}
		task, err = purge(ctx, q, a, i, "")
		return err
	})
	return store.RedactTask(a, task), err
}

// purge queues the deletion of a VM with its disks, and writes the audit line.
func purge(ctx context.Context, q *db.Queries, a fleet.Actor, i item, detail string) (fleet.Task, error) {
	if why := (bin.Item{State: i.state, InUse: i.inUse}).PurgeRefusal(); why != "" {
		return fleet.Task{}, fleet.RefusalError(why)
	}
	task, err := queueJob(ctx, q, a, i.VM, fleet.VMDelete, fleet.JobArgs{DeleteDisks: true, OnlyIfOff: true})
	if err != nil {
		return fleet.Task{}, err
	}
	return task, store.Audit(ctx, q, a, "vm.purge", fleet.SubjectVM(i.ID), i.Name, detail)
}

// MaxPurges limits the VMs of one request of PurgeAllRecycled, and of one run of PurgeOverdueVMs.
const MaxPurges = 100

// PurgeResult is the result of one VM of PurgeAllRecycled.
type PurgeResult struct {
	ID    fleet.VMID
	Name  string
	Error error // nil: its purge is requested
}

// PurgeAllRecycled works like PurgeRecycled for several VMs, which do not affect each other.
func (r *Recycling) PurgeAllRecycled(ctx context.Context, a fleet.Actor, ids []fleet.VMID) ([]PurgeResult, error) {
	if err := policy.Check(a, policy.VMChange, ""); err != nil {
		return nil, err
	}
	if len(ids) > MaxPurges {
		return nil, fleet.Errorf(fleet.Invalid, "At most %d VMs can be purged at once. Select fewer.", MaxPurges)
	}
	out := make([]PurgeResult, len(ids))
	for n, id := range ids {
		out[n].ID = id
		out[n].Error = r.change(ctx, a, id, func(q *db.Queries, i item) error {
			out[n].Name = i.Name
			_, err := purge(ctx, q, a, i, "")
			return err
		})
		if out[n].Error != nil && fleet.CodeOf(out[n].Error) == "" {
			return out, out[n].Error
		}
	}
	return out, nil
}

// PurgeOverdueVMs is the pass that purges the VMs whose time in the recycle bin is over. Each has a transaction of its own,
// so that none stops the others. VMs of offline hosts wait.
func (r *Recycling) PurgeOverdueVMs(ctx context.Context, a fleet.Actor) error {
	if err := store.CheckSystemActor(a); err != nil {
		return err
	}
	ids, err := r.store.VMsToPurge(ctx, MaxPurges)
	if err != nil {
		return store.UserError(err)
	}
	for _, id := range ids {
		err := r.change(ctx, a, id, func(q *db.Queries, i item) error {
			now, err := q.TimeNow(ctx)
			if err != nil || i.state != bin.Waiting || i.purgeAt.After(now) {
				return err // restored and deleted again, or purged by another portal meanwhile
			}
			_, err = purge(ctx, q, a, i, "its time in the recycle bin is over")
			return err
		})
		if err != nil && fleet.CodeOf(err) != fleet.NotFound {
			r.log.Warn("A VM in the recycle bin could not be purged.", "vm", id, "error", err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}
