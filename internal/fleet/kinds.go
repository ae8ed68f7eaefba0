package fleet

import "time"

// JobKind says what a job permits a host to do.
type JobKind string

const (
	VMApply        JobKind = "vm.apply"    // make the definition and disks as the spec says
	VMStart        JobKind = "vm.start"    // apply, then start
	VMShutdown     JobKind = "vm.shutdown" // ask the guest to power off, wait for it
	VMStop         JobKind = "vm.stop"     // force off
	VMReboot       JobKind = "vm.reboot"   // ask the guest to restart
	VMReset        JobKind = "vm.reset"    // press the reset button
	VMRestart      JobKind = "vm.restart"  // ask the guest to power off, wait for it, apply and start: what waits for a start then counts
	VMPause        JobKind = "vm.pause"
	VMResume       JobKind = "vm.resume"
	VMReapply      JobKind = "vm.putback" // apply, and undo what somebody changed on the host: VMStatus.Drift
	VMDelete       JobKind = "vm.delete"  // undefine; with its data where Args.DeleteDisks says so
	PoolApply      JobKind = "pool.apply"
	PoolRelease    JobKind = "pool.release" // stop and undefine; data stays
	NetworkApply   JobKind = "network.apply"
	NetworkRelease JobKind = "network.release" // stop and undefine
	ConsoleOpen    JobKind = "console.open"
	VMFreeze       JobKind = "vm.freeze"   // nothing is written to the guest's file systems, for some seconds
	VMThaw         JobKind = "vm.thaw"     // the same undone before
	VMPassword     JobKind = "vm.password" // of a user of the guest
	VMClock        JobKind = "vm.clock"    // the guest's, set to the host's
	VMExec         JobKind = "vm.exec"     // a program in the guest
	VMTrim         JobKind = "vm.trim"     // storage gets back what the guest's file systems do not use
	VMDiskMove     JobKind = "vm.move"     // a disk into another pool of the host, running or not
	VolumeCreate   JobKind = "volume.create"
	VolumeGrow     JobKind = "volume.grow"
	VolumeRename   JobKind = "volume.rename" // another name for a volume, in its pool
	VolumeClone    JobKind = "volume.clone"  // a copy of another volume of the pool
	VolumeFetch    JobKind = "volume.fetch"  // a download from elsewhere, inspected before it gets its name
	VolumeUpload   JobKind = "volume.upload" // what somebody sends, inspected before it gets its name
	VolumeWipe     JobKind = "volume.wipe"   // zeros in the place of all that is in it
	VolumeDelete   JobKind = "volume.delete"
	VolumeRead     JobKind = "volume.read" // bring its file to a portal where somebody waits for it
	UploadOpen     JobKind = "upload.open" // fetch what somebody sends for a volume.upload at a portal

	SecurityGroupApply   JobKind = "secgroup.apply"   // bring its rules, with the addresses of members, to the cards of a host
	SecurityGroupRelease JobKind = "secgroup.release" // no card of the host is in it any more
	VolumeHash           JobKind = "volume.hash"      // its SHA-256
	VolumeCopy           JobKind = "volume.copy"      // byte by byte from another pool, or from a VM's disk

	VolumeSend       JobKind = "volume.send"        // a host's file, to another host
	VolumeReceive    JobKind = "volume.receive"     // the same, where it comes
	VMSnapshot       JobKind = "vm.snapshot"        // keep the VM as it is now
	VMRevert         JobKind = "vm.revert"          // bring it back to a snapshot
	VMSnapshotDelete JobKind = "vm.snapshot.delete" // one, or one with all that came after it
	VMConsolidate    JobKind = "vm.consolidate"     // merge what deleted snapshots left

	VolumeConvert JobKind = "volume.convert" // a disk of another product, or one out of an archive, as qcow2
	VolumeExport  JobKind = "volume.export"  // a VM's disks and what it is, as an archive

	VMPlan    JobKind = "vm.plan"  // say what the definition would become
	VMMigrate JobKind = "vm.leave" // a VM that is off goes to another host: its disks are sent, then its definition goes
)

