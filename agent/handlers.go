package agent

import (
	"context"
	"errors"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// handler runs one kind of job on this agent.
type handler struct {
	do       func(context.Context, *Agent, *job) error
	// adds the resulting state of the host to the finish
	observe  func(context.Context, *Agent, *job, *wire.Finish)
	remember func(*Agent, *job, *wire.Finish) error // records what later reports must contain
}

var handlers = map[fleet.JobKind]handler{
	fleet.VMApply:          {onVM(apply), seeVM, keepVM},
	fleet.VMReapply:        {onVM(reapply), seeVM, keepVM},
	fleet.VMStart:          {onVM(start), seeVM, keepTurned},
	fleet.VMShutdown:       {onVM(shutdown), seeVM, keepTurned},
	fleet.VMStop:           {onVM(stop), seeVM, keepTurned},
	fleet.VMRestart:        {onVM(restart), seeVM, keepTurned},
	fleet.VMReboot:         {byID(Hypervisor.RebootVM), seeVM, keepVM},
	fleet.VMReset:          {byID(Hypervisor.ResetVM), seeVM, keepVM},
	fleet.VMPause:          {byID(Hypervisor.PauseVM), seeVM, keepVM},
	fleet.VMResume:         {byID(Hypervisor.ResumeVM), seeVM, keepVM},
	fleet.VMDelete:         {onVM(deleteVM), seeVM, forgetVM},
	fleet.PoolApply:        {applyPool, seePool, keepPool},
	fleet.PoolRelease:      {onPool(Hypervisor.ReleasePool), seeReleased, keepPool},
	fleet.NetworkApply:     {applyNetwork, seeNetwork, keepNetwork},
	fleet.NetworkRelease:   {releaseNetwork, seeReleasedNetwork, forgetNetwork},
	fleet.ConsoleOpen:      {onVM(openConsole), seeNothing, keepNothing},
	fleet.VolumeCreate:     {onVolume(Hypervisor.CreateVolume), seeVolume, keepNothing},
	fleet.VolumeGrow:       {onVolume(Hypervisor.GrowVolume), seeVolume, keepNothing},
	fleet.VolumeRename:     {onVolume(Hypervisor.RenameVolume), seeVolume, forgetOldName},
	fleet.VolumeClone:      {onVolume(Hypervisor.CloneVolume), seeVolume, keepNothing},
	fleet.VolumeFetch:      {onVolume(Hypervisor.FetchVolume), seeVolume, keepNothing},
	fleet.VolumeUpload:     {uploadVolume, seeVolume, keepNothing},
	fleet.VolumeRead:       {readVolume, seeNothing, keepNothing},
	fleet.UploadOpen:       {openUpload, seeNothing, keepNothing},
	fleet.VolumeWipe:       {onVolume(Hypervisor.WipeVolume), seeVolume, keepNothing},
	fleet.VolumeDelete:     {onVolume(Hypervisor.DeleteVolume), seeVolume, forgetHash},
	fleet.VolumeHash:       {onVolume(Hypervisor.HashVolume), seeVolume, keepNothing},
	fleet.VolumeCopy:       {onVolume(Hypervisor.CopyVolume), seeVolume, keepNothing},
	fleet.VolumeConvert:    {onVolume(Hypervisor.ConvertVolume), seeVolume, keepNothing},
	fleet.VolumeExport:     {onVolume(Hypervisor.ExportVolume), seeVolume, keepNothing},
	fleet.VolumeSend:       {sendVolume, seeNothing, keepNothing},
	fleet.VolumeReceive:    {receiveVolume, seeVolume, keepNothing},
	fleet.VMFreeze:         {onVM(freezeGuest), seeOnlyDone, keepNothing},
	fleet.VMThaw:           {onVM(thawGuest), seeOnlyDone, keepNothing},
	fleet.VMPassword:       {onVM(setPassword), seeOnlyDone, keepNothing},
	fleet.VMClock:          {byID(Hypervisor.SyncGuestTime), seeOnlyDone, keepNothing},
	fleet.VMExec:           {onVM(runInGuest), seeOutput, keepNothing},
	fleet.VMTrim:           {byID(Hypervisor.TrimGuest), seeOnlyDone, keepNothing},
	fleet.VMMigrate:        {onVM(migrateVM), seeVM, keepLeft},
	fleet.VMSnapshot:       {onSnapshots(Hypervisor.TakeSnapshot), seeVM, keepNothing},
	fleet.VMRevert:         {onSnapshots(Hypervisor.RevertSnapshot), seeVM, keepReverted},
	fleet.VMSnapshotDelete: {onSnapshots(Hypervisor.DeleteSnapshot), seeVM, keepNothing},
	fleet.VMConsolidate:    {onSnapshots(Hypervisor.DeleteSnapshot), seeVM, keepNothing},

	fleet.VMDiskMove: {onVM(moveDisk), seeVM, keepMoved},
	fleet.VMPlan:     {onVM(planVM), seePlan, keepNothing},

	fleet.SecurityGroupApply:   {onSecurityGroup(Hypervisor.ApplySecurityGroup), seeSecurityGroup, keepNothing},
	fleet.SecurityGroupRelease: {onSecurityGroup(Hypervisor.ReleaseSecurityGroup), seeSecurityGroup, keepNothing},
}

// handlerOf returns the job's handler. A job of an unknown kind fails, and its failure is reported and recorded like
// any other.
func handlerOf(j *job) handler {
	d, known := handlers[j.Kind]
	switch {
	case known:
		return d
	case j.Pool != nil:
		return handler{observe: seePool, remember: keepPool}
	case j.Network != nil:
		return handler{observe: seeNetwork, remember: keepNetwork}
	}
	return handler{observe: seeVM, remember: keepVM}
}

// onVM wraps a handler that needs the job's VM.
func onVM(do func(context.Context, *Agent, *job) error) func(context.Context, *Agent, *job) error {
	return func(ctx context.Context, a *Agent, j *job) error {
		if j.VM == nil {
			return errors.New("the portal sent this work without its VM")
		}
		return do(ctx, a, j)
	}
}

// byID returns a handler that calls a hypervisor method with the VM's ID.
func byID(call func(Hypervisor, context.Context, fleet.VMID) error) func(context.Context, *Agent, *job) error {
	return onVM(func(ctx context.Context, a *Agent, j *job) error { return call(a.hypervisor, ctx, j.VM.ID) })
}

// onPool returns a handler that calls a hypervisor method with the job's pool.
func onPool(call func(Hypervisor, context.Context, fleet.Pool) error) func(context.Context, *Agent, *job) error {
	return func(ctx context.Context, a *Agent, j *job) error {
		if j.Pool == nil {
			return errors.New("the portal sent this work without its pool")
		}
		return call(a.hypervisor, ctx, *j.Pool)
	}
}

// start applies the spec and starts the guest. A guest may run already, because the agent ended during an earlier
// attempt. Changes that it cannot get while it runs then wait for its next start and are no failure.
func start(ctx context.Context, a *Agent, j *job) error {
	if err := apply(ctx, a, j); err != nil {
		if !a.runsAsDefined(ctx, j) {
			return err
		}
		a.log.Warn("A VM runs already, and cannot have all of its spec before its next start.", "job", j.ID, "vm", j.VM.Name, "error", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, a.times.start, errOverdue)
	defer cancel()
	return explain(ctx, a.hypervisor.StartVM(ctx, j.VM.ID))
}

// runsAsDefined reports whether the guest is on and its definition has the job's generation.
func (a *Agent) runsAsDefined(ctx context.Context, j *job) bool {
	on := false
	err := a.within(ctx, func(ctx context.Context) error {
		status, generation, err := a.hypervisor.VM(ctx, j.VM.ID)
		on = !isOff(status.Power) && generation == j.VM.Generation
		return err
	})
	return err == nil && on
}

// stop first records that somebody wants the VM off, so that its restart policy does not start it again.
func stop(ctx context.Context, a *Agent, j *job) error {
	if err := a.memory.asked(j.VM.ID, a.bootID()); err != nil {
		return err
	}
	return a.hypervisor.StopVM(ctx, j.VM.ID)
}

func deleteVM(ctx context.Context, a *Agent, j *job) error {
	return a.hypervisor.DeleteVM(ctx, *j.VM, j.Pools, j.Args.DeleteDisks)
}

func seeVM(ctx context.Context, a *Agent, j *job, out *wire.Finish) {
	if j.VM == nil {
		return
	}
	status, _, err := a.hypervisor.VM(ctx, j.VM.ID)
	if err != nil {
		a.log.Warn("The VM's status after the job cannot be read.", "job", j.ID, "error", err)
		return
	}
	a.memory.addTo(j.VM.ID, &status, a.bootID())
	a.judge.addTo(j.VM.ID, &status, a.memory.acted(j.VM.ID))
	out.VM = &status
}

// observePool adds the pool's state on the host, or the failure if there is none.
func seePool(ctx context.Context, a *Agent, j *job, out *wire.Finish) {
	if j.Pool == nil {
		return
	}
	if state, err := a.hypervisor.Snapshot(ctx, Assigned{Pools: []fleet.Pool{*j.Pool}, Hashed: a.memory.hashed()}); err == nil && state.Host.Connected {
		state = clone(state)
		a.memory.complete(&state, a.bootID())
		for _, p := range state.Pools {
			if p.Name == j.Pool.Name {
				out.Pool = &p.Status
				return
			}
		}
	}
	if out.Outcome != wire.Done {
		out.Pool = &fleet.PoolStatus{State: fleet.PoolFailed, MountPath: j.Pool.Spec.Path, Error: out.Error}
	}
}

// observeReleased adds the pool's state only after a failure: a pool of that name after a release is another one.
func seeReleased(ctx context.Context, a *Agent, j *job, out *wire.Finish) {
	if out.Outcome != wire.Done {
		seePool(ctx, a, j, out)
	}
}

// observeNetwork adds the network's state on the host, or the failure if there is none.
func seeNetwork(ctx context.Context, a *Agent, j *job, out *wire.Finish) {
	if j.Network == nil {
		return
	}
	if state, err := a.hypervisor.Snapshot(ctx, Assigned{Networks: []fleet.Network{*j.Network}}); err == nil && state.Host.Connected {
		state = clone(state)
		a.memory.complete(&state, a.bootID())
		a.lookAtLinks(&state, []fleet.Network{*j.Network})
		for _, n := range state.Networks {
			if n.ID == j.Network.ID {
				out.Network = &n.Status
				return
			}
		}
	}
	if out.Outcome != wire.Done {
		out.Network = &fleet.NetworkStatus{Error: out.Error}
	}
}

// observeReleasedNetwork adds the network's state only after a failure.
func seeReleasedNetwork(ctx context.Context, a *Agent, j *job, out *wire.Finish) {
	if out.Outcome != wire.Done {
		seeNetwork(ctx, a, j, out)
	}
}

// observeNothing reports that no generation was acted on.
func seeNothing(_ context.Context, _ *Agent, _ *job, out *wire.Finish) { out.Generation = 0 }

func keepVM(a *Agent, j *job, out *wire.Finish) error { return keepActed(a, j, out, false) }

// recordPower is recordVM for jobs that power the guest on or off.
func keepTurned(a *Agent, j *job, out *wire.Finish) error { return keepActed(a, j, out, true) }

func keepActed(a *Agent, j *job, out *wire.Finish, turned bool) error {
	if j.VM == nil {
		return nil
	}
	return a.memory.vmActed(*j.VM, j.Generation, j.Kind, out.Error, turned, a.bootID())
}

func forgetVM(a *Agent, j *job, out *wire.Finish) error {
	if j.VM != nil && out.Outcome == wire.Done {
		return a.memory.vmGone(j.VM.ID)
	}
	return keepVM(a, j, out)
}

func keepPool(a *Agent, j *job, out *wire.Finish) error {
	if j.Pool == nil {
		return nil
	}
	return a.memory.poolActed(j.Pool.Name, out.Error)
}

func keepNetwork(a *Agent, j *job, out *wire.Finish) error {
	if j.Network == nil {
		return nil
	}
	return a.memory.networkActed(*j.Network, out.Error, a.bootID())
}

func forgetNetwork(a *Agent, j *job, out *wire.Finish) error {
	if j.Network != nil && out.Outcome == wire.Done {
		return a.memory.networkGone(j.Network.ID)
	}
	return keepNetwork(a, j, out)
}

// forgetHash deletes the checksum of a deleted volume.
func forgetHash(a *Agent, j *job, out *wire.Finish) error {
	if ref, ok := j.Subject.Volume(); ok && out.Outcome == wire.Done {
		return a.memory.unhash(ref)
	}
	return nil
}

// forgetOldName deletes the checksum under a renamed volume's old name.
func forgetOldName(a *Agent, j *job, out *wire.Finish) error {
	if ref, ok := j.Subject.Volume(); ok && out.Outcome == wire.Done && j.Args.Volume != nil {
		return a.memory.unhash(fleet.Volref{PoolID: ref.PoolID, Volume: j.Args.Volume.Source})
	}
	return nil
}

func keepNothing(*Agent, *job, *wire.Finish) error { return nil }
