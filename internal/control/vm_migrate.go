package control

import (
	"context"
	"fmt"
	"slices"

	"quantix/db"
	"quantix/internal/control/placing"
	"quantix/internal/control/query"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// MigrateVM is the input of Control.MigrateVM: the destination of a migration.
type MigrateVM struct {
	HostID     fleet.HostID        `json:"hostId,omitempty" doc:"The target host; empty: the best suitable host"`
	Mode       fleet.MigrationMode `json:"mode,omitempty" enum:"auto,live,cold" doc:"live: the VM keeps running; cold: the VM is off; auto, the default: live if the VM runs. Disks outside shared pools are copied"`
	PoolID     fleet.PoolID        `json:"poolId,omitempty" doc:"The target host's pool for the disks; empty: each disk's own pool. Disks in a shared pool that the target host has stay in place"`
	RateBytes  int64               `json:"rateBytes,omitempty" doc:"The bandwidth limit in bytes per second; 0: no limit"`
	Overcommit bool                `json:"overcommit,omitempty" doc:"Allow overcommit of the target host and of the pool"`
	// OvercommitHost is Overcommit without the pool.
	OvercommitHost bool                   `json:"overcommitHost,omitempty" doc:"Allow overcommit of the target host's memory and vCPUs, but not of the pool"`
	Options        fleet.MigrationOptions `json:"options,omitzero" doc:"Options of a live migration"`
}

func (in MigrateVM) checkFields() error {
	var checks fleet.Checks
	fleet.CheckMigrationRate(&checks, "rateBytes", in.RateBytes)
	if modes := []fleet.MigrationMode{"", fleet.MigrateAuto, fleet.MigrateLive, fleet.MigrateCold}; !slices.Contains(modes, in.Mode) {
		checks.Add("mode", "Choose auto, live or cold.")
	}
	if in.PoolID != "" && in.HostID == "" {
		checks.Add("hostId", "Choose the host that has the pool.")
	}
	in.Options.Check(&checks, "options")
	return checks.Err()
}

// MigrateVM requests a migration. In a cold migration, the VM belongs to the source host until both hosts report success:
// the source after it has sent the disks and removed its definition, the target after it has verified that the VM is
// complete. In a live migration, the VM belongs to the source host until the target reports that the VM runs there.
func (c *Control) MigrateVM(ctx context.Context, a fleet.Actor, id fleet.VMID, in MigrateVM) (task fleet.Task, err error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return task, err
	}
	if err := store.CheckID(id, "VM"); err != nil {
		return task, err
	}
	if err := in.checkFields(); err != nil {
		return task, err
	}
	was, err := query.VMWithPools(ctx, c.Queries, a, id)
	if err != nil {
		return task, err
	}
	err = c.store.Tx(ctx, func(q *db.Queries) error {
		// All transactions lock pools before VMs, so that they do not deadlock.
		if err := q.LockPools(ctx, sortedPoolIDs(was.Spec, in.PoolID)); err != nil {
			return err
		}
		vm, err := store.LockVM(ctx, q, a, id, policy.VMChange)
		if err != nil {
			return err
		}
		order, host, err := migrationParams(ctx, q, a, vm, in)
		if err != nil {
			return err
		}
		if task, err = queueMigrationJobs(ctx, q, a, vm, order); err != nil {
			return err
		}
		if err := placing.AllocateOnTarget(ctx, q, vm.VM, order.To); err != nil {
			return err
		}
		return store.Audit(ctx, q, a, "vm.migrate", fleet.SubjectVM(id), vm.Name, vm.HostName+" → "+host)
	})
	return store.RedactTask(a, task), err
}

func sortedPoolIDs(spec fleet.VMSpec, more ...fleet.PoolID) []string {
	ids := store.ToStrings(append(spec.Pools(), more...))
	slices.Sort(ids)
	return slices.Compact(ids)
}