// Kind is all that is decided about a kind of job, but how a host does it: that is the agent's duty for it.
type Kind struct {
	Name       JobKind
	Type       ResourceType  // what it is about
	Verb       string        // as people read it and as its button says it: "Shut down"
	Permission Permission    // that ordering it takes, and so taking it back
	Limit      time.Duration // that it may take in all on the host

	Slot       bool  // it takes one of the host's slots. Waiting for a guest and short calls take none
	Applies    bool  // it makes the definition and the disks as the spec says
	Power      Power // that it brings the VM to; empty: it asks for none. The SQL function ordered_power is the same column
	NewestOnly bool  // one of the orders of which only the newest counts: a waiting one gives way to the next
	Waits      bool  // for the guest, as long as no other work of the VM comes
	Forces     bool  // it breaks off what waits for the guest
	Guest      bool  // it asks the guest for something: what fails of it is no trouble of the VM's, but of the task alone
	SingleShot bool  // never to be done twice: journalled before acting and, on doubt, ended as unknown
	ShotByData bool  // single-shot where data goes with it
	TakenBack  bool  // it waits for people, and ends at once when it is taken back: what came of it is removed behind that
	// Stoppable: a host that has begun it ends it when asked to, and leaves all as it was, but for what Left tells.
	Stoppable bool
	Left      string // what a host that was stopped cannot undo, in a sentence
	Snapshots bool   // it is about the VM's snapshots, of which one is at work at a time
	Aside     bool   // it changes nothing of its subject: no task that people see, it waits for no other work and none for it

	// Why it cannot be taken back while it waits, and why not once a host has begun it; empty: it can.
	Stands, Begun string
}

// comesAgain is why what brings a host to the intent that people gave cannot be taken back.
const comesAgain = "This task cannot be cancelled: it would come again until the host is as people asked for. Change what is asked for instead."

// snapshotLeft is what a merge that was stopped leaves.
const snapshotLeft = "What was deleted is no snapshot any more, and its data is kept: consolidate the VM's disks to free its room."

// longCopy is for what writes all of a volume: 64 TiB at 1.5 GiB/s. Storage that does not answer ends it sooner.
const longCopy = 12 * time.Hour

