package control

import (
	"context"
	"fmt"
	"slices"

	"quantix/db"
	"quantix/internal/control/assign"
	"quantix/internal/control/placing"
	"quantix/internal/control/query"
	"quantix/internal/control/quotas"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/placement"
	"quantix/internal/policy"
	"quantix/internal/quota"
)

// MoveDisk is the input of Control.MoveDisk: the destination of a disk migration.
type MoveDisk struct {
	PoolID     fleet.PoolID `json:"poolId" doc:"The destination pool, on the VM's host"`
	RateBytes  int64        `json:"rateBytes,omitempty" doc:"The bandwidth limit in bytes per second; 0: no limit"`
	Overcommit bool         `json:"overcommit,omitempty" doc:"Allow overcommit of the pool"`
}

// MoveDisk asks the VM's host to migrate a disk to another pool, while the VM is running or off. The spec changes
// when the host reports success; until then the disk cannot be edited.
func (c *Control) MoveDisk(ctx context.Context, a fleet.Actor, id fleet.VMID, disk fleet.Volref, in MoveDisk) (task fleet.Task, err error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return task, err
	}
	if err := store.CheckID(id, "VM"); err != nil {
		return task, err
	}
	var checks fleet.Checks
	if fleet.CheckMigrationRate(&checks, "rateBytes", in.RateBytes); in.PoolID == "" {
		checks.Add("poolId", "Choose the pool that the disk goes to.")
	}
	if err := checks.Err(); err != nil {
		return task, err
	}
	err = assign.PoolType.ChangeObject(ctx, c.store, a, string(in.PoolID), func(q *db.Queries, to assign.AssignableObject) error {
		vm, err := store.LockVM(ctx, q, a, id, policy.VMChange)
		if err != nil {
			return err
		}
		order, err := diskMigrationParams(ctx, q, a, vm, disk, in)
		if err != nil {
			return err
		}
		if task, err = queueVMJob(ctx, q, a, vm, fleet.VMDiskMove, fleet.JobArgs{Move: &order}); err != nil {
			return err
		}
		return store.Audit(ctx, q, a, "vm.disk.move", fleet.SubjectVM(id), vm.Name, fmt.Sprintf("%s → pool %s", disk.Volume, to.Name))
	})
	return store.RedactTask(a, task), err
}

// diskMigrationParams returns the arguments of the disk migration job. The VM and the destination pool must be locked.
func diskMigrationParams(ctx context.Context, q *db.Queries, a fleet.Actor, vm fleet.VMView, disk fleet.Volref, in MoveDisk) (fleet.DiskMigrationParams, error) {
	i := slices.IndexFunc(vm.Spec.Disks, func(d fleet.Disk) bool { return d.Ref() == disk })
	if i < 0 {
		return fleet.DiskMigrationParams{}, fleet.Errorf(fleet.NotFound, "The VM has no disk %q any more. Reload and try again.", disk.Volume)
	}
	moving, err := readDiskMigrations(ctx, q, vm.ID)
	if err != nil {
		return fleet.DiskMigrationParams{}, err
	}
	if ok, why := vm.AllowsDiskMigration(disk, moving); !ok {
		return fleet.DiskMigrationParams{}, fleet.RefusalError(why)
	}
	targets, err := diskMigrationTargets(ctx, q, a, vm, i, destinationPools{ids: []fleet.PoolID{in.PoolID}, overcommit: in.Overcommit})
	if err != nil {
		return fleet.DiskMigrationParams{}, err
	}
	var checks fleet.Checks
	switch t := targets[0]; {
	case !t.Allowed && t.LacksOnlySpace:
		checks.Add("poolId", "%s", t.Reason)
		checks.Add("overcommit", "To proceed anyway, overcommit the pool.")
	case !t.Allowed:
		checks.Add("poolId", "%s", t.Reason)
	}
	if err := checks.Err(); err != nil {
		return fleet.DiskMigrationParams{}, err
	}
	if err := quotas.CheckGrowth(ctx, q, vm.ProjectID, quota.Usage{Pools: map[fleet.PoolID]int64{in.PoolID: vm.DiskBytes(vm.Spec.Disks[i])}}); err != nil {
		return fleet.DiskMigrationParams{}, err
	}
	to := fleet.Volref{PoolID: in.PoolID, Volume: disk.Volume}
	taken, err := q.VolumeNameReserved(ctx, db.VolumeNameReservedParams{PoolID: string(to.PoolID), Volume: to.Volume})
	if taken {
		to.Volume = NewDiskName(vm, vm.Spec.Disks[i])
		taken, err = q.VolumeNameReserved(ctx, db.VolumeNameReservedParams{PoolID: string(to.PoolID), Volume: to.Volume})
	}
	if err == nil && taken {
		err = fleet.Errorf(fleet.Conflict, "The pool has or had volumes named %s and %s. Rename or delete these volumes.", disk.Volume, to.Volume)
	}
	return fleet.DiskMigrationParams{Disk: disk, To: to, RateBytes: vm.Spec.Migration.EffectiveRate(in.RateBytes), TakesBytes: vm.DiskBytes(vm.Spec.Disks[i])}, err
}

