package agent

import (
	"context"
	"errors"
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/wire"
)

// snapshotHandler returns a job handler for one snapshot method of the hypervisor. The handler stops the method through
// the hypervisor, because QEMU continues a merge after ctx ends.
func snapshotHandler(call func(hypervisor.Snapshots, context.Context, hypervisor.SnapshotWork) error) func(context.Context, *Agent, *job) error {
	return vmHandler(func(ctx context.Context, a *Agent, j *job) error {
		if j.Args.Snapshot == nil {
			return errors.New("the portal sent this job without its snapshot")
		}
		stop := newStopSignal()
		defer j.whenStopped(stop.stop)()
		stalled := time.AfterFunc(a.timing.stallLimit, func() { stop.stop(errNoProgress) })
		defer stalled.Stop()
		err := call(a.hypervisor, ctx, hypervisor.SnapshotWork{
			VM: *j.VM, Pools: j.Pools, Job: j.ID, Params: *j.Args.Snapshot, Stop: stop.done,
			Progress: func(percent int, note string) {
				stalled.Reset(a.timing.stallLimit)
				j.notifier.notify(percent, note)
			},
		})
		if errors.Is(err, hypervisor.ErrCancelled) {
			return stop.firstCause()
		}
		return err
	})
}

// recordRevert records a successful revert only. A failed revert stores no error, because its task shows the VM's
// state.
func recordRevert(a *Agent, j *job, out *wire.Finish) error {
	if out.Outcome != wire.Done {
		return nil
	}
	return recordVMPower(a, j, out)
}
