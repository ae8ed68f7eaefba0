package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// limits is how long each kind of work may take in all.
var limits = map[fleet.JobKind]time.Duration{
	fleet.VMApply: 30 * time.Minute, fleet.VMPutBack: 30 * time.Minute, fleet.VMStart: 32 * time.Minute, fleet.VMShutdown: 4 * time.Minute,
	fleet.VMStop: time.Minute, fleet.VMReboot: 30 * time.Second, fleet.VMReset: 30 * time.Second,
	fleet.VMPause: 30 * time.Second, fleet.VMResume: 30 * time.Second, fleet.VMDelete: 5 * time.Minute,
	fleet.PoolApply: 2 * time.Minute, fleet.PoolRelease: time.Minute, fleet.ConsoleOpen: 10 * time.Second,
}

// slow reports whether the kind takes one of the host's slots. Waiting for a guest and short calls take none.
func slow(k fleet.JobKind) bool {
	switch k {
	case fleet.VMApply, fleet.VMPutBack, fleet.VMStart, fleet.VMDelete, fleet.PoolApply, fleet.PoolRelease:
		return true
	}
	return false
}

// appliesSpec reports whether work of the kind makes the definition and the disks as the spec says.
func appliesSpec(k fleet.JobKind) bool {
	return k == fleet.VMApply || k == fleet.VMPutBack || k == fleet.VMStart
}

// limitOf is the kind's limit; an unknown kind is refused within any.
func limitOf(k fleet.JobKind) time.Duration { return cmp.Or(limits[k], time.Minute) }

// Causes of contexts that ended at a limit.
var (
	errOverdue = fleet.Errorf(fleet.Unavailable, "The hypervisor did not answer in time.")
	errStalled = fleet.Errorf(fleet.Unavailable, "The hypervisor made no progress for too long.")
	errPanic   = errors.New("the agent failed inside")
)

// act does the work once and says how it ended; nil: it is to be left as it is (lost, or the agent stops).
func (a *Agent) act(j *job) *wire.Finish {
	if !j.Kind.SingleShot(j.Args) {
		if j.lost.Load() {
			return nil
		}
		return a.result(j, a.attempt(j))
	}
	if old, ok := a.journal.lookup(j.ID); ok {
		return a.recall(j, old)
	}
	if j.lost.Load() || j.ctx.Err() != nil {
		return nil
	}
	// A power cut ends consoles anyway, so theirs need not wait for the disk.
	durable := j.Kind != fleet.ConsoleOpen
	if err := a.journal.begin(j.Work, j.epoch.Load(), durable); err != nil {
		return a.result(j, fmt.Errorf("nothing was done, because the agent cannot keep its journal: %w", err))
	}
	r := a.result(j, a.attempt(j))
	if r == nil {
		return nil
	}
	if err := a.journal.end(j.ID, r.Outcome, r.Error, durable); err != nil {
		a.log.Error("The journal cannot be written.", "job", j.ID, "error", err)
	}
	return r
}

// attempt acts within the kind's limit. A panic becomes an error with a reference to the log.
func (a *Agent) attempt(j *job) (err error) {
	ctx, cancel := context.WithTimeoutCause(j.ctx, limitOf(j.Kind), errOverdue)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			ref := rand.Text()[:8]
			a.log.Error("Work ended in a panic.", "reference", ref, "job", j.ID, "kind", j.Kind, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("%w; its log has the details under reference %s", errPanic, ref)
		}
	}()
	return explain(ctx, a.do(ctx, j))
}

// explain puts a limit that has passed into words, before the hypervisor's own where it has any.
func explain(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	switch {
	case err == nil || cause == nil || errors.Is(err, cause):
		return err
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
		return cause
	}
	return fmt.Errorf("%w %w", cause, err)
}