// migrationParams returns the arguments of the migration job, and the target host's name. The VM must be locked.
func migrationParams(ctx context.Context, q *db.Queries, a fleet.Actor, vm fleet.VMView, in MigrateVM) (order fleet.MigrationParams, host string, err error) {
	if err := checkMigratable(ctx, q, vm); err != nil {
		return order, "", err
	}
	if err := checkMigrationMode(vm, in); err != nil {
		return order, "", err
	}
	if in.HostID == "" {
		best, err := chooseMigrationHost(ctx, q, a, vm, destinationPools{overcommit: in.Overcommit, overcommitHost: in.OvercommitHost})
		if err != nil {
			return order, "", err
		}
		in.HostID, in.PoolID = best.HostID, best.PoolID
	}
	if err := delayChildTransfer(ctx, q, vm.HostID, in.HostID); err != nil {
		return order, "", err
	}
	if err := placing.LockDevicesOf(ctx, q, vm.Spec); err != nil {
		return order, "", err
	}
	if err := q.LockMemory(ctx, string(in.HostID)); err != nil { // the VM counts on the target host from the request on
		return order, "", err
	}
	found, err := migrationTargets(ctx, q, a, []fleet.VMView{vm}, in.HostID, destinationPools{ids: []fleet.PoolID{in.PoolID}, overcommit: in.Overcommit, overcommitHost: in.OvercommitHost})
	if err != nil {
		return order, "", err
	}
	targets := found[0]
	var checks fleet.Checks
	if len(targets) == 0 {
		checks.Add("hostId", "There is no such host.")
		return order, "", checks.Err()
	}
	if err := delayChildForHypervisor(ctx, targets); err != nil {
		return order, "", err
	}
	switch t := targets[0]; {
	case !t.target.Allowed && t.target.HostFull:
		checks.Add("hostId", "%s", t.target.Reason)
		checks.Add("overcommit", hostOvercommitHint)
	case !t.target.Allowed && t.target.Room:
		checks.Add("poolId", "%s", t.target.Reason)
		checks.Add("overcommit", "To proceed anyway, overcommit the pool.")
	case !t.target.Allowed:
		checks.Add("hostId", "%s", t.target.Reason)
	}
	if err := checks.Err(); err != nil {
		return order, "", err
	}
	order = fleet.MigrationParams{To: in.HostID, ToName: targets[0].target.HostName, RateBytes: vm.Spec.Migration.EffectiveRate(in.RateBytes), Disks: []fleet.MigratingDisk{}, Stay: targets[0].stayingDisks}
	next := max(len(vm.Spec.Disks), int(vm.Generation))
	for i, pool := range targets[0].pools {
		if pool == "" {
			continue
		}
		var to fleet.Volref
		if to, next, err = unusedDiskName(ctx, q, vm, pool, next); err != nil {
			return order, "", err
		}
		d := fleet.MigratingDisk{Disk: vm.Spec.Disks[i].Ref(), To: to, TakesBytes: vm.DiskBytes(vm.Spec.Disks[i])}
		if !vm.MigratesLive() {
			d.Transfer = fleet.NewID[fleet.TransferID]()
		}
		order.Disks = append(order.Disks, d)
	}
	switch order.Generation = int64(next); {
	case vm.MigratesLive():
		order.Live, order.Options = fleet.NewID[fleet.TransferID](), vm.Spec.Migration.EffectiveOptions(in.Options)
	case vm.Adoption != nil || vm.Spec.HasFirmwareState():
		order.Definition = vm.Adoption != nil
		order.Firmware = fleet.NewID[fleet.TransferID]()
	}
	if len(order.Transfers()) > 0 || order.Live != "" {
		err = checkTransferLimit(ctx, q, vm.HostID, in.HostID)
	}
	return order, order.ToName, err
}

// unusedDiskName returns a name for the VM's disk that is not reserved in the pool, and the number in that name, which is
// above last.
func unusedDiskName(ctx context.Context, q *db.Queries, vm fleet.VMView, pool fleet.PoolID, last int) (fleet.Volref, int, error) {
	for next := last + 1; next <= last+50; next++ {
		to := fleet.Volref{PoolID: pool, Volume: newVolumeName(vm.Name, vm.ID, next)}
		if taken, err := q.VolumeNameReserved(ctx, db.VolumeNameReservedParams{PoolID: string(pool), Volume: to.Volume}); err != nil || !taken {
			return to, next, err
		}
	}
	return fleet.Volref{}, last, fleet.Errorf(fleet.Conflict, "The pool has too many volumes that are named as disks of %s. Rename or delete some.", vm.Name)
}

// checkMigrationMode refuses a mode that the VM's state does not allow.
func checkMigrationMode(vm fleet.VMView, in MigrateVM) error {
	var checks fleet.Checks
	switch live := vm.MigratesLive(); {
	case in.Mode == fleet.MigrateLive && !live:
		checks.Add("mode", "%s is off, so its migration is cold. Choose cold or auto.", vm.Name)
	case in.Mode == fleet.MigrateCold && live:
		checks.Add("mode", "%s is running. Shut the VM down for a cold migration, or choose live or auto.", vm.Name)
	case in.Options != (fleet.MigrationOptions{}) && !live:
		checks.Add("options", "These options apply to live migrations only, and %s is off.", vm.Name)
	}
	return checks.Err()
}

