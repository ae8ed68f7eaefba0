package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// volumeHandler returns a job handler that calls the hypervisor for a volume. The handler requires the volume's pool,
// and refuses a job that the volume's use forbids (fleet.VolumeUsers). The call may take long, but must report
// progress.
func volumeHandler(call func(hypervisor.Storage, context.Context, hypervisor.VolumeWork) error) func(context.Context, *Agent, *job) error {
	return func(ctx context.Context, a *Agent, j *job) error {
		ref, ok := j.Subject.Volume()
		switch {
		case !ok || !fleet.IsVolumeName(ref.Volume):
			return fleet.Errorf(fleet.Invalid, "%q is not a valid volume.", string(j.Subject))
		case j.Pool == nil || j.Pool.ID != ref.PoolID || j.Args.Volume == nil:
			return errors.New("the portal sent this job without its pool or its volume")
		case j.VolumeUsers != nil:
			if err := j.VolumeUsers.JobError(j.Kind); err != nil {
				return err
			}
		}
		var source *fleet.Pool
		if from := j.Args.Volume.SourcePool; from != "" {
			i := slices.IndexFunc(j.Pools, func(p fleet.Pool) bool { return p.ID == from })
			if i < 0 {
				return hypervisor.NoSourcePoolError()
			}
			source = &j.Pools[i]
		}
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		stalled := time.AfterFunc(a.timing.stallLimit, func() { cancel(errNoProgress) })
		defer stalled.Stop()
		if j.Kind.Info().Stoppable && !j.Args.Volume.Flatten { // libvirt runs a flatten, which cannot be stopped
			defer j.whenStopped(func(cause error) { cancel(cause) })()
		}
		return addContextCause(ctx, call(a.hypervisor, ctx, hypervisor.VolumeWork{
			Pool: *j.Pool, Name: ref.Volume, Params: *j.Args.Volume, RecordedFile: a.state.createdVolumeFile(j.ID), SourcePool: source, Pools: j.Pools,
			RecordChecksums: func(all ...hypervisor.VolumeChecksum) error {
				if err := a.state.addChecksums(all...); err != nil {
					return fmt.Errorf("the checksum is computed, but the agent cannot record the checksum: %w", err)
				}
				return nil
			},
			RecordFile: func(file string) error {
				if err := a.state.recordCreatedVolume(j.ID, file); err != nil {
					return fmt.Errorf("the volume was created, but the agent cannot record its file: %w", err)
				}
				return nil
			},
			Progress: func(percent int, note string) {
				stalled.Reset(a.timing.stallLimit)
				j.notifier.notify(percent, note)
			},
		}))
	}
}

// addVolumePoolStatus adds the current state of the volume's pool to the job's result.
func addVolumePoolStatus(ctx context.Context, a *Agent, j *job, out *wire.Finish) {
	if j.Pool == nil {
		return
	}
	state, err := a.hypervisor.HostState(ctx, hypervisor.Assignment{Assigned: hypervisor.Assigned{Pools: []fleet.Pool{*j.Pool}}, Checksums: a.state.checksums()})
	if err != nil || !state.Host.Connected {
		return
	}
	state = cloneLists(state)
	a.state.addAgentState(&state, a.bootID())
	for _, p := range state.Pools {
		if p.Name == j.Pool.Name {
			out.Pool = &p.Status
		}
	}
}
