package hypervisor

import (
	"context"
	"errors"
	"io"
	"net"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// Hypervisor is the agent's contract with the host that it runs on. agent/libvirt and agent/mock implement it, and
// agent/hypervisor/conformance checks that both behave alike. Every method returns when ctx ends, even if a call below
// it hangs. Errors keep the hypervisor's own text, because people read them. An error without an answer of the
// hypervisor wraps ErrAway.
//
// Methods that change something are idempotent: a second call with the same input changes nothing.
type Hypervisor interface {
	// Snapshot returns the full state of the host. A part that cannot be read is reported as such (a pool as stalled),
	// never left out. Volumes are listed only for pools assigned to this host; other pools go to
	// HostStatus.DiscoveredPools. Assigned pools and networks that the host lacks are reported as missing, and edited
	// networks with the differences. Snapshot leaves Host.AgentVersion and Host.Inventory to the caller, except
	// Inventory.Accelerators, .Firmwares, .PoolGaps, .VMGaps and .CPUModels. It also leaves VMStatus.Error and ErrorOf
	// to the caller. Snapshot restarts a failed pool as soon as that may succeed. A pool stopped by somebody else stays
	// stopped (PoolStatus.ByOthers).
	Snapshot(ctx context.Context, on Assigned) (wire.State, error)

	// Meters reads the load of all running VMs that carry Quantix metadata.
	Meters(ctx context.Context) ([]wire.Meter, error)

	// FilterCounts reads the packet counters of the NICs of running VMs that have a Quantix network filter: packets
	// accepted by each rule, and packets dropped. A rule without matches is listed with zero.
	FilterCounts(ctx context.Context) ([]CountedNIC, error)

	// Changes delivers a wake-up (no data) when something may have changed. The channel has a buffer of one and lives
	// until ctx ends. A lost connection to the hypervisor and its return are wake-ups as well.
	Changes(ctx context.Context) <-chan struct{}

	// VM returns the status of one domain; Power is fleet.Absent if the domain does not exist. generation is the one
	// stamped into the domain's metadata.
	VM(ctx context.Context, id fleet.VMID) (status fleet.VMStatus, generation int64, err error)

	// ApplyVM creates disks that were never created, and writes the differences between the spec and the last applied
	// spec into the persistent definition. It stamps the definition with the VM's id and generation and stores the
	// applied spec there. Edits made on the host stay and show in VMStatus.Drift, unless the order is to reapply.
	// ApplyVM never starts or stops the guest. Changes that a running guest gets only at its next start show in
	// VMStatus.NextBoot; pending unplugs show in VMStatus.PendingUnplug too. A VM without a definition gets a new one that
	// uses its existing disks. If a disk that was created before is missing, ApplyVM changes nothing and returns the
	// text of VMStatus.Faults. Changes of a NIC's security groups and anti-spoofing take effect at once. ApplyVM never
	// changes a security group that the host has already: only ApplySecurityGroup does. A network filter that somebody
	// else gave a NIC stays, and shows in VMStatus.Drift. First-boot data is fetched and written once for each version
	// of it, and again if its file is missing. It is removed with the VM, and when no definition and no running guest
	// uses it. ApplyVM refuses a domain with the VM's UUID but without the VM's Quantix metadata. If another domain has
	// the VM's name, the VM's domain gets another one: see DomainNames. No error names another domain.
	ApplyVM(ctx context.Context, in Apply) error

	// PlanVM returns the VM's current definition (empty if there is none) and the definition that ApplyVM of the same
	// order would leave. Both are XML with one element a line, without Quantix metadata and secrets. PlanVM changes
	// nothing and refuses what ApplyVM refuses before its first change.
	PlanVM(ctx context.Context, in Apply) (before, after string, err error)

	// MarkVM writes the VM's mark into the metadata of the domain's definition, and of the running domain as well, so
	// that the mark follows a migration. It changes nothing else, and nothing at all if the mark is there already.
	// wire.VMReport.Proof reports the mark.
	MarkVM(ctx context.Context, id fleet.VMID, mark string) error

	// StartVM starts the VM and refuses if a disk is missing. It does nothing if the VM is running already.
	StartVM(ctx context.Context, id fleet.VMID) error
	ShutdownVM(ctx context.Context, id fleet.VMID) error // asks the guest and returns at once; no-op if off
	StopVM(ctx context.Context, id fleet.VMID) error     // forces it off; no-op if off
	RebootVM(ctx context.Context, id fleet.VMID) error   // asks the guest
	ResetVM(ctx context.Context, id fleet.VMID) error
	PauseVM(ctx context.Context, id fleet.VMID) error  // no-op if paused
	ResumeVM(ctx context.Context, id fleet.VMID) error // no-op if running

	// GuestReadings returns the newest changing values (load, memory, file systems) of guests whose guest agent
	// answers. VMStatus.Guest has the constant ones. Guests are queried in the background: a guest that hangs or sends
	// too much delays nothing.
	GuestReadings(ctx context.Context) ([]GuestReading, error)

	// Commands to the guest agent, each within ctx. They refuse a guest that is off or paused, or whose guest agent
	// does not answer.

	// FreezeGuest stops all writes to the guest's file systems until ThawGuest. It refuses a guest without file systems
	// that can be frozen, and does nothing if they are frozen already.
	FreezeGuest(ctx context.Context, id fleet.VMID) error
	ThawGuest(ctx context.Context, id fleet.VMID) error // no-op if not frozen or off
	// SetGuestPassword sets the password of a user in the guest. No error contains the password.
	SetGuestPassword(ctx context.Context, id fleet.VMID, user, password string) error
	SyncGuestTime(ctx context.Context, id fleet.VMID) error // sets the guest's clock to the host's
	// returns unused blocks of the guest's file systems to the storage
	TrimGuest(ctx context.Context, id fleet.VMID) error
	// RunInGuest runs a program once through the guest agent and waits within ctx until it ends, whatever its exit
	// code. ErrGoesOn means that it is unknown whether the program ran, or how it ended.
	RunInGuest(ctx context.Context, id fleet.VMID, program fleet.GuestProgram) (fleet.GuestOutput, error)

	// CheckGuest runs one health check of a running guest, within ctx. check has its defaults filled in. Network checks
	// go only to addresses of the VM's own NICs that the host knows from its own DHCP lease or has seen at the NIC: an
	// address that only the guest reports is not trusted. An error means that the guest fails the check, except for
	// Unsure and ErrAway. A program of an exec check starts only after the previous one has ended.
	CheckGuest(ctx context.Context, id fleet.VMID, check fleet.HealthCheck) (Sign, error)

	// Balloons lists the running guests with a memory minimum, with their current memory. SetBalloon asks such a guest
	// to shrink or grow to mib MiB, does not wait for it, and leaves the definition alone. It never goes below the
	// guest's memory minimum, and ignores guests that no longer have one.
	Balloons(ctx context.Context) ([]Balloon, error)
	SetBalloon(ctx context.Context, id fleet.VMID, mib int) error

	// MoveDisk copies a disk of the VM into another pool, under the name given, and switches the VM to the copy: the
	// running guest without a pause, its definition, and the stored applied spec. The old file stays, but nothing
	// refers to it any more. A failed or cancelled move leaves the VM on the old disk, without a copy. After an
	// interrupted call, MoveDisk follows the copy that QEMU still makes, and restarts everything else that is
	// incomplete. It refuses a disk with snapshots, a disk with a backing file, and one whose definition somebody
	// changed.
	MoveDisk(ctx context.Context, in MoveDisk) error

	// TakeSnapshot saves the VM's current state as the order says: its disks, the firmware's variables, the TPM's
	// state, and with Order.Memory the memory of a running guest, which continues afterwards. A failure leaves the VM
	// as it was. TakeSnapshot, RevertSnapshot and DeleteSnapshot each run an order once, however often it is repeated
	// or interrupted. Each first finishes an interrupted order: it rolls back if possible, else forward. They refuse a
	// VM with snapshots made outside Quantix, or whose disks somebody changed.
	TakeSnapshot(ctx context.Context, in SnapshotWork) error
	// RevertSnapshot returns the disks, firmware variables and TPM state to the snapshot. Later changes remain only in
	// other snapshots. A snapshot with memory resumes the guest from it; else the VM is off, unless Order.Start is set.
	// The VM's definition stays as the current spec wants it.
	RevertSnapshot(ctx context.Context, in SnapshotWork) error
	// DeleteSnapshot marks the snapshot as deleted, and merges the files of deleted snapshots on which exactly one file
	// is backed, while the guest runs or is off. Without Order.ID it only merges.
	DeleteSnapshot(ctx context.Context, in SnapshotWork) error

	// MigrateVM sends each disk of a VM that is off by Send, and removes its definition once all have Arrived; the
	// disks stay, but nothing refers to them any more. A failure leaves the VM as it was. It refuses VMs that are more
	// than their disk files: with snapshots, NVRAM, a TPM, or disks with backing files. If an earlier call has removed
	// the definition, it only waits until all have Arrived.
	MigrateVM(ctx context.Context, in MigrateVM) error

	// DeleteVM forces the guest off and undefines it with its NVRAM; with disks, it deletes the volumes that spec names
	// (never an image or ISO). It succeeds if the domain does not exist.
	DeleteVM(ctx context.Context, vm fleet.VM, pools []fleet.Pool, disks bool) error

	// ApplyPool defines, builds (directory created if missing), starts, autostarts and refreshes the pool. It refuses a
	// libvirt pool of that name with another source, and a pool of another name at that place (see PoolPlaceTaken). It
	// also refuses a directory outside the agent's PoolRoots, one with another pool's marker, and, once the pool was
	// active, any directory but its own: it creates and starts nothing there. Block pools are never built: their
	// storage must exist.
	ApplyPool(ctx context.Context, pool fleet.Pool) error
	// SetPoolSecret stores the credential for the pool's storage in the hypervisor, which alone can read it again. It
	// is called before ApplyPool. The secret is removed with the pool. An equal secret changes nothing.
	SetPoolSecret(ctx context.Context, pool fleet.Pool, secret string) error
	// ReleasePool stops and undefines the pool and keeps its data. It refuses while a domain on this host uses its
	// volumes. A pool that the host had before Quantix stays defined, returns to its earlier state, active or not, and
	// may still be used by the host's own domains. ReleasePool removes the marker, except a shared pool's, which stays
	// until the pool itself is deleted.
	ReleasePool(ctx context.Context, pool fleet.Pool) error

	// ApplyNetwork defines, starts and autostarts the network, whose libvirt UUID is its id. It refuses a libvirt
	// network of that name with another UUID, and a definition that somebody edited on the host: the error lists the
	// differences. A network whose DHCP and DNS server has ended is restarted, unless a domain is connected to it.
	ApplyNetwork(ctx context.Context, network fleet.Network) error
	// ReleaseNetwork stops and undefines the network with that UUID, never another one of the same name. It refuses
	// while a domain on this host, running or not, has a NIC on it.
	ReleaseNetwork(ctx context.Context, network fleet.Network) error

	// ApplySecurityGroup creates or updates the group on the host; the new rules apply at once to NICs of running
	// guests in the group.
	ApplySecurityGroup(ctx context.Context, group fleet.FlatGroup) error
	// ReleaseSecurityGroup removes the group. It refuses while a NIC of a domain on this host is in it, and does
	// nothing if the group does not exist.
	ReleaseSecurityGroup(ctx context.Context, group fleet.FlatGroup) error

	// The methods below work on one volume of a pool that must be active, in its own directory and within PoolRoots.
	// The volume is a regular file there, or in a block pool libvirt's volume of that name; a volume to create must not
	// exist. Users of the file are searched at that very moment by the file itself, not by its path in definitions; the
	// error names the domain that uses it. Incomplete volumes are not volumes: the next attempt removes them, and
	// without one they are listed as unfinished.

	// CreateVolume creates an empty volume.
	CreateVolume(ctx context.Context, in VolumeWork) error
	// CloneVolume copies Order.Source in its format. It refuses a volume that a running guest uses, that changes
	// meanwhile, or that has a backing file.
	CloneVolume(ctx context.Context, in VolumeWork) error
	// FetchVolume downloads Order.URL, verifies Order.Checksum, and refuses a file that is no self-contained image. It
	// connects only to addresses that the agent's settings allow, whatever the name resolves to and wherever a server
	// redirects.
	FetchVolume(ctx context.Context, in VolumeWork) error
	// UploadVolume receives Order.SizeBytes through the connections of Sent, verifies Order.Checksum, and refuses the
	// same files as FetchVolume. If ctx ends early, the received bytes stay, and the next order with the same
	// Order.Upload continues from there.
	UploadVolume(ctx context.Context, in VolumeWork) error
	// RenameVolume renames Order.Source, an unused volume of the pool, to the order's name, unless that name exists. It
	// reports the file to in.Whole first, so that a repeated order recognizes its own file.
	RenameVolume(ctx context.Context, in VolumeWork) error
	// ReadVolume writes all bytes of the volume's file to the writer that to returns. It calls to with the size in
	// bytes after all checks have passed. It refuses a volume that a running guest uses or that has a backing file, and
	// delivers the last bytes only if nobody wrote to the file meanwhile.
	ReadVolume(ctx context.Context, in VolumeWork, to func(size int64) (io.Writer, error)) error
	// HashVolume computes the SHA-256 of the volume's file and reports it to in.Hashed. It refuses a volume that a
	// running guest uses, or that changes meanwhile.
	HashVolume(ctx context.Context, in VolumeWork) error
	// CopyVolume copies Order.Source of the pool in.Source (nil: the same pool) byte by byte, reports both checksums to
	// in.Hashed, and refuses bytes that do not match Order.Checksum. With Order.Flatten the source is a disk, whose
	// chain within its pool becomes one qcow2 image. It refuses a volume that a running guest uses, or that changes
	// meanwhile; files backed by the source do not matter.
	CopyVolume(ctx context.Context, in VolumeWork) error
	// ConvertVolume makes a qcow2 image of Order.Source of the pool in.Source (nil: the same pool): of a disk in
	// another format, or of the disk Order.Member of an OVA archive, whose checksum it verifies. It opens no file but
	// the source's, whatever the source refers to. It refuses sources with backing files, sources whose header declares
	// more than the free space, and sources that a running guest uses.
	ConvertVolume(ctx context.Context, in VolumeWork) error
	// ExportVolume makes an OVA archive of the disks of Order.Export, each with its backing chain, and of their
	// description. It refuses disks that a running guest uses, and starts only if there is room for all of it.
	ExportVolume(ctx context.Context, in VolumeWork) error
	// SendVolume passes the volume's file to Send, and reports its checksum to in.Hashed if it reads all of it. It
	// refuses a volume that a running guest uses, or that changes meanwhile.
	SendVolume(ctx context.Context, in VolumeWork) error
	// ReceiveVolume receives a file from another host through Arrive. It verifies Order.Checksum if set, checks the
	// file like a download before it gets its name, and with Order.Transfer.Check reads it back from the storage. It
	// reports the checksum to in.Hashed. A failure leaves no file.
	ReceiveVolume(ctx context.Context, in VolumeWork) error
	// GrowVolume grows the volume to the size in the order, and does nothing if it is that large already. It refuses to
	// shrink, and refuses volumes in use.
	GrowVolume(ctx context.Context, in VolumeWork) error
	// WipeVolume overwrites all data with zeros and keeps size and format. It refuses volumes in use.
	WipeVolume(ctx context.Context, in VolumeWork) error
	// DeleteVolume deletes the volume and refuses volumes in use. It does nothing if the volume does not exist.
	DeleteVolume(ctx context.Context, in VolumeWork) error

	// Console dials the VM's local VNC endpoint.
	Console(ctx context.Context, id fleet.VMID) (net.Conn, error)

	// Close ends all connections.
	Close() error
}

// Assigned lists what the portal's newest answer assigned to this host.
type Assigned struct {
	Pools    []fleet.Pool
	Networks []fleet.Network
	// checksums computed on this host: Snapshot reports those of unchanged files
	Hashed map[fleet.Volref]Hashed
}

// Progress receives the progress of a long step: percent 0…100 and a note on the current step. It never blocks.
type Progress func(percent int, note string)

// ErrNotRunning is returned by Console, RebootVM and ResetVM for a guest that is not running.
var ErrNotRunning = errors.New("the VM is not running")

// ErrAway is wrapped by errors which mean only that the hypervisor was not reached or did not answer: the call may be
// retried.
var ErrAway = errors.New("the hypervisor is away")

// Away wraps err with ErrAway and keeps its text.
func Away(err error) error {
	if err == nil {
		return nil
	}
	return away{err}
}

type away struct{ error }

func (a away) Unwrap() []error { return []error{a.error, ErrAway} }