// kinds is the table, in the order in which people choose from them.
var kinds = []Kind{
	{Name: VMApply, Type: TypeVM, Verb: "Configure", Permission: MayChangeVMs, Limit: 30 * time.Minute, Slot: true, Applies: true, Stands: comesAgain},
	{Name: VMStart, Type: TypeVM, Verb: "Start", Permission: MayUseVMs, Limit: 32 * time.Minute, Slot: true, Applies: true, NewestOnly: true, Power: Running},
	{Name: VMShutdown, Type: TypeVM, Verb: "Shut down", Permission: MayUseVMs, Limit: 4 * time.Minute, NewestOnly: true, Power: Stopped, Waits: true},
	{Name: VMStop, Type: TypeVM, Verb: "Force off", Permission: MayUseVMs, Limit: time.Minute, NewestOnly: true, Power: Stopped, Forces: true},
	{Name: VMReboot, Type: TypeVM, Verb: "Reboot", Permission: MayUseVMs, Limit: 30 * time.Second, NewestOnly: true, SingleShot: true},
	{
		// Its wait for the guest takes no slot; its start takes one all the same, like any.
		Name: VMRestart, Type: TypeVM, Verb: "Restart", Permission: MayUseVMs, Limit: 36 * time.Minute, Applies: true, NewestOnly: true, Power: Running, Waits: true,
	},
	{Name: VMReset, Type: TypeVM, Verb: "Reset", Permission: MayUseVMs, Limit: 30 * time.Second, NewestOnly: true, SingleShot: true, Forces: true},
	{Name: VMPause, Type: TypeVM, Verb: "Pause", Permission: MayUseVMs, Limit: 30 * time.Second, NewestOnly: true, Power: Paused},
	{Name: VMResume, Type: TypeVM, Verb: "Resume", Permission: MayUseVMs, Limit: 30 * time.Second, NewestOnly: true, Power: Running},
	{Name: VMReapply, Type: TypeVM, Verb: "Put back", Permission: MayChangeVMs, Limit: 30 * time.Minute, Slot: true, Applies: true},
	{
		Name: VMDelete, Type: TypeVM, Verb: "Delete", Permission: MayChangeVMs, Limit: 5 * time.Minute, Slot: true, ShotByData: true,
		Begun: "The host has begun to delete the VM already, so this cannot be taken back.",
	},
	{Name: PoolApply, Type: TypePool, Verb: "Assign pool", Permission: MayChangeInfra, Limit: 2 * time.Minute, Slot: true, Stands: comesAgain},
	{Name: PoolRelease, Type: TypePool, Verb: "Release pool", Permission: MayChangeInfra, Limit: time.Minute, Slot: true, Stands: comesAgain},
	{Name: NetworkApply, Type: TypeNetwork, Verb: "Assign network", Permission: MayChangeInfra, Limit: 2 * time.Minute, Slot: true, Stands: comesAgain},
	{Name: NetworkRelease, Type: TypeNetwork, Verb: "Release network", Permission: MayChangeInfra, Limit: 2 * time.Minute, Slot: true, Stands: comesAgain},
	{Name: SecurityGroupApply, Type: TypeSecurityGroup, Verb: "Apply security group", Permission: MayChangeVMs, Limit: 2 * time.Minute, Stands: comesAgain},
	{Name: SecurityGroupRelease, Type: TypeSecurityGroup, Verb: "Remove security group", Permission: MayChangeVMs, Limit: 2 * time.Minute, Stands: comesAgain},
	{Name: VolumeCreate, Type: TypeVolume, Verb: "Create volume", Permission: MayChangeInfra, Limit: longCopy, Slot: true},
	{Name: VolumeGrow, Type: TypeVolume, Verb: "Grow volume", Permission: MayChangeInfra, Limit: 10 * time.Minute, Slot: true},
	{Name: VolumeRename, Type: TypeVolume, Verb: "Rename volume", Permission: MayChangeInfra, Limit: 10 * time.Minute, Slot: true},
	{Name: VolumeClone, Type: TypeVolume, Verb: "Clone volume", Permission: MayChangeInfra, Limit: longCopy, Slot: true, Stoppable: true},
	{Name: VolumeFetch, Type: TypeVolume, Verb: "Download volume", Permission: MayChangeInfra, Limit: longCopy, Slot: true, Stoppable: true},
	{Name: VolumeUpload, Type: TypeVolume, Verb: "Upload volume", Permission: MayChangeInfra, Limit: UploadLife + UploadPatience, TakenBack: true},
	{Name: VolumeHash, Type: TypeVolume, Verb: "Verify volume", Permission: MayChangeInfra, Limit: longCopy, Slot: true, Stoppable: true},
	{Name: VolumeCopy, Type: TypeVolume, Verb: "Copy volume", Permission: MayChangeInfra, Limit: longCopy, Slot: true, Stoppable: true},
	{Name: VolumeConvert, Type: TypeVolume, Verb: "Convert disk", Permission: MayChangeVMs, Limit: longCopy, Slot: true, Stoppable: true},
	{Name: VolumeExport, Type: TypeVolume, Verb: "Export VM", Permission: MayChangeVMs, Limit: longCopy, Slot: true, Stoppable: true},
	{Name: VolumeReceive, Type: TypeVolume, Verb: "Copy volume from another host", Permission: MayChangeInfra, Limit: longCopy, Stoppable: true},
	{Name: VolumeSend, Type: TypeVolume, Verb: "Send volume to another host", Permission: MayChangeInfra, Limit: longCopy, Stoppable: true},
	{
		Name: VolumeWipe, Type: TypeVolume, Verb: "Wipe volume", Permission: MayChangeInfra, Limit: longCopy, Slot: true, ShotByData: true, Stoppable: true,
		Left: "What was written over by then is gone, so the volume's content is undefined: wipe it again, or delete it.",
	},
	{
		Name: VolumeDelete, Type: TypeVolume, Verb: "Delete volume", Permission: MayChangeInfra, Limit: 10 * time.Minute, Slot: true, ShotByData: true,
		Begun: "The host has begun to delete the volume already, so this cannot be taken back.",
	},
	{Name: UploadOpen, Type: TypeVolume, Verb: "Continue upload", Permission: MayChangeInfra, Limit: 10 * time.Second, SingleShot: true, Aside: true},
	{Name: VolumeRead, Type: TypeVolume, Verb: "Send volume", Permission: MayChangeInfra, Limit: longCopy, SingleShot: true, Aside: true},
	{
		Name: VMSnapshot, Type: TypeVM, Verb: "Take snapshot", Permission: MayChangeVMs, Limit: time.Hour, Slot: true, Snapshots: true,
		Begun: "The host has begun to take the snapshot already. Delete it when it is there.",
	},
	{
		Name: VMRevert, Type: TypeVM, Verb: "Revert to snapshot", Permission: MayChangeVMs, Limit: time.Hour, Slot: true, Snapshots: true,
		Begun: "The host has begun to bring the VM back already, so this cannot be taken back.",
	},
	{
		Name: VMSnapshotDelete, Type: TypeVM, Verb: "Delete snapshot", Permission: MayChangeVMs, Limit: longCopy, Slot: true, Snapshots: true, Stoppable: true,
		Left: snapshotLeft,
	},
	{
		Name: VMConsolidate, Type: TypeVM, Verb: "Consolidate disks", Permission: MayChangeVMs, Limit: longCopy, Slot: true, Snapshots: true, Stoppable: true,
		Left: snapshotLeft,
	},
	{Name: VMFreeze, Type: TypeVM, Verb: "Freeze file systems", Permission: MayUseVMs, Limit: time.Minute, Waits: true, Guest: true},
	{Name: VMThaw, Type: TypeVM, Verb: "Thaw file systems", Permission: MayUseVMs, Limit: time.Minute, Waits: true, Guest: true},
	{Name: VMPassword, Type: TypeVM, Verb: "Set a user's password", Permission: MayChangeVMs, Limit: time.Minute, Waits: true, Guest: true},
	{Name: VMClock, Type: TypeVM, Verb: "Set the guest's clock", Permission: MayUseVMs, Limit: time.Minute, Waits: true, Guest: true},
	{Name: VMTrim, Type: TypeVM, Verb: "Trim file systems", Permission: MayUseVMs, Limit: 11 * time.Minute, Waits: true, Guest: true},
	{
		Name: VMExec, Type: TypeVM, Verb: "Run a program", Permission: MayChangeVMs, Limit: MaxExec*time.Second + time.Minute, Waits: true, Guest: true, SingleShot: true,
		Begun: "The guest runs the program already, and its agent cannot end it.",
	},
	{Name: VMDiskMove, Type: TypeVM, Verb: "Move disk", Permission: MayChangeInfra, Limit: longCopy, Slot: true, Stoppable: true},
	{Name: VMMigrate, Type: TypeVM, Verb: "Move to another host", Permission: MayChangeInfra, Limit: longCopy, Stoppable: true},
	{Name: VMPlan, Type: TypeVM, Verb: "Plan", Permission: MayChangeVMs, Limit: 15 * time.Second, Aside: true},
	{Name: ConsoleOpen, Type: TypeVM, Verb: "Open console", Permission: MayUseVMs, Limit: 10 * time.Second, SingleShot: true, Aside: true},
}

var kindNamed = func() map[JobKind]Kind {
	named := map[JobKind]Kind{}
	for _, k := range kinds {
		named[k.Name] = k
	}
	return named
}()

// Is is the kind's line in the table; that of an unknown kind is empty.
func (k JobKind) Is() Kind { return kindNamed[k] }

// Known reports whether the table has the kind.
func (k JobKind) Known() bool { _, ok := kindNamed[k]; return ok }

// SingleShot reports whether a job of this kind must never be done twice: the agent journals it before acting and, on
// doubt, ends it as unknown. Deleting data is single-shot too.
func (k JobKind) SingleShot(a JobArgs) bool {
	is := k.Is()
	return is.SingleShot || is.ShotByData && a.DeleteDisks
}

// KindsWhere lists the kinds that are so, in the table's order.
func KindsWhere(so func(Kind) bool) []JobKind {
	var out []JobKind
	for _, k := range kinds {
		if so(k) {
			out = append(out, k.Name)
		}
	}
	return out
}
