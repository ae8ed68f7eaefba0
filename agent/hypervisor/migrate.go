package hypervisor

import (
	"context"
	"fmt"
	"strings"

	"quantix/agent/transfer"
	"quantix/internal/fleet"
)

// MigrateVMWork is the job that sends a stopped VM to another host.
type MigrateVMWork struct {
	VM     fleet.VM
	Pools  []fleet.Pool
	Params fleet.MigrationParams
	// SentStamp returns the stamp of the disk's file that RecordSending stored in an earlier attempt of this job. It is
	// empty if the disk was not sent.
	SentStamp func(disk fleet.MigratingDisk) (stamp string)
	// RecordSending stores the stamp of a disk's file, which is its size and modification time, before any data is sent.
	// An error ends the job.
	RecordSending func(disk fleet.MigratingDisk, stamp string) error
	// Send sends a disk and returns once the other host has all data. It returns immediately if an earlier call sent
	// all data.
	Send func(ctx context.Context, disk fleet.MigratingDisk, pieces transfer.Pieces, size int64) error
	// WaitDisksArrived returns once the portal knows that the other host has all disks.
	WaitDisksArrived func(ctx context.Context) error
	Progress         Progress
}

// RefuseMigration refuses to migrate a VM. Both backends use it. why is a format string for args.
func RefuseMigration(vm, why string, args ...any) error {
	return fleet.Errorf(fleet.Conflict, "%s cannot migrate to another host: %s", vm, strings.TrimSpace(fmt.Sprintf(why, args...)))
}

// RefuseChangedVM refuses to remove a VM that changed during the migration.
func RefuseChangedVM(vm string) error {
	return fleet.Errorf(fleet.Conflict, "Somebody started or changed the VM %s while it was being sent. The VM was not migrated. Try again.", vm)
}
