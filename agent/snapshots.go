package agent

import (
	"context"
	"errors"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// SnapshotWork is an order about a VM's snapshots.
type SnapshotWork struct {
	VM    fleet.VM
	Pools []fleet.Pool // those that the VM's spec names
	Job   fleet.JobID  // the order: given again, it is done once
	Order fleet.SnapshotOrder
	// Stop is closed when merging is to end: what is merged stays merged, and the answer is ErrStopped.
	Stop     <-chan struct{}
	Progress Progress
}

// Stopped reports whether merging is to end.
func (w SnapshotWork) Stopped() bool {
	select {
	case <-w.Stop:
		return true
	default:
		return false
	}
}

// onSnapshots is one call of the hypervisor for a VM's snapshots. It is told to end, and not cut off: what QEMU merges goes on without this agent.
func onSnapshots(call func(Hypervisor, context.Context, SnapshotWork) error) func(context.Context, *Agent, *job) error {
	return onVM(func(ctx context.Context, a *Agent, j *job) error {
		if j.Args.Snapshot == nil {
			return errors.New("the portal sent this work without its snapshot")
		}
		stop := newStopper()
		defer j.whenStopped(stop.stop)()
		stalled := time.AfterFunc(a.times.stall, func() { stop.stop(errStalled) })
		defer stalled.Stop()
		err := call(a.hypervisor, ctx, SnapshotWork{
			VM: *j.VM, Pools: j.Pools, Job: j.ID, Order: *j.Args.Snapshot, Stop: stop.done,
			Progress: func(percent int, note string) {
				stalled.Reset(a.times.stall)
				j.told.tell(percent, note)
			},
		})
		if errors.Is(err, ErrStopped) {
			return stop.why()
		}
		return err
	})
}

// keepReverted keeps nothing of one that failed: its task says what became of the VM.
func keepReverted(a *Agent, j *job, out *wire.Finish) error {
	if out.Outcome != wire.Done {
		return nil
	}
	return keepTurned(a, j, out)
}

// NoSnapshot is for an order about one that the host does not have.
func NoSnapshot(vm string) error {
	return fleet.Errorf(fleet.NotFound, "The host has no such snapshot of %s any more. Reload the page.", vm)
}

// SnapshotsRead is for what would change or remove files of which new VMs' disks are copied.
func SnapshotsRead(vm string) error {
	return fleet.Errorf(fleet.Conflict, "Disks of a new VM are being copied from snapshots of %s, so they are left as they are. Wait until that has ended.", vm)
}

// SnapshotsAtWork is for a copy of what is being changed.
func SnapshotsAtWork() error {
	return fleet.Errorf(fleet.Conflict, "Something about the VM's snapshots is under way, or was not finished, so nothing is copied from them. Wait, or take another snapshot, which brings it to an end.")
}

// HasSnapshots is for what would part a VM's disks from its snapshots.
func HasSnapshots(vm string) error {
	return fleet.Errorf(fleet.Conflict, "The VM %s has snapshots, of which its disks are a part, so nothing was done. Delete its snapshots first.", vm)
}

// DiskGone is for a snapshot of a disk that the VM does not have any more.
func DiskGone(volume string) error {
	return fleet.Errorf(fleet.Conflict, "The VM has no disk %s any more, which it had when the snapshot was taken, so it is left as it is.", volume)
}

// LeavesOldFiles refuses to delete a VM's disks where what somebody put on top of them would stay. why: what keeps the file, as the end of a sentence.
func LeavesOldFiles(vm, file, why string) error {
	return fleet.Errorf(fleet.Conflict, "Somebody on the host had the disks of %s go on in %s, which %s, so it would be left behind. Nothing was deleted. "+
		"Merge it into the disk on the host first (virsh blockcommit, snapshot-delete), or delete the VM without its disks.", vm, file, why)
}

// DeletesTheirOwn refuses to delete a VM and keep its disks, while those are only whole with its snapshots' files.
func DeletesTheirOwn(vm string) error {
	return fleet.Errorf(fleet.Conflict, "The VM %s has snapshots, without which its disks are not what they are now. Delete its snapshots first, or delete it with its disks.", vm)
}
