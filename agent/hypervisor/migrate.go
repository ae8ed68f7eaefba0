package hypervisor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"quantix/agent/transfer"
	"quantix/internal/fleet"
)

// MigrateVMWork is the job that sends a stopped VM to another host: its disks and, if Params.Firmware names a transfer,
// its UEFI variables and TPM state, and the definition of an adopted VM. Each transfer sends one file.
type MigrateVMWork struct {
	VM     fleet.VM
	Pools  []fleet.Pool
	Params fleet.MigrationParams
	// SentStamp returns the stamp of the transfer's file that RecordSending stored in an earlier attempt of this job. It
	// is empty if the file was not sent.
	SentStamp func(file fleet.TransferID) (stamp string)
	// RecordSending stores the stamp of a file, which identifies its content, before any data is sent. An error ends the
	// job.
	RecordSending func(file fleet.TransferID, stamp string) error
	// Send sends a file and returns once the other host has all data. It returns immediately if an earlier call sent all
	// data.
	Send func(ctx context.Context, file fleet.TransferID, pieces transfer.Pieces, size int64) error
	// WaitArrived returns once the portal knows that the other host has all files.
	WaitArrived func(ctx context.Context) error
	Progress    Progress
}

// RecordContent records the stamp of the transfer's file before the file is sent. It refuses a file that changed since an
// earlier attempt, because the other host keeps the data that it already received.
func (in MigrateVMWork) RecordContent(file fleet.TransferID, stamp string) error {
	switch in.SentStamp(file) {
	case stamp:
		return nil
	case "":
		return in.RecordSending(file, stamp)
	}
	return RefuseChangedVM(in.VM.Name)
}

// ReceiveFirmwareWork is the job that receives the UEFI variables and the TPM state of a VM that is off, from the host
// that calls MigrateVM.
type ReceiveFirmwareWork struct {
	VM       fleet.VMID
	Transfer fleet.TransferID
	// Apply has the adopted VM with its disks on this host, whose definition the state must have, and this host must be
	// able to define; nil: the state has no definition.
	Apply *ApplyWork
	// Receive returns what the other host sends, at most maxBytes bytes.
	Receive  func(ctx context.Context, maxBytes int64) ([]byte, error)
	Progress Progress
}

// RefuseFirmwareNotListed refuses a migration whose job leaves out the VM's UEFI variables and TPM state.
func RefuseFirmwareNotListed(vm string) error {
	return RefuseMigration(vm, "the migration job does not list the VM's UEFI variables and TPM state.")
}

// RefuseDefinitionNotListed refuses a migration whose job leaves out the definition of an adopted VM.
func RefuseDefinitionNotListed(vm string) error {
	return RefuseMigration(vm, "the migration job does not list the definition of the adopted VM.")
}

// CheckDefinitionSent refuses a received state that has a definition and should not, or the other way round.
func (in ReceiveFirmwareWork) CheckDefinitionSent(sent bool) error {
	switch {
	case sent && in.Apply == nil:
		return errors.New("the source host sends a definition that the portal did not order")
	case !sent && in.Apply != nil:
		return fleet.Errorf(fleet.Conflict, "The agent of the source host is too old to send the definition of an adopted VM. Update the agent.")
	}
	return nil
}

// RefuseMigration refuses to migrate a VM. Both backends use it. why is a format string for args.
func RefuseMigration(vm, why string, args ...any) error {
	return fleet.Errorf(fleet.Conflict, "%s cannot migrate to another host: %s", vm, strings.TrimSpace(fmt.Sprintf(why, args...)))
}

// RefuseChangedVM refuses to remove a VM that changed during the migration.
func RefuseChangedVM(vm string) error {
	return fleet.Errorf(fleet.Conflict, "Somebody started or changed the VM %s while it was being sent. The VM was not migrated. Try again.", vm)
}
