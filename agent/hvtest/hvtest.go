// Package hvtest is the one conformance suite that every agent.Hypervisor must pass: what the methods of the interface
// mean, as tests. A backend's own test fills a Harness for its host and calls Run.
package hvtest

import (
	"slices"
	"testing"

	"quantix/agent"
	"quantix/internal/fleet"
)

// Harness gives the suite one host to work on, and the hands that reach it past the backend under test.
// What the functions make, they remove again by t.Cleanup. A nil function skips the tests that need it; only those
// marked optional may be nil.
type Harness struct {
	// Open opens the backend. Every call opens the same host anew, as a restarted agent does. The suite closes it.
	Open func(t *testing.T) agent.Hypervisor

	// PoolPath returns a new absolute path at which a directory pool can be made. The directory need not exist.
	PoolPath func(t *testing.T) string

	// FailingPool returns a pool that cannot be started on this host, and a part of the words that the host says about it.
	FailingPool func(t *testing.T) (spec fleet.PoolSpec, words string)

	// BadPath is a path at which the host's agent lets no pool be.
	BadPath string

	// Misplace lets the pool's directory not be what it was, until back.
	Misplace func(t *testing.T, pool fleet.Pool, how Misplacement) (back func())

	// AddImage puts a volume into a pool that the suite has applied, as a person does who copies a file there.
	AddImage func(t *testing.T, pool fleet.Pool, image Image)

	// Physical is a whole disk of the host, by its name in a spec; use has the host use it itself, until release.
	Physical func(t *testing.T) (device string, use func() (release func()))

	// AddOverlay puts a qcow2 volume into the pool that stands on another of its volumes, as qemu-img create -b does.
	AddOverlay func(t *testing.T, pool fleet.Pool, name, base string)

	// Remote is a server that has something to download, with what its checksum is to be.
	Remote func(t *testing.T, what Remote) (url, checksum string)

	// Foreign makes and starts a domain without Quantix metadata under that name.
	Foreign func(t *testing.T, name string) fleet.VMID

	// Power looks at a domain past the backend; fleet.Absent where there is none.
	Power func(t *testing.T, id fleet.VMID) fleet.Power

	// PowerOff forces a domain off past the backend, as virsh destroy does.
	PowerOff func(t *testing.T, id fleet.VMID)

	// Change changes a stopped domain's definition past the backend, as virsh does.
	Change func(t *testing.T, id fleet.VMID, c Change)

	// Seeds are what is on the host for the VM's guest to read when it first starts, each as files by name; DropSeeds removes the files of it past
	// the backend.
	Seeds     func(t *testing.T, id fleet.VMID) []map[string]string
	DropSeeds func(t *testing.T, id fleet.VMID)

	// Keep copies a stopped domain's definition past the backend; restore defines it again.
	Keep func(t *testing.T, id fleet.VMID) (restore func())

	// Undefine removes a domain's definition past the backend; a guest that runs, runs on.
	Undefine func(t *testing.T, id fleet.VMID)

	// HideVolume takes a volume's file out of its pool; restore puts it back.
	HideVolume func(t *testing.T, pool fleet.Pool, volume string) (restore func())

	// LinkVolume puts a symbolic link in the place of a volume's file, which leads to the file elsewhere; restore puts the file back.
	LinkVolume func(t *testing.T, pool fleet.Pool, volume string) (restore func())

	// DeleteVolume deletes a volume past the backend, as virsh vol-delete does.
	DeleteVolume func(t *testing.T, pool fleet.Pool, volume string)

	// Touch writes to a volume past the backend, and sets the time of its last write back.
	Touch func(t *testing.T, pool fleet.Pool, volume string)

	// GuestWrites overwrites the beginning of a raw volume with a qcow2 header whose backing file is another volume of the pool.
	GuestWrites func(t *testing.T, pool fleet.Pool, volume, names string)

	// WriteDisk writes the byte to the beginning of a disk's file that no guest uses, as its guest would; ReadDisk reads it, through all that the file
	// stands on. CheckDisk demands that its chain is sound.
	WriteDisk func(t *testing.T, path string, b byte)
	ReadDisk  func(t *testing.T, path string) byte
	CheckDisk func(t *testing.T, path string)

	// ForeignSnapshot makes a snapshot of a VM that is off past the backend, as virsh snapshot-create-as does; drop deletes it.
	ForeignSnapshot func(t *testing.T, id fleet.VMID, name string) (drop func())

	// ForeignOverlay has the first disk of a VM that is off go on in a file of that name in the pool, as virsh snapshot-create-as --disk-only does.
	ForeignOverlay func(t *testing.T, pool fleet.Pool, vm fleet.VM, name string)

	// StopPool stops an active pool past the backend, as virsh pool-destroy does.
	StopPool func(t *testing.T, pool fleet.Pool)

	// ForeignPool makes and starts a directory pool of that name past the backend.
	ForeignPool func(t *testing.T, name, path string)

	// StopNetwork stops a network past the backend, as virsh net-destroy does; UndefineNetwork removes its definition, and EditNetwork adds
	// an address to it that DHCP gives out.
	StopNetwork, UndefineNetwork, EditNetwork func(t *testing.T, name string)

	// Reservations are those that the network's server works by now, each "MAC address", in order; DropReservations takes them from it and
	// leaves the definition, as virsh net-update --live does.
	Reservations     func(t *testing.T, name string) []string
	DropReservations func(t *testing.T, name string)

	// PortGroups are those of the network that runs, each "name" and, behind a space, the tags and bounds that it has in the host's words.
	PortGroups func(t *testing.T, name string) []string

	// EditFilter changes a network filter that no card has, past the backend, as virsh nwfilter-edit does; UndefineFilter removes it.
	EditFilter, UndefineFilter func(t *testing.T, name string)

	// EndServer ends the dnsmasq of a network.
	EndServer func(t *testing.T, name string)

	// ForeignNetwork makes and starts a network of that name past the backend.
	ForeignNetwork func(t *testing.T, name string)

	// Device is a device of the host's own on which nothing is.
	Device func(t *testing.T) string

	// AddBootable puts a qcow2 volume into a pool from which a guest boots that has an agent. Prepare gives that guest, once its agent answers, a
	// file system on its second disk, and what setting a password takes.
	AddBootable func(t *testing.T, pool fleet.Pool, name string)
	Prepare     func(t *testing.T, id fleet.VMID)

	// Frozen and HasPassword look into that guest past the backend.
	Frozen      func(t *testing.T, id fleet.VMID) bool
	HasPassword func(t *testing.T, id fleet.VMID, user, password string) bool

	// Network is the name of a libvirt network of the host that is active.
	Network string

	// Unplug makes the hypervisor unreachable while its guests run on; plug brings it back. Both return when it is done.
	Unplug func(t *testing.T) (plug func())

	// Freeze makes the hypervisor accept calls without ever answering them, until thaw. Optional.
	Freeze func(t *testing.T) (thaw func())

	// CoreOnly leaves out all cases but the core.
	CoreOnly bool

	// CutsOff says that an order may be ended by a panic in the functions that it is given, which stands for the agent's end.
	CutsOff bool
}

