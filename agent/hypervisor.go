package agent

import (
	"context"
	"errors"
	"io"
	"net"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// Hypervisor is what an agent needs of the machine it runs on. agent/libvirt and agent/mock implement it, and
// agent/hvtest holds both to one meaning. Every method honours ctx: past its deadline it returns, whatever hangs below.
// Errors of the hypervisor keep its own words (fmt's %w or text): they are shown to people. Where it gave no answer, they are ErrAway.
//
// Methods that change something look first and may be called again: a second call with the same input changes nothing.
type Hypervisor interface {
	// Snapshot is the full state. A part that cannot be read is reported as such (a pool as stalled), never left out.
	// Of pools only the volumes of those are listed that are assigned to this host; other pools go to HostStatus.DiscoveredPools. An assigned
	// pool or network that the host lacks is reported as such, and an assigned network that somebody edited with what is different.
	// Snapshot leaves Host.AgentVersion and Host.Inventory to the caller, except Inventory.Accelerators, .Firmwares, .PoolGaps,
	// .VMGaps and .CPUModels.
	// VMStatus.Error/ErrorOf are the caller's too. A look at a pool that has failed starts it again as soon as that may go well; one
	// that somebody else stopped stays as it is (PoolStatus.ByOthers).
	Snapshot(ctx context.Context, on Assigned) (wire.State, error)

	// Meters reads the load of all running VMs that carry Quantix metadata.
	Meters(ctx context.Context) ([]wire.Meter, error)

	// FilterCounts reads what the host has counted at the cards of running VMs that have a network filter of Quantix's: by rule what it let
	// through, and what was dropped. A rule that nothing matched is there, with nothing.
	FilterCounts(ctx context.Context) ([]CountedNIC, error)

	// Changes delivers a wake-up (no data) when something may have changed. The channel has room for one. It lives until ctx ends;
	// a lost connection to the hypervisor and its return are wake-ups as well.
	Changes(ctx context.Context) <-chan struct{}

	// VM is the status of one domain; Power is fleet.Absent where there is none. generation is the stamp in its metadata.
	VM(ctx context.Context, id fleet.VMID) (status fleet.VMStatus, generation int64, err error)

	// ApplyVM creates disks that were never made and changes in the persistent definition what differs between the spec and the one
	// that was applied before; the definition is stamped with id and generation and keeps what was applied. What somebody changed
	// on the host stays, and shows in VMStatus.Drift, unless the order is to put it back. It never starts or stops the guest. What
	// a running guest gets only at its next start shows in VMStatus.NextBoot, and what it was asked for and has not let go of in
	// VMStatus.HeldBack too. A VM that has no definition gets one from its disks.
	// It does nothing at all where a disk that was made is not there: the error says what VMStatus.Faults says.
	// What passes a card (its security groups, anti-spoofing) takes effect at once; a group that the host has already stays as it is there:
	// ApplySecurityGroup alone changes it. A network filter that somebody else gave a card stays, and shows in VMStatus.Drift.
	// What the guest reads when it first starts is fetched and made once each time that it is given, and again where it is not there; it is gone
	// with the VM, and once no definition and no running guest has it.
	// It refuses to touch a domain of that UUID that carries no Quantix metadata of its own. Where another domain has the VM's
	// name it takes another: see DomainNames. No error names another domain.
	ApplyVM(ctx context.Context, in Apply) error

	// PlanVM tells the VM's definition as it is, empty where there is none, and as ApplyVM of the same order would leave it, both as XML with an
	// element a line, without Quantix's own metadata and without secrets. It refuses what ApplyVM would refuse before it begins, and changes nothing.
	PlanVM(ctx context.Context, in Apply) (before, after string, err error)

	// MarkVM writes the VM's mark into the domain's metadata: into the definition, and of a running guest also into what goes with
	// it when somebody migrates it. Nothing else is touched. wire.VMReport.Proof tells of it. Marked so already: nothing.
	MarkVM(ctx context.Context, id fleet.VMID, mark string) error

	// StartVM refuses a guest of which a disk is not there. Running already: nothing.
	StartVM(ctx context.Context, id fleet.VMID) error
	ShutdownVM(ctx context.Context, id fleet.VMID) error // asks the guest and returns; off already: nothing
	StopVM(ctx context.Context, id fleet.VMID) error     // force off; off already: nothing
	RebootVM(ctx context.Context, id fleet.VMID) error   // asks the guest
	ResetVM(ctx context.Context, id fleet.VMID) error
	PauseVM(ctx context.Context, id fleet.VMID) error  // paused already: nothing
	ResumeVM(ctx context.Context, id fleet.VMID) error // running already: nothing

	// GuestReadings are what the guests that run Quantix's VMs said last of what changes by itself, those whose agent answers. VMStatus.Guest has the
	// rest. Guests are asked in the background: one that hangs, or says too much, holds up nothing.
	GuestReadings(ctx context.Context) ([]GuestReading, error)

	// Orders to the guest's agent, each within ctx. They refuse a guest that is off or paused, or whose agent does not answer.

	// FreezeGuest lets nothing be written to the guest's file systems until ThawGuest. It refuses a guest that has none to freeze. Frozen already: nothing.
	FreezeGuest(ctx context.Context, id fleet.VMID) error
	ThawGuest(ctx context.Context, id fleet.VMID) error // not frozen: nothing; of a guest that is off: nothing
	// SetGuestPassword gives a user of the guest a password. No error repeats it.
	SetGuestPassword(ctx context.Context, id fleet.VMID, user, password string) error
	SyncGuestTime(ctx context.Context, id fleet.VMID) error // sets the guest's clock to the host's
	TrimGuest(ctx context.Context, id fleet.VMID) error     // gives back to the storage what the guest's file systems do not use
	// RunInGuest has the guest's agent run a program, once, and waits within ctx until it has ended, whatever its exit code. ErrGoesOn: nobody can tell
	// whether it ran, or how it ended.
	RunInGuest(ctx context.Context, id fleet.VMID, program fleet.GuestProgram) (fleet.GuestOutput, error)

	// CheckGuest asks a guest that runs once, within ctx, what a health check asks, which has its usual values. It goes to addresses of the VM's own
	// cards alone that the host knows by its own lease, or has heard at that card; the guest's word for one is not enough. An error is what the guest
	// fails by, but for Unsure and ErrAway. A program of such a check is begun only once the one before has ended.
	CheckGuest(ctx context.Context, id fleet.VMID, check fleet.HealthCheck) (Sign, error)

	// Balloons are the guests that run and have a floor, with what each has at present. SetBalloon asks such a guest to make do with so much, or to use
	// as much again, and does not wait for it; nothing of its definition changes. It asks none for less than its floor, and none that has no floor any more.
	Balloons(ctx context.Context) ([]Balloon, error)
	SetBalloon(ctx context.Context, id fleet.VMID, mib int) error

	// MoveDisk copies a disk of the VM into another pool, under the name given, and has the VM use the copy: the running guest without a
	// pause, its definition, and what is kept of what was applied. The old file stays and nothing names it any more. What fails, and
	// what is stopped, leaves the VM on the old disk and no copy. Where an earlier call was cut off, the copy that QEMU still makes is
	// followed to its end, and what else is half made is made anew. It refuses a disk with snapshots, one that stands on
	// other files, and one whose definition somebody changed.
	MoveDisk(ctx context.Context, in MoveDisk) error

	// TakeSnapshot keeps the VM as it is now, in the words of the order: its disks, the firmware's variables and the TPM's state, and with
	// Order.Memory the memory of a guest that runs, which goes on afterwards. What fails leaves the VM as it was. Each of these three does once what an order
	// asks for, however often it is given and wherever it was cut off, and first brings what another left half-done to an end: back where
	// that is possible, else forward. They refuse a VM of which somebody made snapshots beside Quantix, or whose disks somebody changed.
	TakeSnapshot(ctx context.Context, in SnapshotWork) error
	// RevertSnapshot brings the disks back to the snapshot, and all that goes with them; what came after stays in other snapshots alone. With its memory the
	// guest goes on from there; else the VM is off, unless Order.Start is set. Its definition stays as people want it now.
	RevertSnapshot(ctx context.Context, in SnapshotWork) error
	// DeleteSnapshot makes it one that is none any more, and merges what is left of deleted ones where one thing alone stands on it, while the guest runs or
	// is off. Without Order.ID it only merges.
	DeleteSnapshot(ctx context.Context, in SnapshotWork) error

	// MigrateVM sends the disks of a VM that is off, each by Send, and once all have Arrived removes its definition; the disks stay, and nothing names
	// them any more. What fails leaves the VM as it was. It refuses what a copy of its disks alone would not be all of: snapshots, NVRAM, a TPM,
	// disks that stand on others. Where an earlier call has removed the definition, it only waits until all have Arrived.
	MigrateVM(ctx context.Context, in MigrateVM) error

	// DeleteVM forces the guest off and undefines it with its NVRAM; with disks, it deletes the volumes that spec names
	// (never an image or ISO). A domain that is gone already is success.
	DeleteVM(ctx context.Context, vm fleet.VM, pools []fleet.Pool, disks bool) error

	// ApplyPool defines, builds (directory made if missing), starts and autostarts the pool, and refreshes it.
	// A libvirt pool of that name with another source is refused, a pool of another name at that place (see PoolPlaceTaken), and so is a directory outside the agent's PoolRoots, one that
	// bears another pool's marker, and once the pool was active any other than its own: nothing is made or started there. Of a pool whose
	// volumes are no files nothing is built: its storage must be there.
	ApplyPool(ctx context.Context, pool fleet.Pool) error
	// SetPoolSecret keeps what proves to the pool's storage who asks, where the hypervisor alone reads it again; before ApplyPool. It goes
	// with the pool. The same again: nothing.
	SetPoolSecret(ctx context.Context, pool fleet.Pool, secret string) error
	// ReleasePool stops and undefines the pool and keeps its data. It refuses while a domain on this host uses its volumes. A pool that the
	// host had before Quantix stays defined, and is as it was then, active or not; the host's own domains may go on to use its volumes.
	// The marker goes with it, but for a shared pool's, which stays until the pool itself is deleted.
	ReleasePool(ctx context.Context, pool fleet.Pool) error

	// ApplyNetwork defines, starts and autostarts the network, whose libvirt UUID is its id. A libvirt network of that name with another UUID
	// is refused and left alone, and so is a definition that somebody edited on the host: the error says what is different. One whose
	// server of names and addresses has ended is started anew, unless a domain is on it.
	ApplyNetwork(ctx context.Context, network fleet.Network) error
	// ReleaseNetwork stops and undefines the network of that UUID; one of its name is another's. It refuses while a domain on this host,
	// running or not, has a card on it.
	ReleaseNetwork(ctx context.Context, network fleet.Network) error

	// ApplySecurityGroup makes the group on the host as it is now; cards of running guests that are in it let pass at once what it says now.
	ApplySecurityGroup(ctx context.Context, group fleet.FlatGroup) error
	// ReleaseSecurityGroup removes the group. It refuses while a card of a domain on this host is in it. Gone already: nothing.
	ReleaseSecurityGroup(ctx context.Context, group fleet.FlatGroup) error

	// Work on one volume of a pool, which must be active, in its own directory, and within PoolRoots; the volume is a regular file there
	// (or, in a pool of another kind, what libvirt has of that name), or, where it is to come, there is none of its name. Who uses the file is looked for at that very moment, by the file itself and not
	// by what definitions call it; the error names a domain that does. Half-made volumes are no volumes: what was cut off is removed by
	// the next try, and listed as unfinished where none comes.

	// CreateVolume makes an empty volume.
	CreateVolume(ctx context.Context, in VolumeWork) error
	// CloneVolume copies Order.Source, in its format. It refuses one with which a guest runs, that changes meanwhile, or that refers to others.
	CloneVolume(ctx context.Context, in VolumeWork) error
	// FetchVolume downloads Order.URL, checks it by Order.Checksum, and refuses what is no image that stands alone. It reaches no address
	// that the agent's settings do not allow, however a name resolves and wherever a server redirects to.
	FetchVolume(ctx context.Context, in VolumeWork) error
	// UploadVolume takes in Order.SizeBytes by the connections of Sent, checks them by Order.Checksum, and refuses what a download is refused
	// for. Where ctx ends before, what has come stays for the next order of the same Order.Upload, which goes on with it.
	UploadVolume(ctx context.Context, in VolumeWork) error
	// RenameVolume gives Order.Source, a volume of the pool that nobody uses, the name of the order, unless there is one of that name. It tells
	// in.Whole of the file before, by which the same order, given again, knows its own.
	RenameVolume(ctx context.Context, in VolumeWork) error
	// ReadVolume gives all bytes of the volume's file to what to returns, which is told before how many they are, and only once nothing stands in
	// the way. It refuses one with which a guest runs or that stands on others, and gives the last bytes only where nobody wrote to it meanwhile.
	ReadVolume(ctx context.Context, in VolumeWork, to func(size int64) (io.Writer, error)) error
	// HashVolume computes the SHA-256 of the volume's file and tells in.Hashed. It refuses one with which a guest runs, or that changes meanwhile.
	HashVolume(ctx context.Context, in VolumeWork) error
	// CopyVolume copies Order.Source of the pool in.Source (nil: of the same) byte by byte, tells in.Hashed of both, and refuses bytes that
	// are not those of Order.Checksum. Where Order.Flatten is set the source is a disk, whose chain within its pool becomes one qcow2 image.
	// It refuses one with which a guest runs, or that changes meanwhile; that others stand on the source does not matter.
	CopyVolume(ctx context.Context, in VolumeWork) error
	// ConvertVolume makes a qcow2 image of Order.Source of the pool in.Source (nil: of the same): of a disk in another format, or of the disk that is
	// Order.Member of an OVA archive, whose checksum it verifies. It opens no other file than the source's, whatever that names, and refuses what
	// does not stand alone, what its header says is larger than there is room for, and what a guest runs with.
	ConvertVolume(ctx context.Context, in VolumeWork) error
	// ExportVolume makes an OVA archive of the disks of Order.Export, each with what it stands on, and of its description. It refuses disks with which a
	// guest runs, and begins only where there is room for all of it.
	ExportVolume(ctx context.Context, in VolumeWork) error
	// SendVolume gives the volume's file to Send, and tells in.Hashed where it reads all of it. It refuses one with which a guest runs, or that
	// changes meanwhile.
	SendVolume(ctx context.Context, in VolumeWork) error
	// ReceiveVolume takes in what another host sends, by Arrive. It is checked by Order.Checksum where there is one, looked at as a download is
	// before it has its name, and with Order.Transfer.Check read back from its storage. in.Hashed is told of it. What fails leaves nothing.
	ReceiveVolume(ctx context.Context, in VolumeWork) error
	// GrowVolume makes it as large as asked for; as large already: nothing. It refuses to shrink, and what anybody uses.
	GrowVolume(ctx context.Context, in VolumeWork) error
	// WipeVolume puts zeros in the place of all data and keeps size and format. It refuses what anybody uses.
	WipeVolume(ctx context.Context, in VolumeWork) error
	// DeleteVolume refuses what anybody uses. Gone already: nothing.
	DeleteVolume(ctx context.Context, in VolumeWork) error

	// Console dials the VM's local VNC endpoint.
	Console(ctx context.Context, id fleet.VMID) (net.Conn, error)

	// Close ends all connections.
	Close() error
}

// Assigned is what a host is to execute, as the portal last said.
type Assigned struct {
	Pools    []fleet.Pool
	Networks []fleet.Network
	Hashed   map[fleet.Volref]Hashed // checksums that were computed on this host: Snapshot tells those whose files are as they were
}

// Progress is told how far a long step is: percent 0…100 and what is being done. It never blocks.
type Progress func(percent int, note string)

// ErrNotRunning is returned by Console, RebootVM and ResetVM for a guest that is not running.
var ErrNotRunning = errors.New("the VM is not running")

// ErrAway is in every error that says no more than that the hypervisor was not reached or did not answer: it may be tried again.
var ErrAway = errors.New("the hypervisor is away")

// Away marks err as such an error. Its words stay.
func Away(err error) error {
	if err == nil {
		return nil
	}
	return away{err}
}

type away struct{ error }

func (a away) Unwrap() []error { return []error{a.error, ErrAway} }
