package fleet

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Meta is what every VM carries besides its spec and status. Generation counts people's changes; ObservedGeneration is
// the newest generation that the host has acted on, with or without success.
type Meta struct {
	ID                 VMID              `json:"id"`
	Name               string            `json:"name"`
	ProjectID          ProjectID         `json:"projectId"`
	HostID             HostID            `json:"hostId"`
	Labels             map[string]string `json:"labels"`
	Description        string            `json:"description"`
	Generation         int64             `json:"generation"`
	ObservedGeneration int64             `json:"observedGeneration"`
	Ordered            Power             `json:"ordered,omitempty"` // the power that the newest order asks for which has not ended; empty: nothing is ordered
	CreatedAt          time.Time         `json:"createdAt"`
	DeletedAt          *time.Time        `json:"deletedAt,omitempty"` // set: deletion is asked for, the host has not yet done it
	Protection         VMProtection      `json:"guard,omitzero"`
	ScheduleTrouble    string            `json:"scheduleTrouble,omitempty"` // why a person is needed for a snapshot schedule of it, in a sentence
	Misplaced          []int             `json:"misplaced,omitempty"`       // which of the spec's required rules its place breaks, as the portal found last
}

// VM is one virtual machine: Spec is what people want, Status what its host last reported (nil: never).
type VM struct {
	Meta
	Spec      VMSpec     `json:"spec"`
	Status    *VMStatus  `json:"status"`
	Elsewhere []Sighting `json:"elsewhere,omitempty"` // what other hosts say about domains of this VM
}

// VMSpec is the intent for a VM.
type VMSpec struct {
	Power     Power    `json:"power"` // running, paused or stopped: the last order a person gave; never enforced against the guest's own power-off
	CPUs      int      `json:"cpus"`
	MemoryMiB int      `json:"memoryMiB"`
	Firmware  Firmware `json:"firmware"`
	Disks     []Disk   `json:"disks"`
	NICs      []NIC    `json:"nics"`
	ISO       *Volref  `json:"iso,omitempty"` // an ISO image in the CD-ROM drive

	CPU      VMCPU      `json:"cpu,omitzero"`
	Memory   VMMemory   `json:"memory,omitzero"`
	Boot     VMBoot     `json:"boot,omitzero"`
	Display  VMDisplay  `json:"display,omitzero"`
	Security VMSecurity `json:"security,omitzero"`
	Devices  VMDevices  `json:"devices,omitzero"`
	Policy   VMPolicy   `json:"policy,omitzero"`

	Drives      []VMDrive       `json:"drives,omitempty"`      // beside the first CD-ROM
	HostDevices []VMHostDevice  `json:"hostDevices,omitempty"` // that the guest has for itself
	Shares      []VMShare       `json:"shares,omitempty"`      // folders that it shares with its host
	Rules       []PlacementRule `json:"rules,omitempty"`       // where it may be
	Health      []HealthCheck   `json:"health,omitempty"`      // what its host asks the guest again and again
	Migration   VMMigration     `json:"migration,omitzero"`

	Placement VMPlacement `json:"placement,omitzero"` // beside Rules

	NUMA []VMNUMANode `json:"numa,omitempty"` // that the guest sees; none: it sees one

	FirstBoot VMFirstBoot `json:"firstBoot,omitzero"` // set by the portal: see FirstBoot
}

