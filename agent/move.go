package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// ErrStopped is returned by work that was asked to stop and has undone its changes.
var ErrStopped = errors.New("it was ended before its time; all is as it was")

// MoveDisk is the order to move a VM's disk into another pool of the host.
type MoveDisk struct {
	VM    fleet.VM
	Pools []fleet.Pool // the pools that the VM's spec names, and the target pool
	Order fleet.MoveOrder
	// the file in the target pool that an earlier attempt of this order reported to Begun; empty: none
	Made string
	// Begun receives the file in the target pool before it contains data. Its error ends the order.
	Begun func(file string) error
	// Whole receives the new disk once the guest no longer needs the old one, before the definition names it. Its error
	// ends the order.
	Whole func(fleet.Volref) error
	// Stop is closed to stop the move: all changes are undone, and the error is ErrStopped. A move whose guest already
	// uses the new disk finishes instead.
	Stop     <-chan struct{}
	Progress Progress
}

// Stopped reports whether the move must stop.
func (m MoveDisk) Stopped() bool {
	select {
	case <-m.Stop:
		return true
	default:
		return false
	}
}

// Copied formats the progress of a copy for people.
func Copied(act string, done, total, rate int64) (percent int, note string) {
	percent, note = Downloaded(done, total, rate)
	return percent, act + ", " + note
}

// undoTime is reserved at the end of a move's time limit to undo an unfinished move.
const undoTime = 2 * time.Minute

// moveDisk asks the hypervisor's move to stop and does not cancel it: a copy in QEMU would continue without this agent.
func moveDisk(ctx context.Context, a *Agent, j *job) error {
	if j.Args.Move == nil || !fleet.IsVolumeName(j.Args.Move.To.Volume) {
		return errors.New("the portal sent this work without saying where the disk goes")
	}
	stop := newStopper()
	defer j.whenStopped(stop.stop)()
	stalled := time.AfterFunc(a.times.stall, func() { stop.stop(errStalled) })
	defer stalled.Stop()
	late := time.AfterFunc(j.Kind.Is().Limit-undoTime, func() { stop.stop(errOverdue) })
	defer late.Stop()
	err := a.hypervisor.MoveDisk(ctx, MoveDisk{
		VM: *j.VM, Pools: j.Pools, Order: *j.Args.Move, Made: a.state.volumeFile(j.ID), Stop: stop.done,
		Begun: func(file string) error {
			if err := a.state.noteVolume(j.ID, file); err != nil {
				return fmt.Errorf("nothing was copied, because the agent cannot keep in mind what it begins: %w", err)
			}
			return nil
		},
		Whole: func(ref fleet.Volref) error {
			if err := a.state.noteDisk(*j.VM, ref); err != nil {
				return fmt.Errorf("the disk is copied, but the agent cannot keep that in mind: %w", err)
			}
			return nil
		},
		Progress: func(percent int, note string) {
			stalled.Reset(a.times.stall)
			j.notifier.notify(percent, note)
		},
	})
	if errors.Is(err, ErrStopped) {
		return stop.why()
	}
	return err
}

// recordMoved records no error of a failed move: the VM is unchanged.
func recordMoved(a *Agent, j *job, out *wire.Finish) error {
	if j.VM == nil || out.Outcome != wire.Done || j.Args.Move == nil {
		return nil
	}
	return a.state.noteDisk(*j.VM, j.Args.Move.To)
}
