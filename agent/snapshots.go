package agent

import (
	"context"
	"errors"
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/wire"
)

// onSnapshots returns a job handler for one snapshot method of the hypervisor. It asks the method to stop and does not
// cancel it: a merge in QEMU would continue without this agent.
func onSnapshots(call func(hypervisor.Snapshots, context.Context, hypervisor.SnapshotWork) error) func(context.Context, *Agent, *job) error {
	return onVM(func(ctx context.Context, a *Agent, j *job) error {
		if j.Args.Snapshot == nil {
			return errors.New("the portal sent this work without its snapshot")
		}
		stop := newStopper()
		defer j.whenStopped(stop.stop)()
		stalled := time.AfterFunc(a.times.stall, func() { stop.stop(errStalled) })
		defer stalled.Stop()
		err := call(a.hypervisor, ctx, hypervisor.SnapshotWork{
			VM: *j.VM, Pools: j.Pools, Job: j.ID, Order: *j.Args.Snapshot, Stop: stop.done,
			Progress: func(percent int, note string) {
				stalled.Reset(a.times.stall)
				j.notifier.notify(percent, note)
			},
		})
		if errors.Is(err, hypervisor.ErrStopped) {
			return stop.why()
		}
		return err
	})
}

// recordReverted records no error of a failed revert: its task shows the VM's state.
func recordReverted(a *Agent, j *job, out *wire.Finish) error {
	if out.Outcome != wire.Done {
		return nil
	}
	return recordPower(a, j, out)
}

// NoSnapshot refuses an order for a snapshot that the host does not have.
func NoSnapshot(vm string) error {
	return fleet.Errorf(fleet.NotFound, "The host has no such snapshot of %s any more. Reload the page.", vm)
}

// SnapshotsRead refuses to change or remove files that are being copied to disks of new VMs.
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
