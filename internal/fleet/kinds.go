package fleet

import "time"

// JobKind names the work of a job on a host.
type JobKind string

const (
	VMApply    JobKind = "vm.apply"    // create or change the definition and disks to match the spec
	VMStart    JobKind = "vm.start"    // apply, then start
	VMShutdown JobKind = "vm.shutdown" // ask the guest to power off, and wait until it has
	VMStop     JobKind = "vm.stop"     // force off
	VMReboot   JobKind = "vm.reboot"   // ask the guest to reboot
	VMReset    JobKind = "vm.reset"    // reset the VM without notice to the guest
	// VMRestart: ask the guest to power off, wait until the VM is off, apply the spec, and start the VM, so that
	// WhenNextBoot changes take effect
	VMRestart      JobKind = "vm.restart"
	VMPause        JobKind = "vm.pause"
	VMResume       JobKind = "vm.resume"
	VMReapply      JobKind = "vm.reapply" // apply and overwrite VMStatus.Drift, or JobArgs.Fields of it, with the spec
	VMDelete       JobKind = "vm.delete"  // undefine; also delete the disks if JobArgs.DeleteDisks is set
	VMRecycle      JobKind = "vm.recycle" // force off and keep off; the VM is in the recycle bin
	PoolApply      JobKind = "pool.apply"
	PoolReapply    JobKind = "pool.reapply" // apply and overwrite PoolStatus.Drift with the spec
	PoolRelease    JobKind = "pool.release" // stop and undefine; data remains
	NetworkApply   JobKind = "network.apply"
	NetworkReapply JobKind = "network.reapply" // apply and overwrite NetworkStatus.Drift with the spec
	NetworkRelease JobKind = "network.release" // stop and undefine
	ConsoleOpen    JobKind = "console.open"
	VMFreeze       JobKind = "vm.freeze"    // freeze the guest's file systems for some seconds
	VMThaw         JobKind = "vm.thaw"      // end a freeze early
	VMPassword     JobKind = "vm.password"  // set the password of a user of the guest
	VMClock        JobKind = "vm.clock"     // set the guest's clock to the host's
	VMExec         JobKind = "vm.exec"      // run a program in the guest
	VMTrim         JobKind = "vm.trim"      // return the guest's unused file system space to the storage
	VMDiskMove     JobKind = "vm.disk.move" // disk migration to another pool of the host, with the VM running or off
	VolumeCreate   JobKind = "volume.create"
	VolumeGrow     JobKind = "volume.grow"
	VolumeRename   JobKind = "volume.rename" // rename a volume in its pool
	VolumeClone    JobKind = "volume.clone"  // copy a volume within its pool
	VolumeFetch    JobKind = "volume.fetch"  // download a file and inspect it before it gets its final name
	VolumeUpload   JobKind = "volume.upload" // receive an upload and inspect it before it gets its final name
	VolumeWipe     JobKind = "volume.wipe"   // overwrite all data with zeros
	VolumeDelete   JobKind = "volume.delete"
	VolumeRead     JobKind = "volume.read" // stream a volume's file to the portal with a waiting client
	UploadOpen     JobKind = "upload.open" // receive the data of a volume.upload from a portal

	SecurityGroupApply   JobKind = "secgroup.apply"   // update a group's rules and member addresses on the NICs of a host
	SecurityGroupRelease JobKind = "secgroup.release" // remove a group from a host that has no NICs in it
	VolumeHash           JobKind = "volume.hash"      // compute a volume's SHA-256
	VolumeCopy           JobKind = "volume.copy"      // copy from another pool or from a VM's disk

	VolumeSend       JobKind = "volume.send"        // send a file to another host
	VolumeReceive    JobKind = "volume.receive"     // receive a file from another host
	VMSnapshot       JobKind = "vm.snapshot"        // take a snapshot
	VMRevert         JobKind = "vm.revert"          // revert to a snapshot
	VMSnapshotDelete JobKind = "vm.snapshot.delete" // delete one snapshot, or one with all its descendants
	VMConsolidate    JobKind = "vm.consolidate"     // merge the data of deleted snapshots

	VolumeConvert JobKind = "volume.convert" // convert a disk of another product, or a disk in an archive, to qcow2
	VolumeExport  JobKind = "volume.export"  // write a VM's disks and description to an archive

	// Jobs on a domain that Quantix does not manage. They do one action and change no definition.
	DiscoveredStart    JobKind = "found.start"
	DiscoveredShutdown JobKind = "found.shutdown" // ask the guest to power off, without waiting until it has
	DiscoveredReboot   JobKind = "found.reboot"   // ask the guest to reboot
	DiscoveredReset    JobKind = "found.reset"
	DiscoveredPause    JobKind = "found.pause"
	DiscoveredResume   JobKind = "found.resume"
	DiscoveredStop     JobKind = "found.stop" // force off
	// DiscoveredAdopt reads the definition of a domain that Quantix does not manage. The portal then makes the VM, and
	// a vm.apply of the same task marks the domain as the VM's.
	DiscoveredAdopt JobKind = "found.adopt"

	VMRelease JobKind = "vm.release" // remove Quantix's metadata from the domain; the guest and all files stay

	// Tasks whose children move, shut down or start the VMs of a host. No host runs a job of these kinds.
	HostMaintenanceEnter JobKind = "host.maintenance.enter"
	HostMaintenanceLeave JobKind = "host.maintenance.leave"

	HostReboot   JobKind = "host.reboot"   // reboot the machine
	HostShutdown JobKind = "host.shutdown" // power the machine off

	HostDiagnose     JobKind = "host.diagnose"      // collect diagnostics of the host, and send them to the portal
	HostAgentLog     JobKind = "host.agent.log"     // send the last lines of the agent's log to the portal
	HostAgentRestart JobKind = "host.agent.restart" // restart the agent; done once the new agent has connected
	HostAgentUpgrade JobKind = "host.agent.upgrade" // replace the agent by a signed release
	// Tasks of a host whose work a portal does.
	HostPowerOn   JobKind = "host.power.on"  // through the BMC
	HostPowerOff  JobKind = "host.power.off" // through the BMC, without a shutdown
	HostReset     JobKind = "host.reset"     // through the BMC
	HostTerminate JobKind = "host.terminate" // parent of the steps: maintenance, power-off, removal
	HostRemoval   JobKind = "host.remove"    // last step of HostTerminate

	VMPlan    JobKind = "vm.plan"    // render the definition that an edit would produce
	VMMigrate JobKind = "vm.migrate" // live or cold migration to another host: see MigrationParams
	VMReceive JobKind = "vm.receive" // receive a running VM from another host

	VMFirmwareReceive JobKind = "vm.firmware.receive" // receive the UEFI variables, TPM state and definition of a VM that is off
	VMFirmwareDiscard JobKind = "vm.firmware.discard" // remove them, because the migration failed
)

