package hypervisor

import (
	"context"

	"quantix/agent/migration"
	"quantix/internal/fleet"
)

// LiveMigrationWork is the job that migrates a running VM to another host.
type LiveMigrationWork struct {
	VM     fleet.VM
	Pools  []fleet.Pool
	Params fleet.MigrationParams
	// Begun reports that an earlier attempt of this job called RecordBegin. The VM may then run on either host.
	Begun bool
	// RecordBegin stores that the hosts are connected and the migration begins. An error ends the job.
	RecordBegin func() error
	// Connect connects to the agent of the target host.
	Connect func(ctx context.Context) (*migration.Link, error)
	// AwaitTarget returns once the target host's job has ended. arrived reports that the VM runs there.
	AwaitTarget func(ctx context.Context) (arrived bool, err error)
	Progress    Progress
}

// ReceiveVMWork is the job that receives a running VM from another host.
type ReceiveVMWork struct {
	Apply ApplyWork // the VM as ApplyVM would define it on this host, with its disks at their volumes of this host
	// Disks are the disks that the source host copies to this host. All other disks of the VM are in shared pools.
	Disks   []fleet.MigratingDisk
	Options fleet.MigrationOptions
	// RecordFile stores the identity of the file that the call has created for a copied disk, before the file gets the
	// volume's name. CreatedFile returns it, also in a later attempt of this job; empty: none.
	RecordFile  func(to fleet.Volref, file string) error
	CreatedFile func(to fleet.Volref) string
	// Begun reports that an earlier attempt of this job called RecordBegin.
	Begun       bool
	RecordBegin func() error
	// RecordArrived stores that the guest runs here, before the source host learns of it. Arrived reports that an earlier
	// attempt of this job called RecordArrived: the job has succeeded, even if the guest is off by now.
	Arrived       bool
	RecordArrived func() error
	// Accept waits for the source host's agent to connect.
	Accept   func(ctx context.Context) (*migration.Link, error)
	Progress Progress
}

// InterruptedMigrationError is the error of a live migration that was interrupted and left the VM on the source host. It
// says nothing about the VM's state: see StayedVMError.
func InterruptedMigrationError(vm string) error {
	return fleet.Errorf(fleet.Conflict, "The migration of %s was interrupted. Try again.", vm)
}

// StayedVMError adds to the error of a live migration that left the VM on the source host what that host then says of the
// VM. An empty power is unknown.
func StayedVMError(why error, power fleet.Power) error {
	state := "It is unknown whether the VM still runs on its host."
	switch power {
	case fleet.Running:
		state = "The VM still runs on its host."
	case fleet.Paused:
		state = "The VM is paused on its host."
	case fleet.Stopped, fleet.Crashed:
		state = "The VM is off on its host."
	case fleet.Absent:
		state = "Its host does not have the VM any more."
	}
	return fleet.Errorf(fleet.Conflict, "%s %s", why, state)
}

// RefuseKnownVM refuses to receive a VM that the host already has.
func RefuseKnownVM(vm string) error {
	return fleet.Errorf(fleet.Conflict, "This host already has a definition of %s. Delete the definition on this host, and try again.", vm)
}

// MaxMigrationChannels is the largest number of parallel connections of a live migration.
const MaxMigrationChannels = 16

// CheckMigrationOptions refuses options of a live migration that QEMU cannot combine.
func CheckMigrationOptions(o fleet.MigrationOptions) error {
	switch {
	case o.PostCopy && o.Channels > 1:
		return fleet.Errorf(fleet.Invalid, "QEMU cannot combine post-copy with several channels. Choose one of them.")
	case o.Channels < 0 || o.Channels > MaxMigrationChannels || o.MaxDowntime < 0 || o.TimeoutSeconds < 0:
		return fleet.Errorf(fleet.Invalid, "The migration has invalid options. Choose at most %d channels.", MaxMigrationChannels)
	}
	return nil
}

// MigrationTimeoutError is the cause of a live migration that was cancelled because it exceeded its time limit.
func MigrationTimeoutError(vm string, o fleet.MigrationOptions) error {
	return fleet.Errorf(fleet.Conflict, "The migration of %s took longer than %d seconds and was cancelled. Allow auto-converge or a longer pause, or choose a longer time.", vm, o.TimeoutSeconds)
}

// LostGuestError is the error of a post-copy migration that failed after the guest had begun to run on the target host.
func LostGuestError(vm string) error {
	return fleet.Errorf(fleet.Conflict, "The migration of %s failed after its guest had begun to run on the target host (post-copy), so the guest is lost. Force the VM off on both hosts, and start it again.", vm)
}