// checkMigratable refuses if the VM cannot migrate now.
func checkMigratable(ctx context.Context, q *db.Queries, vm fleet.VMView) error {
	moving, err := readDiskMigrations(ctx, q, vm.ID)
	if err != nil {
		return err
	}
	leaving, err := readMigration(ctx, q, vm.ID)
	if err != nil {
		return err
	}
	if ok, why := vm.AllowsMigration(moving, leaving); !ok {
		return fleet.RefusalError(why)
	}
	return nil
}

// queueMigrationJobs adds one task with the source host's job, and the target host's jobs: one per disk and one for the
// firmware state, or one for the running VM.
func queueMigrationJobs(ctx context.Context, q *db.Queries, a fleet.Actor, vm fleet.VMView, order fleet.MigrationParams) (fleet.Task, error) {
	task, err := queueVMJob(ctx, q, a, vm, fleet.VMMigrate, fleet.JobArgs{Migrate: &order})
	if err != nil {
		return task, err
	}
	sending, err := q.JobsAbout(ctx, db.JobsAboutParams{Subject: fleet.SubjectVM(vm.ID), Kind: fleet.VMMigrate})
	if err == nil && len(sending) != 1 {
		err = fmt.Errorf("found %d migration jobs of VM %s, want one", len(sending), vm.ID)
	}
	if err != nil {
		return task, err
	}
	sender, steps := sending[0].ID, []string{}
	for i, d := range order.Disks {
		if d.Transfer == "" {
			continue // the connection of the live migration carries the disk
		}
		id := fleet.NewID[fleet.JobID]()
		work := fleet.VolumeParams{
			TakesBytes: d.TakesBytes,
			Transfer:   &fleet.TransferParams{ID: d.Transfer, Peer: vm.HostID, PeerName: vm.HostName, RateBytes: order.RateBytes, Check: true},
		}
		err := q.AddStep(ctx, db.AddStepParams{
			ID: id, TaskID: &task.ID, Role: fmt.Sprintf("%s-%02d", roleReceive, i+1), HostID: order.To, Kind: fleet.VolumeReceive,
			Subject: fleet.SubjectVolume(d.To), Args: fleet.JobArgs{Volume: &work},
		})
		if err == nil {
			err = q.AddTransfer(ctx, db.AddTransferParams{ID: d.Transfer, SendJob: sender, ReceiveJob: id, FromHost: vm.HostID, ToHost: order.To})
		}
		if err != nil {
			return task, err
		}
		steps = append(steps, string(id))
	}
	for _, part := range []struct {
		transfer fleet.TransferID
		kind     fleet.JobKind
	}{{order.Live, fleet.VMReceive}, {order.Firmware, fleet.VMFirmwareReceive}} {
		if part.transfer == "" {
			continue
		}
		id := fleet.NewID[fleet.JobID]()
		err := q.AddStep(ctx, db.AddStepParams{
			ID: id, TaskID: &task.ID, Role: roleReceive, HostID: order.To, Kind: part.kind, Subject: fleet.SubjectVM(vm.ID), Args: fleet.JobArgs{Migrate: &order},
		})
		if err == nil {
			err = q.AddTransfer(ctx, db.AddTransferParams{ID: part.transfer, SendJob: sender, ReceiveJob: id, FromHost: vm.HostID, ToHost: order.To})
		}
		if err != nil {
			return task, err
		}
		steps = append(steps, string(id))
	}
	if len(steps) > 0 {
		err = q.NameStep(ctx, db.NameStepParams{Role: roleSend, TaskID: &task.ID, Steps: steps})
	}
	return task, err
}

// MigrationInProgress returns the VM's unfinished cold migration; nil: none.
func (c *Control) MigrationInProgress(ctx context.Context, a fleet.Actor, id fleet.VMID) (*fleet.MigratingVM, error) {
	if err := policy.Check(a, policy.InfraChange, ""); err != nil {
		return nil, err
	}
	return readMigration(ctx, c.store.Queries, id)
}

func readMigration(ctx context.Context, q *db.Queries, id fleet.VMID) (*fleet.MigratingVM, error) {
	rows, err := q.LeavingOf(ctx, fleet.SubjectVM(id))
	if err != nil || len(rows) == 0 || rows[0].Args.Migrate == nil {
		return nil, store.UserError(err)
	}
	r := rows[0]
	return &fleet.MigratingVM{MigrationParams: *r.Args.Migrate, Task: fleet.TaskID(r.TaskID), State: r.State, Progress: int(r.Progress), Note: r.Note}, nil
}