// JobKindInfo describes a job kind, except how a host executes it: see the agent's job handlers.
type JobKindInfo struct {
	Name       JobKind
	Type       ResourceType  // resource type of its subject
	Verb       string        // title on pages and buttons: "Shut down"
	Permission Permission    // permission to request and to cancel the job
	Limit      time.Duration // time limit on the host

	TakesSlot          bool  // the job occupies one of the host's job slots. Jobs that wait for a guest and short calls occupy none
	AppliesSpec        bool  // the job updates the definition and the disks from the spec
	Power              Power // requested power state; empty: none. The SQL function ordered_power has the same values
	NewestOnly         bool  // a newer job of such a kind replaces a queued one
	WaitsForGuest      bool  // the job waits for the guest until it ends or another job of the VM arrives
	InterruptsWaits    bool  // the job interrupts jobs that wait for the guest
	UsesGuest          bool  // the job needs the guest's cooperation: a failure is the task's error, not a problem of the VM
	SingleShot         bool  // the job must not run twice: the agent journals it first and, if in doubt, ends it as unknown
	SingleShotWithData bool  // single-shot if the job also deletes data
	CancelledAtOnce    bool  // a cancellation ends the job at once, because it waits for a user; the agent removes the result afterwards
	// Stoppable: a host can stop the running job on request. Only the effect that LeftoverText describes then remains.
	Stoppable    bool
	LeftoverText string // sentence about the effect that remains after the job was stopped
	OnSnapshots  bool   // the job changes snapshots: a VM runs one such job at a time
	// Background: the job does not change its subject. It has no visible task, and it neither waits for other jobs nor
	// blocks them.
	Background bool
	// OnlyParent: the kind of a task with children of other kinds. No host runs a job of this kind.
	OnlyParent bool
	// ByPortal: a portal does the work. No host runs a job of this kind.
	ByPortal bool

	// Reasons why the job cannot be cancelled while it is queued, and after a host has begun it. Empty: the job can be
	// cancelled.
	WhyNotCancellable, WhyNotCancellableOnceBegun string
}