// Pools lists the pools that the spec names, each once, in order of first mention.
func (s VMSpec) Pools() []PoolID {
	var ids []PoolID
	add := func(id PoolID) {
		if id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	for _, d := range s.Disks {
		add(d.PoolID)
		if d.Image != nil {
			add(d.Image.PoolID)
		}
	}
	for _, m := range s.Media() {
		add(m.PoolID)
	}
	return ids
}

// Firmware is "bios" (SeaBIOS) or "uefi" (OVMF).
type Firmware string

const (
	BIOS Firmware = "bios"
	UEFI Firmware = "uefi"
)

// Volref names a volume: a pool and the volume's name in it.
type Volref struct {
	PoolID PoolID `json:"poolId"`
	Volume string `json:"volume"`
}

// Disk is a disk kept as a volume of its own: see Disk.FileFormat for those in a pool of files; in others it is raw. The agent creates the volume: empty, as a
// full copy of Image, or as an overlay on it. An existing one it takes as it is, and never makes, changes or deletes.
type Disk struct {
	PoolID    PoolID  `json:"poolId"`
	Volume    string  `json:"volume"`             // set by the portal when the disk is added, but for an existing one
	SizeBytes int64   `json:"sizeBytes"`          // with Image: 0 keeps the image's size, more grows it
	Image     *Volref `json:"image,omitempty"`    // the volume it is cloned from
	Existing  bool    `json:"existing,omitempty"` // it is a volume that was there before: a LUN of a pool that makes none, or a shareable one

	ImageID   ImageID        `json:"imageId,omitempty"`   // the library's image that it is cloned from: the portal chooses the copy
	VersionID ImageVersionID `json:"versionId,omitempty"` // of the image; empty: the newest, when it is asked for
	// ImageSHA256 is the version's checksum, where it was known when the VM was made: set by the portal, for the host.
	ImageSHA256 string `json:"imageSha256,omitempty"`
	Overlay     bool   `json:"overlay,omitempty"` // it stands on the image, of which a copy must be in its pool, instead of being a full copy
	// Encryption is luks where the disk is encrypted when it is made, with a passphrase that its host makes and keeps for itself; empty: it is not.
	Encryption string `json:"encryption,omitempty"`
	Format     string `json:"format,omitempty"` // of its file, when it is made: raw; empty: as its pool has it, qcow2 in a pool of files

	// How the guest has it: see DiskFields. The zero value of each is the usual.
	Bus       string     `json:"bus,omitempty"`       // scsi, sata, usb, ide or nvme: see DiskBuses; empty: virtio
	Cache     string     `json:"cache,omitempty"`     // none, writeback, writethrough, directsync or unsafe; empty: none where the storage can, else QEMU's own
	Discard   string     `json:"discard,omitempty"`   // ignore; empty: what the guest frees is freed
	IO        string     `json:"io,omitempty"`        // native, threads or io_uring; empty: QEMU's own
	BootOrder int        `json:"bootOrder,omitempty"` // 1 is tried first; 0: not by number
	Serial    string     `json:"serial,omitempty"`    // that the guest reads
	ReadOnly  bool       `json:"readOnly,omitempty"`
	Shareable bool       `json:"shareable,omitempty"` // other VMs that have it so may run with the same volume, which is raw
	Limits    DiskLimits `json:"limits,omitzero"`
}

// DiskLimits are what a guest may do with a disk in a second; 0: as much as it can. A total goes with neither reads nor writes of its kind.
// Bursts are above the limits, for as many seconds.
type DiskLimits struct {
	TotalIOPS    int `json:"totalIops,omitempty"`
	ReadIOPS     int `json:"readIops,omitempty"`
	WriteIOPS    int `json:"writeIops,omitempty"`
	TotalKiB     int `json:"totalKiB,omitempty"`
	ReadKiB      int `json:"readKiB,omitempty"`
	WriteKiB     int `json:"writeKiB,omitempty"`
	BurstIOPS    int `json:"burstIops,omitempty"` // in place of TotalIOPS
	BurstKiB     int `json:"burstKiB,omitempty"`  // in place of TotalKiB
	BurstSeconds int `json:"burstSeconds,omitempty"`
}

// Ref names the disk's volume.
func (d Disk) Ref() Volref { return Volref{PoolID: d.PoolID, Volume: d.Volume} }

// NIC is a network card on one network: a libvirt network or a bridge device of the host. Whoever asks for a card gives the
// network's id or its name; the portal keeps the id, and shows both. Hosts know the name.
type NIC struct {
	NetworkID NetworkID `json:"networkId,omitempty"`
	Network   string    `json:"network,omitempty"` // name of a libvirt network on the host
	Bridge    string    `json:"bridge,omitempty"`  // name of a bridge device on the host
	MAC       string    `json:"mac"`               // set by the portal when empty

	// What passes the card: see SecurityGroup. A card in no group lets all pass.
	SecurityGroups []SecurityGroupID `json:"securityGroups,omitempty"`
	AntiSpoofing   *bool             `json:"antiSpoofing,omitempty"` // its guest may use no other address; nil: as is usual for who makes the card
	PortGroup      string            `json:"portGroup,omitempty"`    // of a network that is defined here; empty: the network itself

	// Set by the portal: these come from the port group, whose defaults they follow, until the card names its own.
	DefaultGroups       bool `json:"defaultGroups,omitempty"`
	DefaultAntiSpoofing bool `json:"defaultAntiSpoofing,omitempty"`

	// How the guest has it: see NICFields. The zero value of each is the usual.
	Model     string    `json:"model,omitempty"`     // e1000e or rtl8139; empty: virtio
	LinkDown  bool      `json:"linkDown,omitempty"`  // its cable is out
	Queues    int       `json:"queues,omitempty"`    // of a virtio card; 0: one
	BootOrder int       `json:"bootOrder,omitempty"` // 1 is tried first; 0: not by number
	Limits    NICLimits `json:"limits,omitzero"`
}

// NICLimits are what may pass a card in a second, in KiB; 0: as much as can. In is what comes to the guest. Peaks are above, for as many KiB as the burst.
type NICLimits struct {
	InKiB       int `json:"inKiB,omitempty"`
	InPeakKiB   int `json:"inPeakKiB,omitempty"`
	InBurstKiB  int `json:"inBurstKiB,omitempty"`
	OutKiB      int `json:"outKiB,omitempty"`
	OutPeakKiB  int `json:"outPeakKiB,omitempty"`
	OutBurstKiB int `json:"outBurstKiB,omitempty"`
}

// Power is the power state of a guest.
type Power string

const (
	Running Power = "running"
	Paused  Power = "paused"
	Stopped Power = "stopped"
	Crashed Power = "crashed" // reported only
	Absent  Power = "absent"  // reported only: the host has no such domain
)

// VMStatus is what the host last said about a VM. It holds nothing that changes by itself from one look to the next.
type VMStatus struct {
	Power         Power           `json:"power"`
	Reason        string          `json:"reason,omitempty"`       // libvirt's word for why: "I/O error", "migration", …
	CPUs          int             `json:"cpus"`                   // of the running guest, else of the definition
	MemoryMiB     int             `json:"memoryMiB"`              // likewise
	BalloonMiB    int             `json:"balloonMiB,omitempty"`   // what its host leaves the running guest of what it may use, as the host is short of memory; 0: all
	MaxCPUs       int             `json:"maxCpus,omitempty"`      // how many the running guest can get without a restart; 0: no more
	MaxMemory     int             `json:"maxMemoryMiB,omitempty"` // likewise
	MinCPUs       int             `json:"minCpus,omitempty"`      // how few vCPUs the running guest can have without a restart; 0: no fewer than it has
	Modules       []Module        `json:"modules,omitempty"`      // memory that the running guest got since its start, in the order in which it came
	PendingUnplug []PendingUnplug `json:"heldBack,omitempty"`     // what the running guest was asked for, and has not let go of; its fields are in NextBoot, too
	NextBoot      []string        `json:"nextBoot,omitempty"`     // spec fields that the running guest gets at its next start: "cpus", "memoryMiB", …
	Disks         []DiskState     `json:"disks,omitempty"`
	NICs          []NICState      `json:"nics,omitempty"`
	StartedAt     *time.Time      `json:"startedAt,omitempty"`
	Error         string          `json:"error,omitempty"`       // the hypervisor's own words about the last order that failed; empty after a success
	ErrorOf       JobKind         `json:"errorOf,omitempty"`     // which order that was
	Accelerator   string          `json:"accelerator,omitempty"` // "kvm" or "qemu" (emulation)
	Domain        string          `json:"domain,omitempty"`      // the domain's name in "virsh list", where it is not the VM's
	Faults        []Fault         `json:"faults,omitempty"`      // what is wrong with it now and waits for a person
	Drift         []Drift         `json:"drift,omitempty"`       // what somebody changed on the host

	Snapshots *SnapshotTree `json:"snapshots,omitempty"` // nil: it has none
	Guest     *GuestStatus  `json:"guest,omitempty"`     // what the guest says of itself; nil: it is off, or an older agent tells nothing
	Policy    VMPolicy      `json:"policy,omitzero"`     // by which its host acts
	Checks    []HealthCheck `json:"checks,omitempty"`    // that its host asks
	Health    []HealthState `json:"health,omitempty"`    // what it found of them
	Launch    *LaunchInfo   `json:"launch,omitempty"`    // of the guest that is on, where its memory is encrypted
	Restarts  int           `json:"restarts,omitempty"`  // how often its host has started it again by itself since it last ran for a while
}

// FaultCode says what kind of thing is wrong, so that a page can offer the way out.
type FaultCode string

const (
	FaultDisk      FaultCode = "disk"      // a disk that was made is not there: restore it, detach it, or ask for a new one
	FaultRebooted  FaultCode = "rebooted"  // it ran when its host went down, and is off since
	FaultIO        FaultCode = "io"        // QEMU paused it, because its storage is full or fails
	FaultTwoPlaces FaultCode = "twoPlaces" // two hosts run it: the portal's own finding
	FaultElsewhere FaultCode = "elsewhere" // another host has it on while its own is not heard: likewise
	FaultRestart   FaultCode = "restart"   // it went off by itself, and its host starts it again, or could not
	FaultSchedule  FaultCode = "schedule"  // a snapshot schedule of it takes nothing: the portal's own finding
	FaultExpiry    FaultCode = "expiry"    // it is at its end, or near it: the portal's own finding
	FaultHealth    FaultCode = "health"    // the guest fails health checks
	FaultPlacement FaultCode = "placement" // where it is breaks a required rule: the portal's own finding
	FaultUndefined FaultCode = "undefined" // it runs, but its definition was removed on the host: put it back, or it is gone when it stops
	FaultLost      FaultCode = "lost"      // it runs, but its host's hypervisor takes it for off: nothing is done to it
	FaultUnread    FaultCode = "unread"    // its host cannot read its definition
)

// Fault is one thing that is wrong with a VM on its host. It stands until it is so no more; no order takes it away.
type Fault struct {
	Code FaultCode `json:"code"`
	Disk *Volref   `json:"disk,omitempty"` // which one, for FaultDisk; for FaultIO where it is known
	Text string    `json:"text"`           // a sentence for people: "Disk 1 (pool fast, volume web-1.qcow2) is not on host-1: …"
}

// FaultOf is the fault that says the disk is not there; nil: none does.
func (vm VM) FaultOf(disk Volref) *Fault {
	if vm.Status == nil {
		return nil
	}
	for i, f := range vm.Status.Faults {
		if f.Code == FaultDisk && f.Disk != nil && *f.Disk == disk {
			return &vm.Status.Faults[i]
		}
	}
	return nil
}

// Drift is a field of the VM that has one value in what was last applied on the host and another in the definition there:
// somebody changed it beside Quantix, or the portal's database was restored to before it was changed. Nothing undoes it but
// "Put back"; "Take over" makes it the intent.
type Drift struct {
	Field   string          `json:"field"`          // "name", or the JSON name of a field of VMSpec: "cpus", "memoryMiB", …
	Applied string          `json:"applied"`        // in words: what was last applied
	Actual  string          `json:"actual"`         // in words: what the definition says
	Take    json.RawMessage `json:"take,omitempty"` // the actual value as the field's JSON; absent: it cannot be taken over; null for an ISO: none
}

// FilterDrifted notes that the filter of a card is not as Quantix left it: the card shows it, and the VM's drift, which a person puts back.
func (s *VMStatus) FilterDrifted(mac, said string) {
	for i := range s.NICs {
		if strings.EqualFold(s.NICs[i].MAC, mac) {
			s.NICs[i].FilterDrift = said
		}
	}
	if !slices.ContainsFunc(s.Drift, func(d Drift) bool { return d.Field == "nics" }) {
		s.Drift = append(slices.Clip(s.Drift), Drift{Field: "nics", Applied: mac + " with the network filter that Quantix made", Actual: said})
	}
}

// Failure names the last order, where it failed: "Start failed".
func (s VMStatus) Failure() string { return cmp.Or(s.ErrorOf.Is().Verb, "The last order") + " failed" }

// DiskState is one disk as the host has it.
type DiskState struct {
	Target     string `json:"target"` // "vda"
	Path       string `json:"path"`
	SizeBytes  int64  `json:"sizeBytes"`
	AllocBytes int64  `json:"allocBytes"`
	// Volume is the spec's disk that this is, told only while its file is there and whole; nil: of no spec, or not there.
	Volume *Volref `json:"volume,omitempty"`
}

// NICState is one network card as the host has it.
type NICState struct {
	MAC       string   `json:"mac"`
	Source    string   `json:"source"` // "network default", "bridge br0"
	Addresses []string `json:"addresses,omitempty"`
	Filter    string   `json:"filter,omitempty"` // the name of the network filter that it has

	FilterDrift string `json:"filterDrift,omitempty"` // what somebody changed of that filter, which Quantix had made, in words

	Seen []SeenAddress `json:"seen,omitempty"` // the same with how the host knows them; older agents do not tell
}

// VMView is a VM as people see it: with its derived phase and the names it refers to.
type VMView struct {
	VM
	Phase       Phase      `json:"phase"`
	Attention   bool       `json:"attention"` // it waits for a person: see VM.NeedsAttention
	HostName    string     `json:"hostName"`
	ProjectName string     `json:"projectName"`
	SeenAt      *time.Time `json:"seenAt"` // when the host was last heard (database time)
	// CPUPercent is the load of a running VM in lists; 100 is one core. nil: not running, or no load known of the last minute.
	CPUPercent *float64 `json:"cpuPercent,omitempty"`
	Barred     string   `json:"barred,omitempty"` // why the lock keeps whoever looks from changing it; empty: it does not
}

// DiscoveredVM is a domain that a host runs and Quantix did not make: shown, never touched.
type DiscoveredVM struct {
	ID       VMID       `json:"id"` // the libvirt domain's UUID
	HostID   HostID     `json:"hostId"`
	HostName string     `json:"hostName,omitempty"`
	Name     string     `json:"name"`
	Status   VMStatus   `json:"status"`
	Phase    Phase      `json:"phase,omitempty"`
	SeenAt   *time.Time `json:"seenAt,omitempty"`
}