func (a *Agent) do(ctx context.Context, j *job) error {
	h := a.hypervisor
	switch j.Kind {
	case fleet.PoolApply, fleet.PoolRelease:
		if j.Pool == nil {
			return errors.New("the portal sent this work without its pool")
		}
		if j.Kind == fleet.PoolApply {
			return h.ApplyPool(ctx, *j.Pool)
		}
		return h.ReleasePool(ctx, *j.Pool)
	}
	if !j.Kind.Known() {
		return fmt.Errorf("this agent (version %s) does not know work of kind %q: upgrade it", a.version, j.Kind)
	}
	if j.VM == nil {
		return errors.New("the portal sent this work without its VM")
	}
	id := j.VM.ID
	switch j.Kind {
	case fleet.VMApply, fleet.VMPutBack:
		return a.apply(ctx, j)
	case fleet.VMStart:
		if err := a.apply(ctx, j); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeoutCause(ctx, a.times.start, errOverdue)
		defer cancel()
		return explain(ctx, h.StartVM(ctx, id))
	case fleet.VMShutdown:
		return a.shutdown(ctx, j)
	case fleet.VMStop:
		return h.StopVM(ctx, id)
	case fleet.VMReboot:
		return h.RebootVM(ctx, id)
	case fleet.VMReset:
		return h.ResetVM(ctx, id)
	case fleet.VMPause:
		return h.PauseVM(ctx, id)
	case fleet.VMResume:
		return h.ResumeVM(ctx, id)
	case fleet.VMDelete:
		return h.DeleteVM(ctx, *j.VM, j.Pools, j.Args.DeleteDisks)
	}
	return a.openConsole(ctx, j)
}

// apply makes the definition and the disks. It may take long, but not without a sign of life.
func (a *Agent) apply(ctx context.Context, j *job) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(a.times.stall, func() { cancel(errStalled) })
	defer stalled.Stop()
	if err := a.memory.vmBegun(*j.VM); err != nil {
		a.log.Error("The agent's memory cannot be written.", "error", err)
	}
	return explain(ctx, a.hypervisor.ApplyVM(ctx, Apply{
		VM: *j.VM, Project: j.Project, Mark: j.Mark, Pools: j.Pools, PutBack: j.Kind == fleet.VMPutBack,
		Stamped: a.memory.stamped(j.VM.ID), Made: slices.Concat(j.Made, a.memory.made(j.VM.ID)),
		Whole: func(ref fleet.Volref) error {
			if err := a.memory.diskMade(*j.VM, ref); err != nil {
				return fmt.Errorf("the disk %s is made, but the agent cannot keep that in mind: %w", ref.Volume, err)
			}
			return nil
		},
		Progress: func(percent int, note string) {
			stalled.Reset(a.times.stall)
			j.told.tell(percent, note)
		},
	}))
}

// shutdown asks the guest to power off, reminds it, and waits until it has.
func (a *Agent) shutdown(ctx context.Context, j *job) error {
	late := time.After(a.times.shutdown)
	poll := time.NewTicker(a.times.poll)
	defer poll.Stop()
	var asked time.Time
	for {
		moved := a.moved.wait()
		off, err := a.isOff(ctx, j.VM.ID)
		if off {
			return nil
		}
		// While the hypervisor does not answer, say because it restarts, nobody knows: ask again later.
		if err == nil && time.Since(asked) >= a.times.askAgain {
			if err := a.within(ctx, func(ctx context.Context) error { return a.hypervisor.ShutdownVM(ctx, j.VM.ID) }); err != nil {
				return err
			}
			asked = time.Now()
			j.told.tell(0, "Waiting for the guest")
			continue
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-a.life.Done():
			j.cancel(errStopping) // the wait goes on after the lease, with the next agent
			return errStopping
		case <-late:
			if err != nil {
				return err
			}
			return fleet.Errorf(fleet.Conflict, "The guest did not power off within %s. Force it off, or look at its console.", spoken(a.times.shutdown))
		case <-moved:
		case <-poll.C:
		}
	}
}

func (a *Agent) isOff(ctx context.Context, id fleet.VMID) (bool, error) {
	var power fleet.Power
	err := a.within(ctx, func(ctx context.Context) error {
		status, _, err := a.hypervisor.VM(ctx, id)
		power = status.Power
		return err
	})
	return err == nil && isOff(power), err
}

// within gives one short call its own deadline.
func (a *Agent) within(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, a.times.call, errOverdue)
	defer cancel()
	return explain(ctx, call(ctx))
}

// spoken is a duration as people say it: "3 minutes".
func spoken(d time.Duration) string {
	if d >= time.Minute && d%time.Minute == 0 {
		return fmt.Sprintf("%d minutes", d/time.Minute)
	}
	return d.String()
}