// notCancellable is the refusal for a job that brings a host to the intended state.
const notCancellable = "This task cannot be cancelled: it would be repeated until the host matches the configuration. Change the configuration instead."

// sentToBMC is the refusal for a command that a portal has begun to send.
const sentToBMC = "The portal has already begun to send the command to the BMC, so the task cannot be cancelled."

// mergeLeftover describes what remains after a merge was stopped.
const mergeLeftover = "The snapshot is deleted, but its data remains: consolidate the VM's disks to free the space."

// longCopy limits jobs that write a whole volume: 64 TiB at 1.5 GiB/s. A storage timeout ends a stalled job sooner.
const longCopy = 12 * time.Hour

// kinds lists all job kinds, in the order of filters.
var kinds = []JobKindInfo{
	{Name: VMApply, Type: TypeVM, Verb: "Configure", Permission: MayChangeVMs, Limit: 30 * time.Minute, TakesSlot: true, AppliesSpec: true, WhyNotCancellable: notCancellable},
	{Name: VMStart, Type: TypeVM, Verb: "Start", Permission: MayUseVMs, Limit: 32 * time.Minute, TakesSlot: true, AppliesSpec: true, NewestOnly: true, Power: Running},
	{Name: VMShutdown, Type: TypeVM, Verb: "Shut down", Permission: MayUseVMs, Limit: 4 * time.Minute, NewestOnly: true, Power: Stopped, WaitsForGuest: true},
	{Name: VMStop, Type: TypeVM, Verb: "Force off", Permission: MayUseVMs, Limit: time.Minute, NewestOnly: true, Power: Stopped, InterruptsWaits: true},
	{Name: VMReboot, Type: TypeVM, Verb: "Reboot", Permission: MayUseVMs, Limit: 30 * time.Second, NewestOnly: true, SingleShot: true},
	{
		// TakesSlot is not set, because the job waits for the guest's power-off without a job slot. The agent acquires a slot
		// only for the start that follows.
		Name: VMRestart, Type: TypeVM, Verb: "Restart", Permission: MayUseVMs, Limit: 36 * time.Minute, AppliesSpec: true, NewestOnly: true, Power: Running, WaitsForGuest: true,
	},
	{Name: VMReset, Type: TypeVM, Verb: "Reset", Permission: MayUseVMs, Limit: 30 * time.Second, NewestOnly: true, SingleShot: true, InterruptsWaits: true},
	{Name: VMPause, Type: TypeVM, Verb: "Pause", Permission: MayUseVMs, Limit: 30 * time.Second, NewestOnly: true, Power: Paused},
	{Name: VMResume, Type: TypeVM, Verb: "Resume", Permission: MayUseVMs, Limit: 30 * time.Second, NewestOnly: true, Power: Running},
	{Name: VMReapply, Type: TypeVM, Verb: "Reapply", Permission: MayChangeVMs, Limit: 30 * time.Minute, TakesSlot: true, AppliesSpec: true},
	{
		Name: VMDelete, Type: TypeVM, Verb: "Delete", Permission: MayChangeVMs, Limit: 5 * time.Minute, TakesSlot: true, SingleShotWithData: true,
		WhyNotCancellableOnceBegun: "The host has already begun to delete the VM, so the task cannot be cancelled.",
	},
	{Name: VMRecycle, Type: TypeVM, Verb: "Move to recycle bin", Permission: MayChangeVMs, Limit: time.Minute, InterruptsWaits: true, WhyNotCancellable: "This task cannot be cancelled. Restore the VM from the recycle bin instead."},
	{Name: PoolApply, Type: TypePool, Verb: "Assign pool", Permission: MayChangeInfra, Limit: 2 * time.Minute, TakesSlot: true, WhyNotCancellable: notCancellable},
	{Name: PoolReapply, Type: TypePool, Verb: "Reapply pool", Permission: MayChangeInfra, Limit: 2 * time.Minute, TakesSlot: true},
	{Name: PoolRelease, Type: TypePool, Verb: "Release pool", Permission: MayChangeInfra, Limit: time.Minute, TakesSlot: true, WhyNotCancellable: notCancellable},
	{Name: NetworkApply, Type: TypeNetwork, Verb: "Assign network", Permission: MayChangeInfra, Limit: 2 * time.Minute, TakesSlot: true, WhyNotCancellable: notCancellable},
	{Name: NetworkReapply, Type: TypeNetwork, Verb: "Reapply network", Permission: MayChangeInfra, Limit: 2 * time.Minute, TakesSlot: true},
	{Name: NetworkRelease, Type: TypeNetwork, Verb: "Release network", Permission: MayChangeInfra, Limit: 2 * time.Minute, TakesSlot: true, WhyNotCancellable: notCancellable},
	{Name: SecurityGroupApply, Type: TypeSecurityGroup, Verb: "Apply security group", Permission: MayChangeVMs, Limit: 2 * time.Minute, WhyNotCancellable: notCancellable},
	{Name: SecurityGroupRelease, Type: TypeSecurityGroup, Verb: "Remove security group", Permission: MayChangeVMs, Limit: 2 * time.Minute, WhyNotCancellable: notCancellable},
	{Name: VolumeCreate, Type: TypeVolume, Verb: "Create volume", Permission: MayChangeInfra, Limit: longCopy, TakesSlot: true},
	{Name: VolumeGrow, Type: TypeVolume, Verb: "Grow volume", Permission: MayChangeInfra, Limit: 10 * time.Minute, TakesSlot: true},
	{Name: VolumeRename, Type: TypeVolume, Verb: "Rename volume", Permission: MayChangeInfra, Limit: 10 * time.Minute, TakesSlot: true},
	{Name: VolumeClone, Type: TypeVolume, Verb: "Clone volume", Permission: MayChangeInfra, Limit: longCopy, TakesSlot: true, Stoppable: true},
	{Name: VolumeFetch, Type: TypeVolume, Verb: "Download volume", Permission: MayChangeInfra, Limit: longCopy, TakesSlot: true, Stoppable: true},
	{Name: VolumeUpload, Type: TypeVolume, Verb: "Upload volume", Permission: MayChangeInfra, Limit: UploadLifetime + UploadIdleTimeout, CancelledAtOnce: true},
	{Name: VolumeHash, Type: TypeVolume, Verb: "Verify volume", Permission: MayChangeInfra, Limit: longCopy, TakesSlot: true, Stoppable: true},
	{Name: VolumeCopy, Type: TypeVolume, Verb: "Copy volume", Permission: MayChangeInfra, Limit: longCopy, TakesSlot: true, Stoppable: true},
	{Name: VolumeConvert, Type: TypeVolume, Verb: "Convert disk", Permission: MayChangeVMs, Limit: longCopy, TakesSlot: true, Stoppable: true},
	{Name: VolumeExport, Type: TypeVolume, Verb: "Export VM", Permission: MayChangeVMs, Limit: longCopy, TakesSlot: true, Stoppable: true},
	{Name: VolumeReceive, Type: TypeVolume, Verb: "Copy volume from another host", Permission: MayChangeInfra, Limit: longCopy, Stoppable: true},
	{Name: VolumeSend, Type: TypeVolume, Verb: "Send volume to another host", Permission: MayChangeInfra, Limit: longCopy, Stoppable: true},
	{
		Name: VolumeWipe, Type: TypeVolume, Verb: "Wipe volume", Permission: MayChangeInfra, Limit: longCopy, TakesSlot: true, SingleShotWithData: true, Stoppable: true,
		LeftoverText: "A part of the volume is overwritten, so its content is undefined: wipe the volume again, or delete it.",
	},
	{
		Name: VolumeDelete, Type: TypeVolume, Verb: "Delete volume", Permission: MayChangeInfra, Limit: 10 * time.Minute, TakesSlot: true, SingleShotWithData: true,
		WhyNotCancellableOnceBegun: "The host has already begun to delete the volume, so the task cannot be cancelled.",
	},
	{Name: UploadOpen, Type: TypeVolume, Verb: "Continue upload", Permission: MayChangeInfra, Limit: 10 * time.Second, SingleShot: true, Background: true},
	{Name: VolumeRead, Type: TypeVolume, Verb: "Send volume", Permission: MayChangeInfra, Limit: longCopy, SingleShot: true, Background: true},
	{
		Name: VMSnapshot, Type: TypeVM, Verb: "Take snapshot", Permission: MayChangeVMs, Limit: time.Hour, TakesSlot: true, OnSnapshots: true,
		WhyNotCancellableOnceBegun: "The host has already begun to take the snapshot. Delete the snapshot when it is complete.",
	},
	{
		Name: VMRevert, Type: TypeVM, Verb: "Revert to snapshot", Permission: MayChangeVMs, Limit: time.Hour, TakesSlot: true, OnSnapshots: true,
		WhyNotCancellableOnceBegun: "The host has already begun to revert the VM, so the task cannot be cancelled.",
	},
	{
		Name: VMSnapshotDelete, Type: TypeVM, Verb: "Delete snapshot", Permission: MayChangeVMs, Limit: longCopy, TakesSlot: true, OnSnapshots: true, Stoppable: true,
		LeftoverText: mergeLeftover,
	},
	{
		Name: VMConsolidate, Type: TypeVM, Verb: "Consolidate disks", Permission: MayChangeVMs, Limit: longCopy, TakesSlot: true, OnSnapshots: true, Stoppable: true,
		LeftoverText: mergeLeftover,
	},
	{Name: VMFreeze, Type: TypeVM, Verb: "Freeze file systems", Permission: MayUseVMs, Limit: time.Minute, WaitsForGuest: true, UsesGuest: true},
	{Name: VMThaw, Type: TypeVM, Verb: "Thaw file systems", Permission: MayUseVMs, Limit: time.Minute, WaitsForGuest: true, UsesGuest: true},
	{Name: VMPassword, Type: TypeVM, Verb: "Set a user's password", Permission: MayChangeVMs, Limit: time.Minute, WaitsForGuest: true, UsesGuest: true},
	{Name: VMClock, Type: TypeVM, Verb: "Set the guest's clock", Permission: MayUseVMs, Limit: time.Minute, WaitsForGuest: true, UsesGuest: true},
	{Name: VMTrim, Type: TypeVM, Verb: "Trim file systems", Permission: MayUseVMs, Limit: 11 * time.Minute, WaitsForGuest: true, UsesGuest: true},
	{
		Name: VMExec, Type: TypeVM, Verb: "Run a program", Permission: MayChangeVMs, Limit: MaxExec*time.Second + time.Minute, WaitsForGuest: true, UsesGuest: true, SingleShot: true,
		WhyNotCancellableOnceBegun: "The guest is already running the program, and the guest agent cannot stop it.",
	},
	{Name: VMDiskMove, Type: TypeVM, Verb: "Move disk", Permission: MayChangeInfra, Limit: longCopy, TakesSlot: true, Stoppable: true},
	{Name: VMMigrate, Type: TypeVM, Verb: "Migrate", Permission: MayChangeInfra, Limit: longCopy, Stoppable: true},
	{Name: VMReceive, Type: TypeVM, Verb: "Receive migration", Permission: MayChangeInfra, Limit: longCopy, Stoppable: true},
	{Name: VMFirmwareReceive, Type: TypeVM, Verb: "Receive UEFI variables, TPM state and definition", Permission: MayChangeInfra, Limit: longCopy, Stoppable: true},
	{
		Name: VMFirmwareDiscard, Type: TypeVM, Verb: "Remove received UEFI variables, TPM state and definition", Permission: MayChangeInfra, Limit: time.Minute,
		WhyNotCancellableOnceBegun: "The host has already begun to remove the files, so the task cannot be cancelled.",
	},
	{Name: DiscoveredStart, Type: TypeDiscovered, Verb: "Start discovered VM", Permission: MayChangeInfra, Limit: 2 * time.Minute, TakesSlot: true},
	{Name: DiscoveredShutdown, Type: TypeDiscovered, Verb: "Shut down discovered VM", Permission: MayChangeInfra, Limit: 30 * time.Second},
	{Name: DiscoveredReboot, Type: TypeDiscovered, Verb: "Reboot discovered VM", Permission: MayChangeInfra, Limit: 30 * time.Second, SingleShot: true},
	{Name: DiscoveredReset, Type: TypeDiscovered, Verb: "Reset discovered VM", Permission: MayChangeInfra, Limit: 30 * time.Second, SingleShot: true},
	{Name: DiscoveredPause, Type: TypeDiscovered, Verb: "Pause discovered VM", Permission: MayChangeInfra, Limit: 30 * time.Second},
	{Name: DiscoveredResume, Type: TypeDiscovered, Verb: "Resume discovered VM", Permission: MayChangeInfra, Limit: 30 * time.Second},
	{Name: DiscoveredStop, Type: TypeDiscovered, Verb: "Force off discovered VM", Permission: MayChangeInfra, Limit: time.Minute},
	{Name: HostMaintenanceEnter, Type: TypeHost, Verb: "Enter maintenance", Permission: MayChangeInfra, OnlyParent: true},
	{Name: HostMaintenanceLeave, Type: TypeHost, Verb: "Leave maintenance", Permission: MayChangeInfra, OnlyParent: true},
	{Name: HostReboot, Type: TypeHost, Verb: "Reboot host", Permission: MayChangeInfra, Limit: 30 * time.Second, SingleShot: true},
	{Name: HostShutdown, Type: TypeHost, Verb: "Shut down host", Permission: MayChangeInfra, Limit: 30 * time.Second, SingleShot: true},
	{Name: HostDiagnose, Type: TypeHost, Verb: "Run diagnostics", Permission: MayChangeInfra, Limit: 4 * time.Minute},
	{Name: HostAgentLog, Type: TypeHost, Verb: "Read agent log", Permission: MayChangeInfra, Limit: time.Minute},
	{
		Name: HostAgentRestart, Type: TypeHost, Verb: "Restart agent", Permission: MayChangeInfra, Limit: 30 * time.Second, SingleShot: true,
		WhyNotCancellableOnceBegun: "The agent is already restarting, so the task cannot be cancelled.",
	},
	{
		Name: HostAgentUpgrade, Type: TypeHost, Verb: "Upgrade agent", Permission: MayChangeInfra, Limit: 15 * time.Minute, SingleShot: true,
		WhyNotCancellableOnceBegun: "The host has already begun to upgrade its agent. If the new agent does not report, the host returns to the old one.",
	},
	{Name: HostPowerOn, Type: TypeHost, Verb: "Power on host", Permission: MayChangeInfra, ByPortal: true, WhyNotCancellableOnceBegun: sentToBMC},
	{Name: HostPowerOff, Type: TypeHost, Verb: "Force power off host", Permission: MayChangeInfra, ByPortal: true, WhyNotCancellableOnceBegun: sentToBMC},
	{Name: HostReset, Type: TypeHost, Verb: "Reset host", Permission: MayChangeInfra, ByPortal: true, SingleShot: true, WhyNotCancellableOnceBegun: sentToBMC},
	{Name: HostTerminate, Type: TypeHost, Verb: "Terminate host", Permission: MayChangeInfra, OnlyParent: true},
	{Name: HostRemoval, Type: TypeHost, Verb: "Remove host", Permission: MayChangeInfra, ByPortal: true},
	{Name: DiscoveredAdopt, Type: TypeDiscovered, Verb: "Adopt", Permission: MayChangeInfra, Limit: time.Minute},
	{
		Name: VMRelease, Type: TypeVM, Verb: "Release", Permission: MayChangeInfra, Limit: 2 * time.Minute,
		WhyNotCancellableOnceBegun: "The host has already begun to release the VM, so the task cannot be cancelled.",
	},
	{Name: VMPlan, Type: TypeVM, Verb: "Plan", Permission: MayChangeVMs, Limit: 15 * time.Second, Background: true},
	{Name: ConsoleOpen, Type: TypeVM, Verb: "Open console", Permission: MayUseVMs, Limit: 10 * time.Second, SingleShot: true, Background: true},
}

