package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// Causes of contexts that ended at a limit.
var (
	errCallTimedOut = fleet.Errorf(fleet.Unavailable, "The hypervisor did not answer in time.")
	errNoProgress   = fleet.Errorf(fleet.Unavailable, "The hypervisor made no progress within the time limit.")
	errPanic        = errors.New("the agent had an internal error")
)

// runJobOnce runs the job once and returns its result; nil: no result, because the job is lost or the agent stops.
func (a *Agent) runJobOnce(j *job) *wire.Finish {
	if !j.Kind.IsSingleShot(j.Args) {
		if j.lost.Load() {
			return nil
		}
		return a.completeJob(j, a.runHandler(j))
	}
	a.awaitUpgrade(j)
	if old, ok := a.journal.lookup(j.ID); ok {
		if j.ID == a.upgrades.Begun.Job() && old.Outcome == "" {
			return nil // the agent stops before its first report
		}
		return a.resultFromJournal(j, old)
	}
	if j.lost.Load() || j.ctx.Err() != nil {
		return nil
	}
	durable := !j.Kind.Info().Background // a power loss ends such a job anyway, so its entry need not be synced
	if err := a.journal.recordBegin(j.Work, j.epoch.Load(), durable); err != nil {
		return a.completeJob(j, fmt.Errorf("nothing was done, because the agent cannot write its journal: %w", err))
	}
	r := a.completeJob(j, a.runHandler(j))
	if r == nil {
		return nil
	}
	if err := a.journal.recordOutcome(j.ID, r.Outcome, r.Error, durable); err != nil {
		a.log.Error("The journal cannot be written.", "job", j.ID, "error", err)
	}
	return r
}

// runHandler runs the kind's handler within its time limit. A panic becomes an error with a reference to the log.
func (a *Agent) runHandler(j *job) (err error) {
	d, known := jobHandlers[j.Kind]
	if !known {
		return fmt.Errorf("this agent (version %s) does not support jobs of the kind %q: upgrade the agent", a.version, j.Kind)
	}
	ctx, cancel := context.WithTimeoutCause(j.ctx, j.Kind.Info().Limit, errCallTimedOut)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			ref := rand.Text()[:8]
			a.log.Error("Work ended in a panic.", "reference", ref, "job", j.ID, "kind", j.Kind, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("%w; the agent's log has the details under reference %s", errPanic, ref)
		}
	}()
	j.mayHaveActed = true
	return addContextCause(ctx, d.run(ctx, a, j))
}

// addContextCause adds the cause of an expired limit to the hypervisor's error, or replaces a bare context error by the
// cause.
func addContextCause(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	switch {
	case err == nil || cause == nil || errors.Is(err, cause):
		return err
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
		return cause
	}
	return fmt.Errorf("%w %w", cause, err)
}

func applyVM(ctx context.Context, a *Agent, j *job) error { return applySpec(ctx, a, j, false) }

// reapplyVM overwrites edits made on the host: those of the job's fields, or all.
func reapplyVM(ctx context.Context, a *Agent, j *job) error { return applySpec(ctx, a, j, true) }

// checkImageChecksums refuses to create a VM if this host has read the copy of its image and found another checksum,
// also in a repeated job. An existing VM creates nothing from images.
func (a *Agent) checkImageChecksums(vm fleet.VM) error {
	if vm.Status != nil {
		return nil
	}
	hashed := a.state.checksums()
	for _, d := range vm.Spec.Disks {
		if d.Image == nil || d.ImageSHA256 == "" {
			continue
		}
		if h, read := hashed[*d.Image]; read && h.SHA256 != d.ImageSHA256 {
			return hypervisor.VolumeDiffersFromImageError(d.Image.Volume, h.SHA256, d.ImageSHA256)
		}
	}
	return nil
}

// applySpec creates the disks and the definition. It may take long, but must report progress.
func applySpec(ctx context.Context, a *Agent, j *job, isReapply bool) error {
	if err := validateSecurityGroups(j.SecurityGroups...); err != nil {
		return err
	}
	if err := a.checkImageChecksums(*j.VM); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(a.timing.stallLimit, func() { cancel(errNoProgress) })
	defer stalled.Stop()
	if err := a.state.recordVMBegun(*j.VM); err != nil {
		a.log.Error("The agent's state file cannot be written.", "error", err)
	}
	work := newApplyWork(a, j)
	work.Reapply, work.ReapplyFields, work.Adopted = isReapply, j.Args.Fields, j.Adopted
	work.Progress = func(percent int, note string) {
		stalled.Reset(a.timing.stallLimit)
		j.notifier.notify(percent, note)
	}
	return addContextCause(ctx, a.hypervisor.ApplyVM(ctx, work))
}

// newApplyWork returns the work that applies the spec of the job's VM.
func newApplyWork(a *Agent, j *job) hypervisor.ApplyWork {
	return hypervisor.ApplyWork{
		VM: *j.VM, SpecHash: j.SpecHash, Project: j.Project, OwnershipMark: j.Mark, Pools: j.Pools, Groups: j.SecurityGroups,
		AppliedGeneration: a.state.appliedGeneration(j.VM.ID), CreatedDisks: slices.Concat(j.CreatedDisks, a.state.createdDisks(j.VM.ID)),
		FirstBoot: func(ctx context.Context) (map[string][]byte, error) { return fetchFirstBoot(ctx, a, *j.VM) },
		RecordDisk: func(ref fleet.Volref) error {
			if err := a.state.recordCreatedDisk(*j.VM, ref); err != nil {
				return fmt.Errorf("the disk %s was created, but the agent cannot record it: %w", ref.Volume, err)
			}
			return nil
		},
		Progress: j.notifier.notify,
	}
}

