// Package conformance is the conformance suite that every hypervisor.Hypervisor must pass. A backend's test fills a
// Harness for its host and calls Run.
package conformance

import (
	"slices"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// Harness gives the suite a host to work on, and functions that change the host without the backend under test, as an
// administrator does. t.Cleanup removes everything that the functions create. A test that needs a nil function is
// skipped; only functions marked optional may be nil.
type Harness struct {
	// Open opens the backend. Every call opens the same host again, as a restarted agent does. The suite closes the
	// backend.
	Open func(t *testing.T) hypervisor.Hypervisor

	// PoolPath returns a new absolute path for a directory pool. The directory need not exist.
	PoolPath func(t *testing.T) string

	// FailingPool returns a pool that cannot start on this host, and a part of the host's error.
	FailingPool func(t *testing.T) (spec fleet.PoolSpec, words string)

	// ForbiddenPoolPath is a path that the agent's settings do not allow for pools.
	ForbiddenPoolPath string

	// ReplacePoolDir replaces the pool's directory. restore restores the directory.
	ReplacePoolDir func(t *testing.T, pool fleet.Pool, how PoolDirReplacement) (restore func())

	// AddImage copies a file into a pool that the suite has applied, without the backend.
	AddImage func(t *testing.T, pool fleet.Pool, image Image)

	// UnusedDisk returns a whole disk of the host by its name in a spec. use mounts the disk on the host, and release
	// unmounts the disk.
	UnusedDisk func(t *testing.T) (device string, use func() (release func()))

	// AddOverlay creates a qcow2 volume in the pool that is backed by another volume of the pool, like qemu-img create
	// -b.
	AddOverlay func(t *testing.T, pool fleet.Pool, name, base string)

	// ServeFile returns the URL of a file to download, and the checksum to expect.
	ServeFile func(t *testing.T, what RemoteFile) (url, checksum string)

	// DefineUnmanagedVM creates and starts a domain with the name, without Quantix metadata.
	DefineUnmanagedVM func(t *testing.T, name string) fleet.VMID

	// DefineAdoptableVM creates and starts a domain with the name, without Quantix metadata. It has the file as its disk,
	// one NIC on the network, and a part that no spec expresses.
	DefineAdoptableVM func(t *testing.T, name, disk, network string) fleet.VMID

	// DefinitionsOf returns the domain's persistent and running definition as text, without Quantix metadata.
	DefinitionsOf func(t *testing.T, id fleet.VMID) []string

	// PowerOf reads a domain's power state without the backend. It returns fleet.Absent if the domain does not exist.
	PowerOf func(t *testing.T, id fleet.VMID) fleet.Power

	// PowerOff forces a domain off, like virsh destroy.
	PowerOff func(t *testing.T, id fleet.VMID)

	// EditVM changes a stopped domain's definition, like virsh edit.
	EditVM func(t *testing.T, id fleet.VMID, c VMEdit)

	// FirstBootData returns the first-boot data of the VM on the host, as files by name for each version.
	// DeleteFirstBootData removes the first-boot files without the backend.
	FirstBootData       func(t *testing.T, id fleet.VMID) []map[string]string
	DeleteFirstBootData func(t *testing.T, id fleet.VMID)

	// SaveDefinition saves a stopped domain's definition without the backend. restore defines the domain again.
	SaveDefinition func(t *testing.T, id fleet.VMID) (restore func())

	// UndefineVM removes a domain's definition without the backend. A running guest continues.
	UndefineVM func(t *testing.T, id fleet.VMID)

	// HideVolume moves a volume's file out of its pool. restore moves the file back.
	HideVolume func(t *testing.T, pool fleet.Pool, volume string) (restore func())

	// LinkVolume replaces a volume's file by a symbolic link to the moved file. restore moves the file back.
	LinkVolume func(t *testing.T, pool fleet.Pool, volume string) (restore func())

	// DeleteVolume deletes a volume, like virsh vol-delete.
	DeleteVolume func(t *testing.T, pool fleet.Pool, volume string)

	// WriteKeepingTime writes to a volume without the backend and resets the file's modification time.
	WriteKeepingTime func(t *testing.T, pool fleet.Pool, volume string)

	// WriteQcow2Header overwrites the beginning of a raw volume with a qcow2 header whose backing file is another volume
	// of the pool.
	WriteQcow2Header func(t *testing.T, pool fleet.Pool, volume, names string)

	// WriteDisk writes the byte to the beginning of an unused disk file, as the VM's guest would. ReadDisk reads the
	// first byte through the backing chain. CheckDisk fails the test unless the chain is consistent.
	WriteDisk func(t *testing.T, path string, b byte)
	ReadDisk  func(t *testing.T, path string) byte
	CheckDisk func(t *testing.T, path string)

	// TakeUnmanagedSnapshot takes a snapshot of a stopped VM, like virsh snapshot-create-as. remove deletes the
	// snapshot.
	TakeUnmanagedSnapshot func(t *testing.T, id fleet.VMID, name string) (remove func())

	// CreateUnmanagedOverlay creates an overlay with the name in the pool on the first disk of a stopped VM, like virsh
	// snapshot-create-as --disk-only.
	CreateUnmanagedOverlay func(t *testing.T, pool fleet.Pool, vm fleet.VM, name string)

	// StopPool stops an active pool, like virsh pool-destroy.
	StopPool func(t *testing.T, pool fleet.Pool)

	// EditPool changes the path in the definition of an active directory pool, like virsh pool-edit.
	EditPool func(t *testing.T, name, path string)

	// DefineUnmanagedPool creates and starts a directory pool with the name, without the backend.
	DefineUnmanagedPool func(t *testing.T, name, path string)

	// PoolDefinition and NetworkDefinition return the persistent definition of an object of the host, in the host's own
	// format.
	PoolDefinition, NetworkDefinition func(t *testing.T, name string) string

	// StopNetwork stops a network, like virsh net-destroy. UndefineNetwork removes the network's definition.
	// EditNetwork adds a DHCP reservation to the network.
	StopNetwork, UndefineNetwork, EditNetwork func(t *testing.T, name string)

	// Reservations returns the DHCP reservations of the running network, each "MAC address". DropReservations
	// removes the reservations from the running network but not from its definition, like virsh net-update --live.
	Reservations     func(t *testing.T, name string) []string
	DropReservations func(t *testing.T, name string)

	// PortGroups returns the port groups of the running network, each "name" or "name tags limits" in the host's own
	// format.
	PortGroups func(t *testing.T, name string) []string

	// EditFilter changes a network filter that no NIC uses, like virsh nwfilter-edit. UndefineFilter removes the
	// filter.
	EditFilter, UndefineFilter func(t *testing.T, name string)

	// KillDnsmasq kills the dnsmasq of a network.
	KillDnsmasq func(t *testing.T, name string)

	// DefineUnmanagedNetwork creates and starts a network with the name, without the backend.
	DefineUnmanagedNetwork func(t *testing.T, name string)

	// UnusedNetworkDevice returns an unused network device of the host.
	UnusedNetworkDevice func(t *testing.T) string

	// AddBootableVolume adds a bootable qcow2 volume with a guest agent to a pool. Once that guest's agent answers,
	// PrepareGuest creates a file system on the guest's second disk and installs a command to set passwords.
	AddBootableVolume func(t *testing.T, pool fleet.Pool, name string)
	PrepareGuest      func(t *testing.T, id fleet.VMID)

	// IsGuestFrozen and GuestHasPassword read the guest's state without the backend.
	IsGuestFrozen    func(t *testing.T, id fleet.VMID) bool
	GuestHasPassword func(t *testing.T, id fleet.VMID, user, password string) bool

	// ActiveNetwork is the name of an active libvirt network of the host.
	ActiveNetwork string

	// DisconnectHypervisor makes the hypervisor unreachable while its guests run, and reconnect makes it reachable
	// again. Both return once the change is complete.
	DisconnectHypervisor func(t *testing.T) (reconnect func())

	// FreezeHypervisor makes the hypervisor accept calls without answering, until the suite calls thaw. Optional.
	FreezeHypervisor func(t *testing.T) (thaw func())

	// OnlyCoreTests restricts the suite to the core cases.
	OnlyCoreTests bool

	// InterruptsJobs enables the cases that interrupt a job by a panic in one of the job's functions, which simulates the
	// agent's end.
	InterruptsJobs bool
}

// PoolDirReplacement is a way to replace a pool's directory by another directory.
type PoolDirReplacement string

const (
	PoolDirMoved   PoolDirReplacement = "moved away"
	PoolDirEmptied PoolDirReplacement = "replaced by an empty directory"
	PoolDirCovered PoolDirReplacement = "under another file system"
)

// VMEdit is an administrator's change of a definition. Zero fields change nothing.
type VMEdit struct {
	Name            string
	CPUs, MemoryMiB int
	DetachDisk      string // the target of a disk to detach: "vdb"
	Network         string // the network of the first NIC; the NIC's MAC address stays
	ISO             string // the path of a medium to insert
	RemoveFirstBoot bool   // remove the first-boot drive
}

// ImageKind is the kind of an Image's content.
type ImageKind string

const (
	Qcow2          ImageKind = "qcow2"         // self-contained
	Raw            ImageKind = "raw"           // any bytes
	Qcow2Backing   ImageKind = "qcow2-backing" // has a backing file: must be refused
	Qcow2Data      ImageKind = "qcow2-data"    // has an external data file: must be refused
	Qcow2Truncated ImageKind = "qcow2-short"   // truncated
	ISO            ImageKind = "iso"           // only an ISO 9660 volume descriptor
	LinkedISO      ImageKind = "iso-linked"    // a symbolic link to an ISO outside the pool: must be refused
	DirectoryImage ImageKind = "folder"        // a directory instead of an image
)

// Image is a volume that disks are cloned from.
type Image struct {
	Name      string // name of the volume
	Kind      ImageKind
	SizeBytes int64 // size for the guest
}

// testCase is one case of the suite.
type testCase struct {
	name string
	test func(*testing.T, *testHost)
}

// core has the cases of each area that show that a backend works. more has all other cases, except interruptionTests.
var (
	coreTests = []testCase{
		{"a new VM is defined and stopped", testCreateVM},
		{"applying a VM twice changes nothing", testApplyIsIdempotent},
		{"a VM that does not exist is reported absent and does not start", testAbsentVM},
		{"power jobs are idempotent", testPowerActions},
		{"reboot and reset of a stopped guest fail with ErrNotRunning", testActionsNeedRunningGuest},
		{"edits of a stopped VM apply at once", testEditOfStoppedVM},
		{"edits of a running VM wait for its next start", testEditWaitsForNextStart},
		{"every field of a VM has its requested value", testEveryDefinitionField},
		{"every field of a disk and a NIC has its requested value", testDiskAndNICFields},
		{"first-boot data is written once", testFirstBoot},
		{"NICs are hot-plugged and hot-unplugged", testHotPlugNICs},
		{"disks are hot-plugged and hot-unplugged", testHotPlugDisks},
		{"raw disks are created, grown and removed", testRawDisks},
		{"vCPUs, memory and media are hot-plugged", testHotPlugCPUsAndMemory},
		{"a plan lists changes without applying them", testPlanVM},
		{"a stopped VM is renamed", testRenameVM},
		{"a missing disk is a fault", testMissingDiskOfStoppedVM},
		{"a VM whose definition was removed is defined again with its disks", testStoppedVMUndefined},
		{"edits made on the host are reported as drift and not overwritten", testDrift},
		{"a reapply overwrites drift", testReapplyOverwritesEdits},
		{"a reapply of one field leaves other drift", testReapplyOfOneField},
		{"accepted drift becomes part of the spec", testAcceptDrift},
		{"a running guest without definition is reported at once", testRunningVMUndefined},
		{"deleting a VM leaves its disks unless requested", testDeleteVM},
		{"a VM for the recycle bin is powered off and stays defined", testRecycleVM},
		{"disks are cloned from images", testCloneImage},
		{"images that refer to other files are refused", testUnsafeImages},
		{"a disk in use by another VM is refused", testDiskInUse},
		{"only an ISO is accepted in a drive", testISOMedia},
		{"unmanaged domains are reported and never changed", testUnmanagedVM},
		{"unmanaged domains have power actions and a console", testUnmanagedVMPower},
		{"an unmanaged domain without definition is not stopped", testTransientUnmanagedVM},
		{"a running domain is adopted, edited and released", testAdoption},
		{"an adoption is refused with its reasons", testAdoptionRefused},
		{"a pool is applied, reported and released", testPool},
		{"a pool in use is not released", testPoolInUse},
		{"a failing pool reports the host's error", testFailingPool},
		{"nothing is created in a directory that replaces a pool's directory", testPoolMisplaced},
		{"volumes are created, grown, cloned, wiped and deleted", testVolumeLifecycle},
		{"volumes are downloaded and inspected", testDownloads},
		{"volumes are uploaded in pieces", testUploadVolume},
		{"volumes are copied byte by byte", testCopyVolume},
		{"linked clones of an image are backed by the same file", testDiskBackedByImage},
		{"a volume in use is refused", testVolumeInUse},
		{"a VM's disk grows while running and off", testGrowDisk},
		{"a disk is moved to another pool while running and off", testMoveDisk},
		{"snapshots of a stopped VM are taken, reverted and deleted", testSnapshotsOfStoppedVM},
		{"snapshots of a running VM are taken and deleted", testSnapshotsOfRunningVM},
		{"a VM reverts to a snapshot with memory", testSnapshotMemory},
		{"a running VM is cloned from a temporary snapshot", testCloneOfRunningVM},
		{"a network is applied, reported and released", testNetworkLifecycle},
		{"security groups filter NICs, also of running guests", testSecurityGroups},
		{"the console uses VNC", testConsole},
		{"the guest agent's values are reported and its commands run", testGuestAgent},
		{"two reads of an unchanged host are equal", testUnchangedStateIsEqual},
		{"a reopened backend reports the same host", testBackendReopened},
		{"every method returns when its context ends", testCallDeadline},
	}
	extendedTests = []testCase{
		{"a pool reports invalid images", testInvalidImages},
		{"every CPU model of the host starts as requested", testCPUModels},
		{"a VM that was just started has no pending changes", testStartedVMHasNoPendingChanges},
		{"a guest has the requested NUMA nodes", testNUMANodes},
		{"guest memory is encrypted if the host supports it", testMemoryEncryption},
		{"a start is refused when a host device is missing", testMissingHostDevice},
		{"a VM with the pc machine type has IDE disks", testOldMachineType},
		{"several VMs share a disk", testSharedDisks},
		{"content of a raw disk is never probed", testRawDiskWithQcow2Header},
		{"a disk is encrypted by its host", testEncryptedDisks},
		{"a physical disk is exclusive to one guest", testPhysicalDisks},
		{"a running VM is renamed at its next start", testRenameRunningVM},
		{"a missing disk is not recreated for a VM without definition", testMissingDiskOfUndefinedVM},
		{"a missing disk is reported on a running guest", testMissingDiskOfRunningVM},
		{"a disk detached on the host stays detached", testDetachedDiskIsDrift},
		{"a definition restored from an old copy shows as drift", testRestoredDefinition},
		{"a restored portal does not overwrite newer applied specs", testPortalDatabaseRestored},
		{"a VM's ownership mark is stored in its domain's metadata", testOwnershipMarkStored},
		{"VMs with the same name run on one host", testVMsWithSameName},
		{"a VM renamed to a taken name gets another domain name", testRenameToTakenName},
		{"a disk cloned from an image does not need the image's pool", testImagePoolMissing},
		{"volumes report the VMs that use them", testVolumeUsers},
		{"a disk of an unmanaged domain is neither cloned nor inserted", testGuestDiskRefusedAsImage},
		{"a second pool with the same name and another source is refused", testPoolNameTaken},
		{"a pre-existing pool is unchanged after its release", testPreexistingPool},
		{"pools on one file system report the same file system", testPoolFileSystem},
		{"a pool stopped on the host stays stopped until reapplied", testPoolStopped},
		{"an edited pool is reported as drift and overwritten by a reapply", testPoolEdited},
		{"a directory that belongs to another pool is refused", testPoolMarker},
		{"a pool outside the agent's roots is refused", testPoolOutsideRoots},
		{"existing objects with unusual names are usable", testNamesInvalidForQuantix},
		{"a file with an invalid name hides no other file", testVolumeNameInvalidUTF8},
		{"a repeated volume job creates no second volume", testRepeatedCreateVolume},
		{"a repeated download job downloads once", testRepeatedDownload},
		{"a cancelled download leaves no file", testDownloadCancelled},
		{"uploads are inspected and verified", testUploadChecksumVerified},
		{"an interrupted upload resumes at the received offset", testUploadResumes},
		{"a checksum is reported while the file is unchanged", testHashVolume},
		{"a cloned VM uses the disks copied before", testApplyUsesCopiedDisks},
		{"a VM is exported to an archive and imported again", testExportAndImportAppliance},
		{"archives with outside references are refused", testUnsafeAppliancesRefused},
		{"a cancelled conversion leaves no file", testConversionCancelled},
		{"a rename never overwrites a volume", testRenameVolume},
		{"a volume read is complete or fails", testReadVolume},
		{"a cancelled copy or wipe ends at once", testVolumeJobsCancelled},
		{"volume names cannot leave the pool", testVolumeNames},
		{"volumes with backing files can only be deleted", testVolumeWithBackingFile},
		{"no volume is changed in a directory that replaces a pool's directory", testVolumesOfReplacedPoolDir},
		{"a disk that backs another volume does not grow", testGrowDiskRefused},
		{"a cancelled disk move leaves the disk in its pool", testMoveDiskCancelled},
		{"a refused disk move changes nothing", testMoveDiskRefused},
		{"middle, root and branch snapshots are deleted", testSnapshotBranches},
		{"a new VM is copied from a snapshot", testCloneFromSnapshot},
		{"a repeated snapshot job runs once", testRepeatedSnapshotJob},
		{"an overlay made outside Quantix is deleted with its disk", testUnmanagedOverlay},
		{"jobs that would separate a VM's disks from its snapshots are refused", testSnapshotRefused},
		{"snapshots made outside Quantix are reported and not deleted", testUnmanagedSnapshots},
		{"a volume is received as it was sent", testSendAndReceiveVolume},
		{"received volumes are inspected and verified", testReceivedVolumeVerified},
		{"a stopped VM migrates with its disks", testColdMigration},
		{"a refused cold migration changes nothing", testColdMigrationRefused},
		{"a VM whose disk changed after it was sent is not removed", testColdMigrationOfChangedVM},
		{"networks are listed", testNetworks},
		{"a network of each mode runs", testNetworkModes},
		{"a network on devices of the host is defined", testNetworkOnDevices},
		{"NIC limits that the kernel does not support are reported", testNICLimits},
		{"a NIC with a device of its own starts when one is free", testNICNeedsDevice},
		{"a network with the name of an unmanaged network is refused", testNetworkNameTaken},
		{"an adopted network is unchanged while assigned and after its release", testAdoptedNetwork},
		{"an edited network is reported and not overwritten", testNetworkEdited},
		{"a reapply overwrites an edited network", testEditedNetworkReapplied},
		{"an accepted edit of a network becomes part of its spec", testNetworkEditAccepted},
		{"addresses are reserved while a network runs", testReservations},
		{"reservations changed on the host are reported", testReservationsDropped},
		{"port groups change while a network runs", testPortGroups},
		{"a network stopped on the host is started by an apply", testNetworkStopped},
		{"a running network without definition is reported at once", testNetworkUndefined},
		{"a removed network is reported", testNetworkRemovedOnHost},
		{"a network without its dnsmasq is reported", testNetworkWithoutDnsmasq},
		{"a network in use is not released", testNetworkInUse},
		{"edited network filters are reported and not overwritten", testFilterDrift},
		{"changes on the host send wake-ups to the agent", testWakeUps},
		{"the load of running guests is reported", testMeters},
		{"commands to a guest without agent are refused", testNoGuestAgent},
		{"start and restart policies are stored with the VM", testStartAndRestartPolicies},
		{"guests with a memory minimum are ballooned", testBalloons},
		{"health checks reach the running guest", testHealthChecks},
	}
	// interruptionTests are the cases that interrupt jobs at each of their steps.
	interruptionTests = []testCase{
		{"a VM creation interrupted at any step completes on retry", testCreateInterrupted},
		{"a volume job interrupted at any step completes on retry", testVolumeJobsInterrupted},
		{"a disk move interrupted at any step completes on retry", testDiskMovesInterrupted},
		{"a snapshot job interrupted at any step completes on retry", testSnapshotsInterrupted},
		{"a clone of a running VM interrupted at any step completes on retry", testCloneOfRunningVMInterrupted},
	}
)

// Run runs the suite against a backend.
func Run(t *testing.T, h Harness) {
	cases := coreTests
	if !h.OnlyCoreTests {
		cases = slices.Concat(coreTests, extendedTests)
	}
	if h.InterruptsJobs {
		cases = slices.Concat(cases, interruptionTests)
	}
	t.Run("behaviour", func(t *testing.T) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.test(t, openTestHost(t, h))
			})
		}
	})
	// These cases affect the hypervisor of all other cases, so they run alone.
	t.Run("the hypervisor disconnects and reconnects", func(t *testing.T) { testHypervisorUnreachable(t, openTestHost(t, h)) })
	if h.FreezeHypervisor != nil {
		t.Run("a frozen hypervisor times out", func(t *testing.T) { testHypervisorHangs(t, openTestHost(t, h)) })
	}
}