var kindByName = func() map[JobKind]JobKindInfo {
	named := map[JobKind]JobKindInfo{}
	for _, k := range kinds {
		named[k.Name] = k
	}
	return named
}()

// Info returns the kind's row of the table; the zero value for an unknown kind.
func (k JobKind) Info() JobKindInfo { return kindByName[k] }

// IsKnown reports whether the table has the kind.
func (k JobKind) IsKnown() bool { _, ok := kindByName[k]; return ok }

// IsSingleShot reports whether a job of this kind must never be executed twice. The agent journals such a job before it
// acts and, if in doubt, ends it as unknown. A deletion of data is single-shot too.
func (k JobKind) IsSingleShot(a JobArgs) bool {
	is := k.Info()
	return is.SingleShot || is.SingleShotWithData && a.DeleteDisks
}

// SurvivesAgentRestart reports whether a restart of the agent does not interrupt a running job of this kind: the next
// agent continues it, or it only serves an open connection of a user, who can connect again.
func (i JobKindInfo) SurvivesAgentRestart() bool {
	return i.Background || i.Type == TypeHost || i.WaitsForGuest && !i.SingleShot
}

// JobKindsWhere lists the kinds that satisfy match, in the order of the table.
func JobKindsWhere(match func(JobKindInfo) bool) []JobKind {
	var out []JobKind
	for _, k := range kinds {
		if match(k) {
			out = append(out, k.Name)
		}
	}
	return out
}