// shutdownVM asks the guest to power off, repeats the request, and waits until the guest is off.
func shutdownVM(ctx context.Context, a *Agent, j *job) error {
	return a.shutDownGuestUntil(ctx, j, func(s fleet.VMStatus) (over, ask bool) { return isOff(s.Power), true })
}

// startTimeTolerance is the tolerance for the reported start time of one run, which moves with the host's clock. No
// guest shuts down and starts again within that time.
const startTimeTolerance = 2 * time.Second

// restartVM ends the run that the job names, and starts the VM with its current definition. Any other run is the
// restarted one already, so a repeated or resumed job does not end a second run.
func restartVM(ctx context.Context, a *Agent, j *job) error {
	if j.Args.Run == nil {
		return errors.New("the portal sent this job without the run to end")
	}
	var unknownStart, newer bool
	var since time.Time // since when the host has not reported the run's start
	err := a.shutDownGuestUntil(ctx, j, func(s fleet.VMStatus) (over, ask bool) {
		switch {
		case isOff(s.Power):
			return true, false
		case s.StartedAt == nil:
			// libvirt reports no start time for a moment if a guest has ended and libvirt has not noticed the end, for
			// example during a restart of libvirt.
			if since.IsZero() {
				since = time.Now()
			}
			unknownStart = time.Since(since) >= a.timing.shutdownRepeat
			return unknownStart, false
		}
		since = time.Time{}
		newer = s.StartedAt.Sub(*j.Args.Run) > startTimeTolerance
		return newer, !newer
	})
	switch {
	case err != nil:
		return err
	case unknownStart:
		a.updateVMState(j.VM.ID, func(k *vmState) { k.StopRequested = false })
		return fleet.Errorf(fleet.Conflict, "The host does not report when the VM was started, so a restart cannot be verified. Shut the VM down, then start it.")
	case newer: // the new run may still be starting, because an agent was killed during the start
		if err := a.state.updateVM(j.VM.ID, func(k *vmState) { k.StopRequested = false }); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeoutCause(ctx, a.timing.startLimit, errCallTimedOut)
		defer cancel()
		return addContextCause(ctx, a.hypervisor.StartVM(ctx, j.VM.ID))
	}
	if !a.slots.TryAcquire(1) {
		j.notifier.notify(0, "Waiting for other jobs of this host")
		if err := a.slots.Acquire(ctx, 1); err != nil {
			return err
		}
	}
	defer a.slots.Release(1)
	if a.runContext.Err() != nil {
		j.cancel(errAgentStopping) // the next agent starts the VM
		return errAgentStopping
	}
	return startVM(ctx, a, j)
}

// shutDownGuestUntil asks the guest to shut down until check reports that the wait is over. check also reports whether
// the guest may be asked in its current state.
func (a *Agent) shutDownGuestUntil(ctx context.Context, j *job, check func(fleet.VMStatus) (over, ask bool)) error {
	if err := a.state.recordStopRequest(j.VM.ID, a.bootID()); err != nil {
		return err
	}
	late := time.After(a.timing.shutdownLimit)
	poll := time.NewTicker(a.timing.pollInterval)
	defer poll.Stop()
	var askedAt time.Time
	for {
		moved := a.hostChanged.wait()
		status, err := a.vmStatus(ctx, j.VM.ID)
		var over, ask bool
		if err == nil { // an unavailable hypervisor may be restarting: try again later
			over, ask = check(status)
		}
		if over {
			return nil
		}
		if ask && time.Since(askedAt) >= a.timing.shutdownRepeat {
			if err := a.withCallTimeout(ctx, func(ctx context.Context) error { return a.hypervisor.ShutdownVM(ctx, j.VM.ID) }); err != nil {
				return err
			}
			askedAt = time.Now()
			j.notifier.notify(0, "Waiting for the guest")
			continue
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-a.runContext.Done():
			j.cancel(errAgentStopping) // the next agent continues the wait after the lease expires
			return errAgentStopping
		case <-late:
			if err != nil {
				return err
			}
			return fleet.Errorf(fleet.Conflict, "The guest did not power off within %s. Force off the VM, or check the VM's console.", formatDuration(a.timing.shutdownLimit))
		case <-moved:
		case <-poll.C:
		}
	}
}

func (a *Agent) vmStatus(ctx context.Context, id fleet.VMID) (status fleet.VMStatus, err error) {
	err = a.withCallTimeout(ctx, func(ctx context.Context) (err error) {
		status, _, err = a.hypervisor.VM(ctx, id)
		return err
	})
	return status, err
}

// withCallTimeout calls call with the deadline of one short call.
func (a *Agent) withCallTimeout(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, a.timing.hypervisorCallLimit, errCallTimedOut)
	defer cancel()
	return addContextCause(ctx, call(ctx))
}

// formatDuration formats a duration for people: "3 minutes".
func formatDuration(d time.Duration) string {
	if d >= time.Minute && d%time.Minute == 0 {
		return fmt.Sprintf("%d minutes", d/time.Minute)
	}
	return d.String()
}