// MoveTargets returns the pools of the VM's host as destinations for the disk. Each unsuitable pool has a reason.
func (c *Control) MoveTargets(ctx context.Context, a fleet.Actor, id fleet.VMID, disk fleet.Volref) ([]fleet.MoveTarget, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return nil, err
	}
	vm, err := query.VMWithPools(ctx, c.Queries, a, id)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(vm.Spec.Disks, func(d fleet.Disk) bool { return d.Ref() == disk })
	if i < 0 || vm.Status == nil {
		return nil, fleet.Errorf(fleet.NotFound, "The VM has no such disk on its host.")
	}
	views, err := c.PoolsOnHost(ctx, a, vm.HostID)
	if err != nil {
		return nil, err
	}
	pools := destinationPools{ids: make([]fleet.PoolID, len(views))}
	for k, p := range views {
		pools.ids[k] = p.ID
	}
	var out []fleet.MoveTarget
	err = c.store.Tx(ctx, func(q *db.Queries) error {
		out, err = diskMigrationTargets(ctx, q, a, vm, i, pools)
		return err
	})
	return out, err
}

// diskMigrationTargets checks for each pool whether the VM's disk i can migrate to it.
func diskMigrationTargets(ctx context.Context, q *db.Queries, a fleet.Actor, vm fleet.VMView, i int, pools destinationPools) ([]fleet.MoveTarget, error) {
	own, size := vm.Spec.Disks[i], vm.DiskBytes(vm.Spec.Disks[i])
	disks := make([]fleet.Disk, len(pools.ids))
	for k, id := range pools.ids {
		disks[k] = fleet.Disk{PoolID: id, SizeBytes: size}
	}
	hosts, err := placing.Candidates{Host: vm.HostID, Spec: fleet.VMSpec{Disks: disks}}.Read(ctx, q, a)
	if err != nil {
		return nil, err
	}
	if len(hosts) == 0 {
		return nil, fleet.Errorf(fleet.Conflict, "The VM's host was removed.")
	}
	kinds, err := q.PoolsForWork(ctx, store.ToStrings(append(slices.Clone(pools.ids), own.PoolID)))
	if err != nil {
		return nil, err
	}
	files := func(id fleet.PoolID) bool {
		k := slices.IndexFunc(kinds, func(p db.Pool) bool { return p.ID == id })
		return k < 0 || kinds[k].Spec.Kind.Info().FilePool // placement reports a missing pool
	}
	h := hosts[0]
	h.Overcommit = pools.overcommit
	out := make([]fleet.MoveTarget, len(pools.ids))
	for k, id := range pools.ids {
		t := fleet.MoveTarget{PoolID: id, PoolName: h.Pools[id].Name, FreeBytes: max(0, h.Pools[id].FreeBytes), Allowed: true}
		if id == own.PoolID {
			t.Allowed, t.Reason = false, "The disk is in this pool already."
		} else if own.Overlay {
			t.Allowed, t.Reason = false, "The disk is backed by an image in its pool."
		} else if !files(own.PoolID) {
			t.Allowed, t.Reason = false, "The disk is not a file: disks in a pool of this kind cannot be moved."
		} else if !files(id) {
			t.Allowed, t.Reason = false, "Disks can only be moved into file pools."
		} else if faults := placement.DiskFaults(disks[k:k+1], h); len(faults) > 0 {
			t.Allowed, t.Reason, t.LacksOnlySpace = false, faults[0].Message, faults[0].Overcommittable
		}
		out[k] = t
	}
	return out, nil
}

// DiskMigrationsInProgress returns the VM's unfinished disk migrations.
func (c *Control) DiskMigrationsInProgress(ctx context.Context, a fleet.Actor, id fleet.VMID) ([]fleet.MovingDisk, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return nil, err
	}
	return readDiskMigrations(ctx, c.store.Queries, id)
}

func readDiskMigrations(ctx context.Context, q *db.Queries, id fleet.VMID) ([]fleet.MovingDisk, error) {
	rows, err := q.MovesOf(ctx, fleet.SubjectVM(id))
	var out []fleet.MovingDisk
	for _, r := range rows {
		if r.Args.Move != nil {
			out = append(out, fleet.MovingDisk{DiskMigrationParams: *r.Args.Move, Task: fleet.TaskID(r.TaskID), State: r.State, Progress: int(r.Progress), Note: r.Note})
		}
	}
	return out, err
}
