package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"quantix/agent/hypervisor"
	"quantix/agent/migration"
	"quantix/internal/fleet"
)

// Records of a live migration: see stateFile.recordSentDisk.
const (
	liveMigrationStamp    = "live"    // the hosts were connected
	arrivedMigrationStamp = "arrived" // the guest runs on the target
)

// recordLiveMigration returns the function that records the begin of a live migration, and whether an earlier attempt of
// the job recorded it.
func recordLiveMigration(a *Agent, id fleet.TransferID) (record func() error, begun bool) {
	return func() error {
		if err := a.state.recordSentDisk(id, liveMigrationStamp); err != nil {
			return fmt.Errorf("the migration did not begin, because the agent cannot record it: %w", err)
		}
		return nil
	}, a.state.sentDiskStamp(id) != ""
}

// migrateRunningVM migrates the job's VM to another host while the VM runs.
func migrateRunningVM(ctx context.Context, a *Agent, j *job, order fleet.MigrationParams) error {
	ctx, end := stoppableContext(ctx, j)
	defer end()
	m := a.newRendezvous(j, order.Live, order.ToName)
	record, begun := recordLiveMigration(a, order.Live)
	way := ""
	err := a.hypervisor.MigrateRunningVM(ctx, hypervisor.LiveMigrationWork{
		VM: *j.VM, Pools: j.Pools, Params: order, Begun: begun, RecordBegin: record, AwaitTarget: m.awaitReceiver,
		Connect: func(ctx context.Context) (*migration.Link, error) {
			conn, note, err := m.connect(ctx)
			if err != nil {
				return nil, err
			}
			way = note
			return migration.NewLink(conn, migration.Source), nil
		},
		Progress: func(percent int, note string) { j.notifier.notify(percent, strings.TrimPrefix(note+way, ", ")) },
	})
	return stopCause(ctx, err)
}

// newArrivalWork returns the work that applies the spec of a VM that migrates to this host, with the VM's disks on this
// host.
func newArrivalWork(a *Agent, j *job) hypervisor.ApplyWork {
	work := newApplyWork(a, j)
	work.VM.Spec = j.Args.Migrate.SpecOnTarget(work.VM.Spec)
	for _, d := range work.VM.Spec.Disks {
		work.CreatedDisks = append(work.CreatedDisks, d.Ref())
	}
	return work
}

// receiveVM receives a running VM from another host.
func receiveVM(ctx context.Context, a *Agent, j *job) error {
	if j.Args.Migrate == nil || j.Args.Migrate.Live == "" {
		return errors.New("the portal sent this job without the migration's connection")
	}
	if err := validateSecurityGroups(j.SecurityGroups...); err != nil {
		return err
	}
	ctx, end := stoppableContext(ctx, j)
	defer end()
	m := a.newRendezvous(j, j.Args.Migrate.Live, "the other host")
	id := j.Args.Migrate.Live
	record, begun := recordLiveMigration(a, id)
	work := newArrivalWork(a, j)
	// The job's created files are recorded one by one, as if each had a job of its own.
	fileOf := func(to fleet.Volref) fleet.JobID { return j.ID + fleet.JobID("/"+string(to.PoolID)+"/"+to.Volume) }
	err := a.hypervisor.ReceiveVM(ctx, hypervisor.ReceiveVMWork{
		Apply: work, Disks: j.Args.Migrate.Disks, Options: j.Args.Migrate.Options, Begun: begun, RecordBegin: record, Progress: j.notifier.notify,
		Arrived: a.state.sentDiskStamp(id) == arrivedMigrationStamp, RecordArrived: func() error { return a.state.recordSentDisk(id, arrivedMigrationStamp) },
		CreatedFile: func(to fleet.Volref) string { return a.state.createdVolumeFile(fileOf(to)) },
		RecordFile: func(to fleet.Volref, file string) error {
			if err := a.state.recordCreatedVolume(fileOf(to), file); err != nil {
				return fmt.Errorf("the migration did not begin, because the agent cannot record the disk's new file: %w", err)
			}
			return nil
		},
		Accept: func(ctx context.Context) (*migration.Link, error) {
			in, _, err := m.admitSender(ctx, "")
			if err != nil {
				return nil, err
			}
			return migration.NewLink(in.Stream(), migration.Target), nil
		},
	})
	if errors.Is(err, hypervisor.ErrCancelled) && ctx.Err() == nil { // the source host learned of the cancellation first
		return jobCancelledError{"Cancelled on the source host."}
	}
	return stopCause(ctx, err)
}
