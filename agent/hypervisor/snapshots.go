package hypervisor

import (
	"context"

	"quantix/internal/fleet"
)

// Snapshots takes, reverts and deletes snapshots of VMs.
type Snapshots interface {
	// TakeSnapshot saves the VM's current state as the job requires: its disks, the firmware's variables, the TPM
	// state, and with Params.Memory the memory of a running guest, which continues afterwards. A failure leaves the VM
	// unchanged. TakeSnapshot, RevertSnapshot and DeleteSnapshot execute a job once, even if it is repeated or
	// interrupted. Each first undoes an interrupted job if possible, and otherwise completes it. They refuse a VM with
	// snapshots made outside Quantix, or with disks that somebody changed.
	TakeSnapshot(ctx context.Context, in SnapshotWork) error
	// RevertSnapshot returns the disks, firmware variables and TPM state to the snapshot. Later changes remain only in
	// other snapshots. A snapshot with memory resumes the guest from that memory. Otherwise the VM is off, unless
	// Params.Start is set. The VM's definition stays as the current spec requires.
	RevertSnapshot(ctx context.Context, in SnapshotWork) error
	// DeleteSnapshot marks the snapshot as deleted, and merges the files of deleted snapshots that back exactly one
	// file, while the guest runs or is off. Without Params.ID, DeleteSnapshot only merges files of snapshots deleted
	// earlier.
	DeleteSnapshot(ctx context.Context, in SnapshotWork) error
}

// SnapshotWork is a job for a VM's snapshots.
type SnapshotWork struct {
	VM     fleet.VM
	Pools  []fleet.Pool // the pools that the VM's spec names
	Job    fleet.JobID  // the job's ID: a repeated job runs once
	Params fleet.SnapshotParams
	// Stop is closed to cancel a merge: merged data stays merged, and the error is ErrCancelled.
	Stop     <-chan struct{}
	Progress Progress
}

// IsCancelled reports whether a user has cancelled the merge.
func (w SnapshotWork) IsCancelled() bool {
	select {
	case <-w.Stop:
		return true
	default:
		return false
	}
}

// NoSnapshotError refuses a job for a snapshot that the host does not have.
func NoSnapshotError(vm string) error {
	return fleet.Errorf(fleet.NotFound, "The host no longer has this snapshot of %s. Reload the page.", vm)
}

// RefuseSnapshotsBeingCopied refuses to change or remove files while disks of new VMs are copied from the files.
func RefuseSnapshotsBeingCopied(vm string) error {
	return fleet.Errorf(fleet.Conflict, "Disks of a new VM are being copied from snapshots of %s, so the snapshots cannot change. Wait until the copy has ended.", vm)
}

// RefuseSnapshotsWithUnfinishedJob refuses to copy from snapshots that a job is changing.
func RefuseSnapshotsWithUnfinishedJob() error {
	return fleet.Errorf(fleet.Conflict, "A job for the VM's snapshots is running or was interrupted, so nothing can be copied from the snapshots. Wait, or take another snapshot, which finishes the interrupted job.")
}

// RefuseVMWithSnapshots refuses a job that would separate a VM's disks from its snapshots.
func RefuseVMWithSnapshots(vm string) error {
	return fleet.Errorf(fleet.Conflict, "The VM %s has snapshots, which need the VM's disks, so nothing was done. Delete the VM's snapshots first.", vm)
}

// RefuseRevertWithoutDisk refuses a snapshot with a disk that the VM no longer has.
func RefuseRevertWithoutDisk(volume string) error {
	return fleet.Errorf(fleet.Conflict, "The VM no longer has the disk %s, which is in the snapshot. The VM was not changed.", volume)
}

// RefuseLeftoverOverlay refuses to delete a VM's disks if an unmanaged overlay would stay. why says why the agent
// cannot delete the overlay, as the end of a sentence.
func RefuseLeftoverOverlay(vm, file, why string) error {
	return fleet.Errorf(fleet.Conflict, "Somebody on the host created an overlay for the disks of %s. The overlay %s %s, so the deletion would leave the overlay behind. Nothing was deleted. "+
		"Merge the overlay into the disk on the host first (virsh blockcommit, snapshot-delete), or delete the VM without its disks.", vm, file, why)
}

// RefuseDeleteWithoutDisks refuses to delete a VM without its disks, because the disks need the files of the snapshots.
func RefuseDeleteWithoutDisks(vm string) error {
	return fleet.Errorf(fleet.Conflict, "The VM %s has snapshots, and the VM's disks need the snapshots' files. Delete the VM's snapshots first, or delete the VM with its disks.", vm)
}
