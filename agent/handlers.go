package agent

import (
	"context"
	"errors"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// jobHandler runs one kind of job on this agent.
type jobHandler struct {
	run func(context.Context, *Agent, *job) error
	// addStatus runs after the job and adds the state of the job's object on the host to the job's result.
	addStatus   func(context.Context, *Agent, *job, *wire.Finish)
	recordState func(*Agent, *job, *wire.Finish) error // records state that later reports must contain
}

var jobHandlers = map[fleet.JobKind]jobHandler{
	fleet.VMApply:           {vmHandler(applyVM), addVMStatus, recordVM},
	fleet.VMReapply:         {vmHandler(reapplyVM), addVMStatus, recordVM},
	fleet.VMStart:           {vmHandler(startVM), addVMStatus, recordVMPower},
	fleet.VMShutdown:        {vmHandler(shutdownVM), addVMStatus, recordVMPower},
	fleet.VMStop:            {vmHandler(stopVM), addVMStatus, recordVMPower},
	fleet.VMRestart:         {vmHandler(restartVM), addVMStatus, recordVMPower},
	fleet.VMReboot:          {vmIDHandler(hypervisor.Hypervisor.RebootVM), addVMStatus, recordVM},
	fleet.VMReset:           {vmIDHandler(hypervisor.Hypervisor.ResetVM), addVMStatus, recordVM},
	fleet.VMPause:           {vmIDHandler(hypervisor.Hypervisor.PauseVM), addVMStatus, recordVM},
	fleet.VMResume:          {vmIDHandler(hypervisor.Hypervisor.ResumeVM), addVMStatus, recordVM},
	fleet.VMDelete:          {vmHandler(deleteVM), addVMStatus, forgetVM},
	fleet.VMRecycle:         {vmHandler(recycleVM), addVMStatus, recordVMPower},
	fleet.PoolApply:         {poolSetUpHandler(hypervisor.Storage.ApplyPool), addPoolStatus, recordPool},
	fleet.PoolReapply:       {poolSetUpHandler(hypervisor.Storage.ReapplyPool), addPoolStatus, recordPool},
	fleet.PoolRelease:       {poolHandler(hypervisor.Storage.ReleasePool), addReleasedPoolStatus, recordPool},
	fleet.NetworkApply:      {networkHandler(hypervisor.Networks.ApplyNetwork), addNetworkStatus, recordNetwork},
	fleet.NetworkReapply:    {networkHandler(hypervisor.Networks.ReapplyNetwork), addNetworkStatus, recordNetwork},
	fleet.NetworkRelease:    {releaseNetwork, addReleasedNetworkStatus, forgetNetwork},
	fleet.ConsoleOpen:       {openConsole, clearGeneration, recordNothing},
	fleet.VolumeCreate:      {volumeHandler(hypervisor.Storage.CreateVolume), addVolumePoolStatus, recordNothing},
	fleet.VolumeGrow:        {volumeHandler(hypervisor.Storage.GrowVolume), addVolumePoolStatus, recordNothing},
	fleet.VolumeRename:      {volumeHandler(hypervisor.Storage.RenameVolume), addVolumePoolStatus, forgetOldVolumeChecksum},
	fleet.VolumeClone:       {volumeHandler(hypervisor.Storage.CloneVolume), addVolumePoolStatus, recordNothing},
	fleet.VolumeFetch:       {volumeHandler(hypervisor.Storage.FetchVolume), addVolumePoolStatus, recordNothing},
	fleet.VolumeUpload:      {uploadVolume, addVolumePoolStatus, recordNothing},
	fleet.VolumeRead:        {readVolume, clearGeneration, recordNothing},
	fleet.UploadOpen:        {openUpload, clearGeneration, recordNothing},
	fleet.VolumeWipe:        {volumeHandler(hypervisor.Storage.WipeVolume), addVolumePoolStatus, recordNothing},
	fleet.VolumeDelete:      {volumeHandler(hypervisor.Storage.DeleteVolume), addVolumePoolStatus, forgetVolumeChecksum},
	fleet.VolumeHash:        {volumeHandler(hypervisor.Storage.HashVolume), addVolumePoolStatus, recordNothing},
	fleet.VolumeCopy:        {volumeHandler(hypervisor.Storage.CopyVolume), addVolumePoolStatus, recordNothing},
	fleet.VolumeConvert:     {volumeHandler(hypervisor.Storage.ConvertVolume), addVolumePoolStatus, recordNothing},
	fleet.VolumeExport:      {volumeHandler(hypervisor.Storage.ExportVolume), addVolumePoolStatus, recordNothing},
	fleet.VolumeSend:        {sendVolume, clearGeneration, recordNothing},
	fleet.VolumeReceive:     {receiveVolume, addVolumePoolStatus, recordNothing},
	fleet.VMFreeze:          {vmHandler(freezeGuest), addNoStatus, recordNothing},
	fleet.VMThaw:            {vmHandler(thawGuest), addNoStatus, recordNothing},
	fleet.VMPassword:        {vmHandler(setGuestPassword), addNoStatus, recordNothing},
	fleet.VMClock:           {vmIDHandler(hypervisor.Hypervisor.SyncGuestTime), addNoStatus, recordNothing},
	fleet.VMExec:            {vmHandler(runGuestProgram), addProgramOutput, recordNothing},
	fleet.VMTrim:            {vmIDHandler(hypervisor.Hypervisor.TrimGuest), addNoStatus, recordNothing},
	fleet.VMMigrate:         {vmHandler(migrateVM), addVMStatus, recordMigration},
	fleet.VMReceive:         {vmHandler(receiveVM), addReceivedVMStatus, recordNothing},
	fleet.VMFirmwareReceive: {receiveFirmware, clearGeneration, recordNothing},
	fleet.VMFirmwareDiscard: {discardFirmware, clearGeneration, recordNothing},
	fleet.VMSnapshot:        {snapshotHandler(hypervisor.Snapshots.TakeSnapshot), addVMStatus, recordNothing},
	fleet.VMRevert:          {snapshotHandler(hypervisor.Snapshots.RevertSnapshot), addVMStatus, recordRevert},
	fleet.VMSnapshotDelete:  {snapshotHandler(hypervisor.Snapshots.DeleteSnapshot), addVMStatus, recordNothing},
	fleet.VMConsolidate:     {snapshotHandler(hypervisor.Snapshots.DeleteSnapshot), addVMStatus, recordNothing},

	fleet.VMDiskMove: {vmHandler(moveDisk), addVMStatus, recordDiskMove},
	fleet.VMPlan:     {vmHandler(planVM), addPlan, recordNothing},

	fleet.DiscoveredStart:    {discoveredVMHandler(fleet.ActStart), clearGeneration, recordNothing},
	fleet.DiscoveredShutdown: {discoveredVMHandler(fleet.ActShutdown), clearGeneration, recordNothing},
	fleet.DiscoveredReboot:   {discoveredVMHandler(fleet.ActReboot), clearGeneration, recordNothing},
	fleet.DiscoveredReset:    {discoveredVMHandler(fleet.ActReset), clearGeneration, recordNothing},
	fleet.DiscoveredPause:    {discoveredVMHandler(fleet.ActPause), clearGeneration, recordNothing},
	fleet.DiscoveredResume:   {discoveredVMHandler(fleet.ActResume), clearGeneration, recordNothing},
	fleet.DiscoveredStop:     {discoveredVMHandler(fleet.ActStop), clearGeneration, recordNothing},

	fleet.HostReboot:       {powerHost, clearGeneration, recordNothing},
	fleet.HostShutdown:     {powerHost, clearGeneration, recordNothing},
	fleet.HostDiagnose:     {runDiagnostics, clearGeneration, recordNothing},
	fleet.HostAgentLog:     {sendAgentLog, clearGeneration, recordNothing},
	fleet.HostAgentRestart: {restartAgent, clearGeneration, recordNothing},
	fleet.HostAgentUpgrade: {upgradeAgent, clearGeneration, recordNothing},
	fleet.DiscoveredAdopt:  {readUnmanagedVM, addAdoptableVM, recordNothing},
	fleet.VMRelease:        {vmHandler(releaseVM), addVMStatus, forgetVM},

	fleet.SecurityGroupApply:   {securityGroupHandler(hypervisor.Firewall.ApplySecurityGroup), addSecurityGroupStatus, recordNothing},
	fleet.SecurityGroupRelease: {securityGroupHandler(hypervisor.Firewall.ReleaseSecurityGroup), addSecurityGroupStatus, recordNothing},
}

// handlerOfJob returns the job's handler. A job of an unknown kind fails, and its failure is reported and recorded like
// any other.
func handlerOfJob(j *job) jobHandler {
	d, known := jobHandlers[j.Kind]
	switch {
	case known:
		return d
	case j.Pool != nil:
		return jobHandler{addStatus: addPoolStatus, recordState: recordPool}
	case j.Network != nil:
		return jobHandler{addStatus: addNetworkStatus, recordState: recordNetwork}
	}
	return jobHandler{addStatus: addVMStatus, recordState: recordVM}
}

// vmHandler wraps a handler that needs the job's VM.
func vmHandler(do func(context.Context, *Agent, *job) error) func(context.Context, *Agent, *job) error {
	return func(ctx context.Context, a *Agent, j *job) error {
		if j.VM == nil {
			return errors.New("the portal sent this job without its VM")
		}
		return do(ctx, a, j)
	}
}

// vmIDHandler returns a handler that calls a hypervisor method with the VM's ID.
func vmIDHandler(call func(hypervisor.Hypervisor, context.Context, fleet.VMID) error) func(context.Context, *Agent, *job) error {
	return vmHandler(func(ctx context.Context, a *Agent, j *job) error { return call(a.hypervisor, ctx, j.VM.ID) })
}

// discoveredVMHandler returns a handler that does a power action to a domain that Quantix does not manage. The host's
// next report has the domain's new state.
func discoveredVMHandler(act fleet.Action) func(context.Context, *Agent, *job) error {
	return func(ctx context.Context, a *Agent, j *job) error {
		id, ok := j.Subject.DiscoveredVM()
		if !ok {
			return errors.New("the portal sent this job without its VM")
		}
		return a.hypervisor.ControlUnmanagedVM(ctx, id, act)
	}
}

// readUnmanagedVM reads the definition of a domain that Quantix does not manage.
func readUnmanagedVM(ctx context.Context, a *Agent, j *job) error {
	id, ok := j.Subject.DiscoveredVM()
	if !ok {
		return errors.New("the portal sent this job without its VM")
	}
	vm, err := a.hypervisor.ReadUnmanagedVM(ctx, id, j.Pools)
	if err == nil {
		j.adoptable = &vm
	}
	return err
}

func addAdoptableVM(ctx context.Context, a *Agent, j *job, out *wire.Finish) {
	clearGeneration(ctx, a, j, out)
	out.Adoptable = j.adoptable
}

func releaseVM(ctx context.Context, a *Agent, j *job) error {
	return a.hypervisor.ReleaseVM(ctx, *j.VM)
}

// poolHandler returns a handler that calls a hypervisor method with the job's pool.
func poolHandler(call func(hypervisor.Storage, context.Context, fleet.Pool) error) func(context.Context, *Agent, *job) error {
	return func(ctx context.Context, a *Agent, j *job) error {
		if j.Pool == nil {
			return errors.New("the portal sent this job without its pool")
		}
		return call(a.hypervisor, ctx, *j.Pool)
	}
}

// startVM applies the spec and starts the guest. The guest may run already, because the agent ended during an earlier
// attempt. Spec changes that a running guest cannot take then wait for the next start and are no failure.
func startVM(ctx context.Context, a *Agent, j *job) error {
	if err := applyVM(ctx, a, j); err != nil {
		if !a.isRunningAsDefined(ctx, j) {
			return err
		}
		a.log.Warn("A VM runs already; some changes of its spec wait for its next start.", "job", j.ID, "vm", j.VM.Name, "error", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, a.timing.startLimit, errCallTimedOut)
	defer cancel()
	return addContextCause(ctx, a.hypervisor.StartVM(ctx, j.VM.ID))
}

// isRunningAsDefined reports whether the guest is on and its definition has the job's generation.
func (a *Agent) isRunningAsDefined(ctx context.Context, j *job) bool {
	on := false
	err := a.withCallTimeout(ctx, func(ctx context.Context) error {
		status, generation, err := a.hypervisor.VM(ctx, j.VM.ID)
		on = !isOff(status.Power) && generation == j.VM.Generation
		return err
	})
	return err == nil && on
}

// stopVM first records that a user wants the VM off, so that the restart policy does not start the VM again.
func stopVM(ctx context.Context, a *Agent, j *job) error {
	if err := a.state.recordStopRequest(j.VM.ID, a.bootID()); err != nil {
		return err
	}
	return a.hypervisor.StopVM(ctx, j.VM.ID)
}

// recycleVM powers off a VM in the recycle bin, and keeps it off also after a boot of the host. A VM that the host does
// not have is off.
func recycleVM(ctx context.Context, a *Agent, j *job) error {
	if err := a.state.recordVMBegun(*j.VM); err != nil {
		return err
	}
	if err := a.state.updateVM(j.VM.ID, func(k *vmState) { k.Recycled = true }); err != nil {
		return err
	}
	if err := a.state.recordStopRequest(j.VM.ID, a.bootID()); err != nil {
		return err
	}
	if status, _, err := a.hypervisor.VM(ctx, j.VM.ID); err != nil || status.Power == fleet.Absent {
		return err
	}
	return a.hypervisor.RecycleVM(ctx, j.VM.ID)
}

func deleteVM(ctx context.Context, a *Agent, j *job) error {
	if j.Args.OnlyIfOff {
		status, _, err := a.hypervisor.VM(ctx, j.VM.ID)
		if err == nil && !isOff(status.Power) {
			err = fleet.Errorf(fleet.Conflict, "The VM runs, so it is not deleted. Shut its guest down first.")
		}
		if err != nil {
			return err
		}
	}
	return a.hypervisor.DeleteVM(ctx, *j.VM, j.Pools, j.Args.DeleteDisks)
}

func addVMStatus(ctx context.Context, a *Agent, j *job, out *wire.Finish) {
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

// addReceivedVMStatus adds the VM's status without a generation, because the old host applied the spec.
func addReceivedVMStatus(ctx context.Context, a *Agent, j *job, out *wire.Finish) {
	addVMStatus(ctx, a, j, out)
	clearGeneration(ctx, a, j, out)
}

// addPoolStatus adds the pool's state on the host to the job's result. If the host does not report the pool, it adds
// the error of the job.
func addPoolStatus(ctx context.Context, a *Agent, j *job, out *wire.Finish) {
	if j.Pool == nil {
		return
	}
	if state, err := a.hypervisor.HostState(ctx, hypervisor.Assignment{Assigned: hypervisor.Assigned{Pools: []fleet.Pool{*j.Pool}}, Checksums: a.state.checksums()}); err == nil && state.Host.Connected {
		state = cloneLists(state)
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

// addReleasedPoolStatus adds the pool's state to the job's result only after a failure: after a release, a pool of that
// name is a different pool.
func addReleasedPoolStatus(ctx context.Context, a *Agent, j *job, out *wire.Finish) {
	if out.Outcome != wire.Done {
		addPoolStatus(ctx, a, j, out)
	}
}

// addNetworkStatus adds the network's state on the host to the job's result. If the host does not report the network,
// it adds the error of the job.
func addNetworkStatus(ctx context.Context, a *Agent, j *job, out *wire.Finish) {
	if j.Network == nil {
		return
	}
	if state, err := a.hypervisor.HostState(ctx, hypervisor.Assignment{Assigned: hypervisor.Assigned{Networks: []fleet.Network{*j.Network}}}); err == nil && state.Host.Connected {
		state = cloneLists(state)
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

// addReleasedNetworkStatus adds the network's state to the job's result only after a failure.
func addReleasedNetworkStatus(ctx context.Context, a *Agent, j *job, out *wire.Finish) {
	if out.Outcome != wire.Done {
		addNetworkStatus(ctx, a, j, out)
	}
}

// clearGeneration clears the generation in the job's result, because the job applied no spec.
func clearGeneration(_ context.Context, _ *Agent, _ *job, out *wire.Finish) { out.Generation = 0 }

func recordVM(a *Agent, j *job, out *wire.Finish) error { return recordVMResult(a, j, out, false) }

// recordVMPower is recordVM for jobs that power the guest on or off.
func recordVMPower(a *Agent, j *job, out *wire.Finish) error { return recordVMResult(a, j, out, true) }

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

// forgetVolumeChecksum deletes the checksum of a deleted volume.
func forgetVolumeChecksum(a *Agent, j *job, out *wire.Finish) error {
	if ref, ok := j.Subject.Volume(); ok && out.Outcome == wire.Done {
		return a.state.removeChecksum(ref)
	}
	return nil
}

// forgetOldVolumeChecksum deletes the checksum under a renamed volume's old name.
func forgetOldVolumeChecksum(a *Agent, j *job, out *wire.Finish) error {
	if ref, ok := j.Subject.Volume(); ok && out.Outcome == wire.Done && j.Args.Volume != nil {
		return a.state.removeChecksum(fleet.Volref{PoolID: ref.PoolID, Volume: j.Args.Volume.Source})
	}
	return nil
}

func recordNothing(*Agent, *job, *wire.Finish) error { return nil }
