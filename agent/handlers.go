package agent

import (
	"context"
	"errors"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// handler runs one kind of job on this agent.
type handler struct {
	do func(context.Context, *Agent, *job) error
	// observe adds to the job's result the state of the job's object on the host after the job.
	observe func(context.Context, *Agent, *job, *wire.Finish)
	record  func(*Agent, *job, *wire.Finish) error // records state that later reports must contain
}

var handlers = map[fleet.JobKind]handler{
	fleet.VMApply:          {withVM(apply), observeVM, recordVM},
	fleet.VMReapply:        {withVM(reapply), observeVM, recordVM},
	fleet.VMStart:          {withVM(start), observeVM, recordPower},
	fleet.VMShutdown:       {withVM(shutdown), observeVM, recordPower},
	fleet.VMStop:           {withVM(stop), observeVM, recordPower},
	fleet.VMRestart:        {withVM(restart), observeVM, recordPower},
	fleet.VMReboot:         {withVMID(hypervisor.Hypervisor.RebootVM), observeVM, recordVM},
	fleet.VMReset:          {withVMID(hypervisor.Hypervisor.ResetVM), observeVM, recordVM},
	fleet.VMPause:          {withVMID(hypervisor.Hypervisor.PauseVM), observeVM, recordVM},
	fleet.VMResume:         {withVMID(hypervisor.Hypervisor.ResumeVM), observeVM, recordVM},
	fleet.VMDelete:         {withVM(deleteVM), observeVM, forgetVM},
	fleet.PoolApply:        {applyPool, observePool, recordPool},
	fleet.PoolRelease:      {withPool(hypervisor.Storage.ReleasePool), observeReleasedPool, recordPool},
	fleet.NetworkApply:     {applyNetwork, observeNetwork, recordNetwork},
	fleet.NetworkRelease:   {releaseNetwork, observeReleasedNetwork, forgetNetwork},
	fleet.ConsoleOpen:      {withVM(openConsole), observeNoGeneration, recordNothing},
	fleet.VolumeCreate:     {withVolume(hypervisor.Storage.CreateVolume), observeVolume, recordNothing},
	fleet.VolumeGrow:       {withVolume(hypervisor.Storage.GrowVolume), observeVolume, recordNothing},
	fleet.VolumeRename:     {withVolume(hypervisor.Storage.RenameVolume), observeVolume, forgetOldName},
	fleet.VolumeClone:      {withVolume(hypervisor.Storage.CloneVolume), observeVolume, recordNothing},
	fleet.VolumeFetch:      {withVolume(hypervisor.Storage.FetchVolume), observeVolume, recordNothing},
	fleet.VolumeUpload:     {uploadVolume, observeVolume, recordNothing},
	fleet.VolumeRead:       {readVolume, observeNoGeneration, recordNothing},
	fleet.UploadOpen:       {openUpload, observeNoGeneration, recordNothing},
	fleet.VolumeWipe:       {withVolume(hypervisor.Storage.WipeVolume), observeVolume, recordNothing},
	fleet.VolumeDelete:     {withVolume(hypervisor.Storage.DeleteVolume), observeVolume, forgetChecksum},
	fleet.VolumeHash:       {withVolume(hypervisor.Storage.HashVolume), observeVolume, recordNothing},
	fleet.VolumeCopy:       {withVolume(hypervisor.Storage.CopyVolume), observeVolume, recordNothing},
	fleet.VolumeConvert:    {withVolume(hypervisor.Storage.ConvertVolume), observeVolume, recordNothing},
	fleet.VolumeExport:     {withVolume(hypervisor.Storage.ExportVolume), observeVolume, recordNothing},
	fleet.VolumeSend:       {sendVolume, observeNoGeneration, recordNothing},
	fleet.VolumeReceive:    {receiveVolume, observeVolume, recordNothing},
	fleet.VMFreeze:         {withVM(freezeGuest), observeNoChange, recordNothing},
	fleet.VMThaw:           {withVM(thawGuest), observeNoChange, recordNothing},
	fleet.VMPassword:       {withVM(setPassword), observeNoChange, recordNothing},
	fleet.VMClock:          {withVMID(hypervisor.Hypervisor.SyncGuestTime), observeNoChange, recordNothing},
	fleet.VMExec:           {withVM(runInGuest), observeOutput, recordNothing},
	fleet.VMTrim:           {withVMID(hypervisor.Hypervisor.TrimGuest), observeNoChange, recordNothing},
	fleet.VMMigrate:        {withVM(migrateVM), observeVM, recordMigrated},
	fleet.VMSnapshot:       {withSnapshot(hypervisor.Snapshots.TakeSnapshot), observeVM, recordNothing},
	fleet.VMRevert:         {withSnapshot(hypervisor.Snapshots.RevertSnapshot), observeVM, recordReverted},
	fleet.VMSnapshotDelete: {withSnapshot(hypervisor.Snapshots.DeleteSnapshot), observeVM, recordNothing},
	fleet.VMConsolidate:    {withSnapshot(hypervisor.Snapshots.DeleteSnapshot), observeVM, recordNothing},

	fleet.VMDiskMove: {withVM(moveDisk), observeVM, recordMoved},
	fleet.VMPlan:     {withVM(planVM), observePlan, recordNothing},

	fleet.SecurityGroupApply:   {withSecurityGroup(hypervisor.Firewall.ApplySecurityGroup), observeSecurityGroup, recordNothing},
	fleet.SecurityGroupRelease: {withSecurityGroup(hypervisor.Firewall.ReleaseSecurityGroup), observeSecurityGroup, recordNothing},
}

// handlerOf returns the job's handler. A job of an unknown kind fails, and its failure is reported and recorded like
// any other.
func handlerOf(j *job) handler {
	d, known := handlers[j.Kind]
	switch {
	case known:
		return d
	case j.Pool != nil:
		return handler{observe: observePool, record: recordPool}
	case j.Network != nil:
		return handler{observe: observeNetwork, record: recordNetwork}
	}
	return handler{observe: observeVM, record: recordVM}
}

// withVM wraps a handler that needs the job's VM.
func withVM(do func(context.Context, *Agent, *job) error) func(context.Context, *Agent, *job) error {
	return func(ctx context.Context, a *Agent, j *job) error {
		if j.VM == nil {
			return errors.New("the portal sent this job without its VM")
		}
		return do(ctx, a, j)
	}
}

// withVMID returns a handler that calls a hypervisor method with the VM's ID.
func withVMID(call func(hypervisor.Hypervisor, context.Context, fleet.VMID) error) func(context.Context, *Agent, *job) error {
	return withVM(func(ctx context.Context, a *Agent, j *job) error { return call(a.hypervisor, ctx, j.VM.ID) })
}

// withPool returns a handler that calls a hypervisor method with the job's pool.
func withPool(call func(hypervisor.Storage, context.Context, fleet.Pool) error) func(context.Context, *Agent, *job) error {
	return func(ctx context.Context, a *Agent, j *job) error {
		if j.Pool == nil {
			return errors.New("the portal sent this job without its pool")
		}
		return call(a.hypervisor, ctx, *j.Pool)
	}
}

// start applies the spec and starts the guest. The guest may run already, because the agent ended during an earlier
// attempt. Spec changes that a running guest cannot take then wait for the next start and are no failure.
func start(ctx context.Context, a *Agent, j *job) error {
	if err := apply(ctx, a, j); err != nil {
		if !a.runsAsDefined(ctx, j) {
			return err
		}
		a.log.Warn("A VM runs already; some changes of its spec wait for its next start.", "job", j.ID, "vm", j.VM.Name, "error", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, a.times.startLimit, errOverdue)
	defer cancel()
	return withLimitCause(ctx, a.hypervisor.StartVM(ctx, j.VM.ID))
}

// runsAsDefined reports whether the guest is on and its definition has the job's generation.
func (a *Agent) runsAsDefined(ctx context.Context, j *job) bool {
	on := false
	err := a.withCallLimit(ctx, func(ctx context.Context) error {
		status, generation, err := a.hypervisor.VM(ctx, j.VM.ID)
		on = !isOff(status.Power) && generation == j.VM.Generation
		return err
	})
	return err == nil && on
}

// stop first records that a user wants the VM off, so that the restart policy does not start the VM again.
func stop(ctx context.Context, a *Agent, j *job) error {
	if err := a.state.noteStopRequest(j.VM.ID, a.bootID()); err != nil {
		return err
	}
	return a.hypervisor.StopVM(ctx, j.VM.ID)
}

func deleteVM(ctx context.Context, a *Agent, j *job) error {
	return a.hypervisor.DeleteVM(ctx, *j.VM, j.Pools, j.Args.DeleteDisks)
}

func observeVM(ctx context.Context, a *Agent, j *job, out *wire.Finish) {
	if j.VM == nil {
		return
	}
	status, _, err := a.hypervisor.VM(ctx, j.VM.ID)
	if err != nil {
		a.log.Warn("The VM's status after the job cannot be read.", "job", j.ID, "error", err)
		return
	}
	a.state.addToStatus(j.VM.ID, &status, a.bootID())
	a.health.addToStatus(j.VM.ID, &status, a.state.healthActions(j.VM.ID))
	out.VM = &status
}

// observePool adds the pool's state on the host to the job's result. If the host does not report the pool, it adds the
// error of the job.
func observePool(ctx context.Context, a *Agent, j *job, out *wire.Finish) {
	if j.Pool == nil {
		return
	}
	if state, err := a.hypervisor.Snapshot(ctx, hypervisor.Assigned{Pools: []fleet.Pool{*j.Pool}, Checksums: a.state.checksums()}); err == nil && state.Host.Connected {
		state = clone(state)
		a.state.addAgentState(&state, a.bootID())
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

// observeReleasedPool adds the pool's state to the job's result only after a failure: after a release, a pool of that
// name is a different pool.
func observeReleasedPool(ctx context.Context, a *Agent, j *job, out *wire.Finish) {
	if out.Outcome != wire.Done {
		observePool(ctx, a, j, out)
	}
}

// observeNetwork adds the network's state on the host to the job's result. If the host does not report the network, it
// adds the error of the job.
func observeNetwork(ctx context.Context, a *Agent, j *job, out *wire.Finish) {
	if j.Network == nil {
		return
	}
	if state, err := a.hypervisor.Snapshot(ctx, hypervisor.Assigned{Networks: []fleet.Network{*j.Network}}); err == nil && state.Host.Connected {
		state = clone(state)
		a.state.addAgentState(&state, a.bootID())
		a.addLinkStatus(&state, []fleet.Network{*j.Network})
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

// observeReleasedNetwork adds the network's state to the job's result only after a failure.
func observeReleasedNetwork(ctx context.Context, a *Agent, j *job, out *wire.Finish) {
	if out.Outcome != wire.Done {
		observeNetwork(ctx, a, j, out)
	}
}

// observeNoGeneration clears the generation in the job's result, because the job applied no spec.
func observeNoGeneration(_ context.Context, _ *Agent, _ *job, out *wire.Finish) { out.Generation = 0 }

func recordVM(a *Agent, j *job, out *wire.Finish) error { return recordVMResult(a, j, out, false) }

// recordPower is recordVM for jobs that power the guest on or off.
func recordPower(a *Agent, j *job, out *wire.Finish) error { return recordVMResult(a, j, out, true) }

func recordVMResult(a *Agent, j *job, out *wire.Finish, turned bool) error {
	if j.VM == nil {
		return nil
	}
	return a.state.setVMResult(*j.VM, j.Generation, j.Kind, out.Error, turned, a.bootID())
}

func forgetVM(a *Agent, j *job, out *wire.Finish) error {
	if j.VM != nil && out.Outcome == wire.Done {
		return a.state.removeVM(j.VM.ID)
	}
	return recordVM(a, j, out)
}

func recordPool(a *Agent, j *job, out *wire.Finish) error {
	if j.Pool == nil {
		return nil
	}
	return a.state.setPoolResult(j.Pool.Name, out.Error)
}

func recordNetwork(a *Agent, j *job, out *wire.Finish) error {
	if j.Network == nil {
		return nil
	}
	return a.state.setNetworkResult(*j.Network, out.Error, a.bootID())
}

func forgetNetwork(a *Agent, j *job, out *wire.Finish) error {
	if j.Network != nil && out.Outcome == wire.Done {
		return a.state.removeNetwork(j.Network.ID)
	}
	return recordNetwork(a, j, out)
}

// forgetChecksum deletes the checksum of a deleted volume.
func forgetChecksum(a *Agent, j *job, out *wire.Finish) error {
	if ref, ok := j.Subject.Volume(); ok && out.Outcome == wire.Done {
		return a.state.removeChecksum(ref)
	}
	return nil
}

// forgetOldName deletes the checksum under a renamed volume's old name.
func forgetOldName(a *Agent, j *job, out *wire.Finish) error {
	if ref, ok := j.Subject.Volume(); ok && out.Outcome == wire.Done && j.Args.Volume != nil {
		return a.state.removeChecksum(fleet.Volref{PoolID: ref.PoolID, Volume: j.Args.Volume.Source})
	}
	return nil
}

func recordNothing(*Agent, *job, *wire.Finish) error { return nil }