// Misplacement is a way in which another directory can stand in a pool's place.
type Misplacement string

const (
	Moved   Misplacement = "moved away"
	Emptied Misplacement = "moved away, and made again empty"
	Covered Misplacement = "under another file system"
)

// Change is what an administrator does to a definition. What is zero stays.
type Change struct {
	Name            string
	CPUs, MemoryMiB int
	Detach          string // the target of a disk: "vdb"
	Network         string // of the first network card; its MAC stays
	ISO             string // the path of a medium
	FirstBoot       bool   // what the guest reads when it first starts is taken out
}

// ImageKind says what an Image is made of.
type ImageKind string

const (
	Qcow2        ImageKind = "qcow2"         // self-contained
	Raw          ImageKind = "raw"           // any bytes
	Qcow2Backing ImageKind = "qcow2-backing" // names a backing file: must be refused
	Qcow2Data    ImageKind = "qcow2-data"    // keeps its data in another file: must be refused
	Qcow2Short   ImageKind = "qcow2-short"   // its end is missing
	ISO          ImageKind = "iso"           // an ISO 9660 volume descriptor and no more
	LinkedISO    ImageKind = "iso-linked"    // a symbolic link to one outside the pool: must be refused
	Folder       ImageKind = "folder"        // no image: a directory beside them
)

// Image is a volume that disks are cloned from.
type Image struct {
	Name      string // of the volume
	Kind      ImageKind
	SizeBytes int64 // as a guest sees it
}

// testCase is one case of the suite.
type testCase struct {
	name string
	test func(*testing.T, *host)
}

