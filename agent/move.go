package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// ErrStopped is returned by work that was asked to end before its time, and has undone what it did.
var ErrStopped = errors.New("it was ended before its time; all is as it was")

// MoveDisk is the order to bring a VM's disk into another pool of the host.
type MoveDisk struct {
	VM    fleet.VM
	Pools []fleet.Pool // those that the VM's spec names, and the one that the disk goes to
	Order fleet.MoveOrder
	Made  string // the file in the new pool that this very order began before, as Begun was told of it; empty: none
	// Begun is told of the file in the new pool before anything is in it. Its error ends the order.
	Begun func(file string) error
	// Whole is told of the new disk once the guest could lose the old one, before the definition names it. Its error ends the order.
	Whole func(fleet.Volref) error
	// Stop is closed when the move is to end: all is put back as it was, and the answer is ErrStopped. A move whose guest is on
	// its new disk already goes on to its end instead.
	Stop     <-chan struct{}
	Progress Progress
}

// Stopped reports whether the move is to end.
func (m MoveDisk) Stopped() bool {
	select {
	case <-m.Stop:
		return true
	default:
		return false
	}
}

// Copied is how far a copy is, as people read it.
func Copied(act string, done, total, rate int64) (percent int, note string) {
	percent, note = Downloaded(done, total, rate)
	return percent, act + ", " + note
}

// undoTime is how long before the end of its time a move that is not done is ended, so that it can be undone.
const undoTime = 2 * time.Minute

// moveDisk is told to end, and not cut off: what a move has begun, such as a copy that QEMU makes, goes on without this agent.
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
		VM: *j.VM, Pools: j.Pools, Order: *j.Args.Move, Made: a.memory.volumeMade(j.ID), Stop: stop.done,
		Begun: func(file string) error {
			if err := a.memory.noteVolume(j.ID, file); err != nil {
				return fmt.Errorf("nothing was copied, because the agent cannot keep in mind what it begins: %w", err)
			}
			return nil
		},
		Whole: func(ref fleet.Volref) error {
			if err := a.memory.diskMade(*j.VM, ref); err != nil {
				return fmt.Errorf("the disk is copied, but the agent cannot keep that in mind: %w", err)
			}
			return nil
		},
		Progress: func(percent int, note string) {
			stalled.Reset(a.times.stall)
			j.told.tell(percent, note)
		},
	})
	if errors.Is(err, ErrStopped) {
		return stop.why()
	}
	return err
}

// keepMoved keeps nothing of a move that failed: the VM is as it was.
func keepMoved(a *Agent, j *job, out *wire.Finish) error {
	if j.VM == nil || out.Outcome != wire.Done || j.Args.Move == nil {
		return nil
	}
	return a.memory.diskMade(*j.VM, j.Args.Move.To)
}
