package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// moveUndoTime is the part of a disk migration's time limit that is reserved to undo an unfinished migration.
const moveUndoTime = 2 * time.Minute

// moveDisk runs a disk migration. It stops the copy through the hypervisor, because QEMU continues a copy after ctx
// ends.
func moveDisk(ctx context.Context, a *Agent, j *job) error {
	if j.Args.Move == nil || !fleet.IsVolumeName(j.Args.Move.To.Volume) {
		return errors.New("the portal sent this job without the disk's destination")
	}
	stop := newStopSignal()
	defer j.whenStopped(stop.stop)()
	stalled := time.AfterFunc(a.timing.stallLimit, func() { stop.stop(errNoProgress) })
	defer stalled.Stop()
	late := time.AfterFunc(j.Kind.Info().Limit-moveUndoTime, func() { stop.stop(errCallTimedOut) })
	defer late.Stop()
	err := a.hypervisor.MoveDisk(ctx, hypervisor.MoveDiskWork{
		VM: *j.VM, Pools: j.Pools, Params: *j.Args.Move, RecordedFile: a.state.createdVolumeFile(j.ID), Stop: stop.done,
		RecordFile: func(file string) error {
			if err := a.state.recordCreatedVolume(j.ID, file); err != nil {
				return fmt.Errorf("nothing was copied, because the agent cannot record the new file: %w", err)
			}
			return nil
		},
		RecordDisk: func(ref fleet.Volref) error {
			if err := a.state.recordCreatedDisk(*j.VM, ref); err != nil {
				return fmt.Errorf("the disk was copied, but the agent cannot record the copy: %w", err)
			}
			return nil
		},
		Progress: func(percent int, note string) {
			stalled.Reset(a.timing.stallLimit)
			j.notifier.notify(percent, note)
		},
	})
	if errors.Is(err, hypervisor.ErrCancelled) {
		return stop.firstCause()
	}
	return err
}

// recordDiskMove records a successful disk migration only. A failed one leaves the VM unchanged, so its error is not
// recorded.
func recordDiskMove(a *Agent, j *job, out *wire.Finish) error {
	if j.VM == nil || out.Outcome != wire.Done || j.Args.Move == nil {
		return nil
	}
	return a.state.recordCreatedDisk(*j.VM, j.Args.Move.To)
}