// core are the cases of each area that show that a backend works; more are all others.
var (
	core = []testCase{
		{"a new VM is defined and stopped", testCreate},
		{"applying twice changes nothing", testApplyTwice},
		{"an absent VM is absent", testAbsent},
		{"power orders do what they say, and nothing the second time", testPower},
		{"orders to a stopped guest say that it is not running", testNotRunning},
		{"edits of a stopped VM apply at once", testEditStopped},
		{"edits of a running VM wait for its next boot", testNextBoot},
		{"every part of a VM is as it was asked for", testParts},
		{"every field of a disk and a card is as it was asked for", testDevices},
		{"what a guest reads when it first starts is made once", testFirstBoot},
		{"network cards come to a running guest and go", testHotPlug},
		{"disks come to a running guest and go", testPlugDisks},
		{"disks that are raw files", testRawDisks},
		{"a running guest gets vCPUs, memory and media", testGrowRunning},
		{"what an edit would change is told and not done", testPlan},
		{"a stopped VM is renamed", testRename},
		{"a disk that was made and is not there is a fault", testMissingDisk},
		{"a VM whose definition is gone is defined from its disks", testUndefined},
		{"what an administrator changed is shown and stays", testDrift},
		{"what an administrator changed is put back", testReapply},
		{"what an administrator changed is taken over", testAcceptDrift},
		{"a guest whose definition is removed shows at once", testTransient},
		{"deleting a VM leaves its disks unless told", testDelete},
		{"disks are cloned from images", testClone},
		{"images that refer to other files are refused", testUnsafeImages},
		{"a disk in use by another VM is refused", testDiskInUse},
		{"only a disc is put into a drive", testISOs},
		{"found domains are shown and never touched", testFound},
		{"a pool is applied, reported and released", testPool},
		{"a pool in use is not released", testPoolInUse},
		{"a failing pool speaks the host's own words", testFailingPool},
		{"nothing is made where another directory stands in a pool's place", testPoolMisplaced},
		{"volumes are made, grown, cloned, wiped and deleted", testVolumes},
		{"volumes are downloaded and inspected", testDownloads},
		{"volumes are uploaded piece by piece", testUploads},
		{"volumes are copied byte by byte", testCopyVolume},
		{"disks stand on images that others stand on, too", testOverlay},
		{"a volume in use is left alone", testVolumeInUse},
		{"a VM's disk grows, running and off", testGrowDisk},
		{"a disk is moved to another pool, running and off", testMove},
		{"snapshots of a VM that is off are taken, gone back to and deleted", testSnapshots},
		{"snapshots of a running VM are taken and deleted", testSnapshotsRunning},
		{"a VM goes back to the memory of a snapshot", testSnapshotMemory},
		{"a running VM is cloned from a temporary snapshot", testCloneRunning},
		{"a network is applied, reported and released", testNetwork},
		{"security groups filter cards, also of a guest that runs", testSecurityGroups},
		{"the console speaks VNC", testConsole},
		{"a guest says what it is, and does what its agent is asked", testGuestAgent},
		{"a state in which nothing changed is equal", testSteady},
		{"a reopened backend sees the same host", testReopen},
		{"a context that has ended is honoured", testDeadline},
	}
	more = []testCase{
		{"a pool says which images are not sound", testUnsoundImages},
		{"every CPU model of the host is as it was asked for", testCPUModels},
		{"a VM that was just started waits for nothing, whatever was asked for", testSettled},
		{"NUMA cells of a guest", testNUMANodes},
		{"a guest whose memory is encrypted, where the host can", testConfidential},
		{"a guest whose device of the host is not there stays off", testNoDevice},
		{"a machine of the nineties", testOldMachine},
		{"several VMs share a disk", testSharedDisks},
		{"what a guest writes into a raw disk changes nothing for others", testRawBytes},
		{"a disk is encrypted by its host", testEncryptedDisks},
		{"a guest has a disk of its host for itself", testPhysicalDisks},
		{"a running VM is renamed at its next boot", testRenameRunning},
		{"a disk that was made is not made again for a VM whose definition is gone", testMissingUndefined},
		{"a missing disk shows on a running guest", testMissingRunning},
		{"a disk that an administrator detached stays detached", testDetached},
		{"an older definition that an administrator restores stays", testRestored},
		{"what the portal has no record of after its database was restored stays", testUnrecorded},
		{"a VM's mark goes where its domain goes", testMark},
		{"VMs of one name live on one host", testOneName},
		{"a renamed VM takes a name that is free", testRenameTaken},
		{"a disk outlives the pool of its image", testImagePoolGone},
		{"volumes say whose disks they are", testVolumeUsers},
		{"somebody's disk is neither cloned nor put into a drive", testDiskIsNoImage},
		{"a pool of that name with another source is refused", testPoolClash},
		{"a pool that the host had before stays when it is released", testPoolBefore},
		{"pools on one file system report the same one", testPoolFileSystem},
		{"a pool that somebody stops stays stopped until it is ordered again", testPoolStopped},
		{"a directory that belongs to another pool is refused", testPoolMarker},
		{"a pool outside the agent's roots is refused", testPoolRoots},
		{"a VM has what is there by any name", testOddNames},
		{"a file whose name is no text hides no other", testVolumeUnnamed},
		{"a volume is made once", testVolumeMadeOnce},
		{"a volume is downloaded once", testDownloadOnce},
		{"a download that is taken back leaves nothing", testDownloadStopped},
		{"what is uploaded is inspected, and is what was promised", testUploadsJudged},
		{"an upload that is cut off goes on where the host has it", testUploadGoesOn},
		{"a volume's checksum is told while its file is as it was", testHash},
		{"a clone takes the disks that were copied for it", testCopiedDisks},
		{"a VM goes out in an archive and comes in again", testAppliances},
		{"what leads out of an archive is refused", testAppliancesRefused},
		{"a conversion that is taken back leaves nothing", testConvertStopped},
		{"a volume is renamed, and never over another", testRenameVolume},
		{"a volume is sent whole or not at all", testReadVolume},
		{"a copy and a wipe that are taken back end at once", testVolumeStopped},
		{"no order reaches beyond its pool", testVolumeNames},
		{"volumes that refer to other files are only deleted", testVolumeOfOthers},
		{"no volume is touched where another directory stands in a pool's place", testVolumeMisplaced},
		{"a disk that others stand on does not grow", testGrowDiskRefused},
		{"a move that is stopped leaves the disk where it was", testMoveStopped},
		{"what cannot be moved is refused and left whole", testMoveRefused},
		{"a snapshot in the middle, at the root, and a branch are deleted", testSnapshotBranches},
		{"a new VM begins as another was in a snapshot", testFromSnapshot},
		{"an order about snapshots is done once", testSnapshotOnce},
		{"a disk that somebody had go on in another file goes with that", testOverlaidDisk},
		{"what would part a VM from its snapshots is refused", testSnapshotRefused},
		{"snapshots that somebody else made are shown and respected", testSnapshotOthers},
		{"a volume comes from another host as it was sent", testTransfer},
		{"what is sent is inspected, and is what was promised", testTransferJudged},
		{"a VM that is off leaves, and comes up from its disks elsewhere", testMigrate},
		{"a VM that cannot leave is left whole", testMigrateRefused},
		{"a VM that was used since it was sent stays", testMigrateAgain},
		{"networks are listed", testNetworks},
		{"a network of each mode runs", testNetworkModes},
		{"a network on devices of the host is defined", testNetworkOnDevices},
		{"limits of NICs are a gap of a host whose kernel cannot keep them", testNICLimits},
		{"a card that takes a device for itself waits until it is free", testNICOfItsOwn},
		{"a network of that name that somebody else made is left alone", testNetworkTaken},
		{"a network that somebody edited is shown and stays", testNetworkEdited},
		{"addresses are reserved while a network runs", testReservations},
		{"reservations that somebody changes while a network runs are shown", testReservationsDropped},
		{"port groups change while a network runs, and cards attach to them", testPortGroups},
		{"a network that somebody stops is ordered again", testNetworkStopped},
		{"a running network whose definition is removed shows at once", testNetworkUndefined},
		{"a network that somebody removes is shown as such", testNetworkRemoved},
		{"a network without its dnsmasq says so", testNetworkUnserved},
		{"a network in use is not released", testNetworkInUse},
		{"what somebody changes of filters shows and stays", testFilterDrift},
		{"changes wake up", testChanges},
		{"running guests are metered", testMeters},
		{"a guest without an agent is asked for nothing", testNoGuestAgent},
		{"what a host does by itself is kept with the VM", testPolicy},
		{"guests with a floor are asked for memory", testBalloons},
		{"health checks ask the guest that runs", testHealth},
	}
	// cutOffs end orders at each of their steps.
	cutOffs = []testCase{
		{"making a VM, ended at any step", testMakingCutOff},
		{"orders for volumes, ended at any step", testVolumesCutOff},
		{"moves of disks, ended at any step", testMovesCutOff},
		{"orders for snapshots, ended at any step", testSnapshotsCutOff},
		{"the clone of a running VM, ended at any step", testCloneRunningCutOff},
	}
)

// Run holds a backend to the meaning of agent.Hypervisor.
func Run(t *testing.T, h Harness) {
	cases := core
	if !h.CoreOnly {
		cases = slices.Concat(core, more)
	}
	if h.CutsOff {
		cases = slices.Concat(cases, cutOffs)
	}
	t.Run("behaviour", func(t *testing.T) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.test(t, open(t, h))
			})
		}
	})
	// These take the hypervisor away from everybody, so they run alone.
	t.Run("the hypervisor goes away and returns", func(t *testing.T) { testUnplug(t, open(t, h)) })
	if h.Freeze != nil {
		t.Run("a hypervisor that does not answer", func(t *testing.T) { testFreeze(t, open(t, h)) })
	}
}
