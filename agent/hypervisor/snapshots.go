package hypervisor

import (
	"context"

	"quantix/internal/fleet"
)

// Snapshots takes, reverts and deletes snapshots of VMs.
type Snapshots interface {
	// TakeSnapshot saves the VM's current state as the order says: its disks, the firmware's variables, the TPM's
	// state, and with Order.Memory the memory of a running guest, which continues afterwards. A failure leaves the VM
	// as it was. TakeSnapshot, RevertSnapshot and DeleteSnapshot each run an order once, however often it is repeated
	// or interrupted. Each first finishes an interrupted order: it rolls back if possible, else forward. They refuse a
	// VM with snapshots made outside Quantix, or whose disks somebody changed.
	TakeSnapshot(ctx context.Context, in SnapshotWork) error
	// RevertSnapshot returns the disks, firmware variables and TPM state to the snapshot. Later changes remain only in
	// other snapshots. A snapshot with memory resumes the guest from it; else the VM is off, unless Order.Start is set.
	// The VM's definition stays as the current spec wants it.
	RevertSnapshot(ctx context.Context, in SnapshotWork) error
	// DeleteSnapshot marks the snapshot as deleted, and merges the files of deleted snapshots that back exactly one
	// file, while the guest runs or is off. Without Order.ID it only merges.
	DeleteSnapshot(ctx context.Context, in SnapshotWork) error
}

// SnapshotWork is an order for a VM's snapshots.
type SnapshotWork struct {
	VM    fleet.VM
	Pools []fleet.Pool // the pools that the VM's spec names
	Job   fleet.JobID  // the order's job: repeated, it runs once
	Order fleet.SnapshotOrder
	// Stop is closed to stop a merge: merged data stays merged, and the error is ErrStopped.
	Stop     <-chan struct{}
	Progress Progress
}

// Stopped reports whether the merge must stop.
func (w SnapshotWork) Stopped() bool {
	select {
	case <-w.Stop:
		return true
	default:
		return false
	}
}

// NoSnapshot refuses an order for a snapshot that the host does not have.
func NoSnapshot(vm string) error {
	return fleet.Errorf(fleet.NotFound, "The host no longer has this snapshot of %s. Reload the page.", vm)
}

// SnapshotsRead refuses to change or remove files from which disks of new VMs are being copied.
func SnapshotsRead(vm string) error {
	return fleet.Errorf(fleet.Conflict, "Disks of a new VM are being copied from snapshots of %s, so they are left as they are. Wait until that has ended.", vm)
}

// SnapshotsAtWork refuses to copy from snapshots that are being changed.
func SnapshotsAtWork() error {
	return fleet.Errorf(fleet.Conflict, "Something about the VM's snapshots is under way, or was not finished, so nothing is copied from them. Wait, or take another snapshot, which brings it to an end.")
}

// HasSnapshots refuses to separate a VM's disks from its snapshots.
func HasSnapshots(vm string) error {
	return fleet.Errorf(fleet.Conflict, "The VM %s has snapshots, of which its disks are a part, so nothing was done. Delete its snapshots first.", vm)
}

// DiskGone refuses a snapshot with a disk that the VM no longer has.
func DiskGone(volume string) error {
	return fleet.Errorf(fleet.Conflict, "The VM has no disk %s any more, which it had when the snapshot was taken, so it is left as it is.", volume)
}

// LeavesOldFiles refuses to delete a VM's disks if an overlay made by somebody else would stay. why is the reason that
// keeps the file, as the end of a sentence.
func LeavesOldFiles(vm, file, why string) error {
	return fleet.Errorf(fleet.Conflict, "Somebody on the host had the disks of %s go on in %s, which %s, so it would be left behind. Nothing was deleted. "+
		"Merge it into the disk on the host first (virsh blockcommit, snapshot-delete), or delete the VM without its disks.", vm, file, why)
}

// DeletesTheirOwn refuses to delete a VM but keep its disks, because the disks need the files of the snapshots.
func DeletesTheirOwn(vm string) error {
	return fleet.Errorf(fleet.Conflict, "The VM %s has snapshots, without which its disks are not what they are now. Delete its snapshots first, or delete it with its disks.", vm)
}
