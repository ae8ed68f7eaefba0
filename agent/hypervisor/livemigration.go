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
	Apply ApplyWork // the VM as ApplyVM would define it on this host; all disks exist
	// Begun reports that an earlier attempt of this job called RecordBegin.
	Begun       bool
	RecordBegin func() error
	// Accept waits for the source host's agent to connect.
	Accept   func(ctx context.Context) (*migration.Link, error)
	Progress Progress
}

// InterruptedMigrationError is the error of a live migration that was interrupted and left the VM on the source host.
func InterruptedMigrationError(vm string) error {
	return fleet.Errorf(fleet.Conflict, "The migration of %s was interrupted. The VM still runs on its host. Try again.", vm)
}

// RefuseKnownVM refuses to receive a VM that the host already has.
func RefuseKnownVM(vm string) error {
	return fleet.Errorf(fleet.Conflict, "This host already has a definition of %s. Delete the definition on this host, and try again.", vm)
}
