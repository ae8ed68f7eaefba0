package fleet

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Meta holds a VM's identity and bookkeeping, apart from its spec and status. Generation counts the changes of the
// spec. ObservedGeneration is the newest generation that the host has acted on, successfully or not.
type Meta struct {
	ID                 VMID              `json:"id"`
	Name               string            `json:"name"`
	ProjectID          ProjectID         `json:"projectId"`
	HostID             HostID            `json:"hostId"`
	Labels             map[string]string `json:"labels"`
	Description        string            `json:"description"`
	Generation         int64             `json:"generation"`
	ObservedGeneration int64             `json:"observedGeneration"`
	// RequestedPower: power state requested by the newest unfinished task; empty: no such task
	RequestedPower Power     `json:"ordered,omitempty"`
	CreatedAt      time.Time `json:"createdAt"`
	// DeletedAt is set while a requested deletion is not finished on the host.
	DeletedAt  *time.Time   `json:"deletedAt,omitempty"`
	Protection VMProtection `json:"protection,omitzero"`
	// ScheduleTrouble: why a snapshot schedule of the VM needs attention, as a sentence
	ScheduleTrouble string `json:"scheduleTrouble,omitempty"`
	// Misplaced: indexes of the required placement rules that the current host breaks, as the portal last computed them
	Misplaced []int `json:"misplaced,omitempty"`
}

// VM is one virtual machine. Spec is the configuration that users request; Status is the host's last report (nil:
// never reported).
type VM struct {
	Meta
	Spec      VMSpec     `json:"spec"`
	Status    *VMStatus  `json:"status"`
	Sightings []Sighting `json:"elsewhere,omitempty"` // reports of other hosts about a domain with this VM's UUID
	Adoption  *Adoption  `json:"adoption,omitempty"`  // nil: Quantix created the VM
}

// VMSpec is the requested configuration of a VM.
type VMSpec struct {
	// Power is the power state that a user last requested: running, paused or stopped. It is not enforced after the
	// guest powers off on its own.
	Power     Power    `json:"power"`
	CPUs      int      `json:"cpus"`
	MemoryMiB int      `json:"memoryMiB"`
	Firmware  Firmware `json:"firmware"`
	Disks     []Disk   `json:"disks"`
	NICs      []NIC    `json:"nics"`
	ISO       *Volref  `json:"iso,omitempty"` // ISO image in the first CD-ROM drive

	CPU      VMCPU      `json:"cpu,omitzero"`
	Memory   VMMemory   `json:"memory,omitzero"`
	Boot     VMBoot     `json:"boot,omitzero"`
	Display  VMDisplay  `json:"display,omitzero"`
	Security VMSecurity `json:"security,omitzero"`
	Devices  VMDevices  `json:"devices,omitzero"`
	Policy   VMPolicy   `json:"policy,omitzero"`

	Drives      []VMDrive       `json:"drives,omitempty"`      // drives beside the first CD-ROM
	HostDevices []VMHostDevice  `json:"hostDevices,omitempty"` // passed-through host devices that an operator chose
	Shares      []VMShare       `json:"shares,omitempty"`      // virtiofs folders shared with the host
	Rules       []PlacementRule `json:"rules,omitempty"`       // placement rules, such as affinity
	Health      []HealthCheck   `json:"health,omitempty"`      // health checks that the host runs against the guest
	Migration   VMMigration     `json:"migration,omitzero"`

	Placement VMPlacement `json:"placement,omitzero"` // taints that the VM tolerates; Rules holds the placement rules

	DeviceClasses []VMDeviceClass `json:"deviceClasses,omitempty"` // passed-through host devices that placement chooses

	NUMA []VMNUMANode `json:"numa,omitempty"` // virtual NUMA nodes of the guest; empty: one node

	FirstBoot VMFirstBoot `json:"firstBoot,omitzero"` // guest initialization; set by the portal: see FirstBoot
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

// Volref names a volume by its pool and its name in that pool.
type Volref struct {
	PoolID PoolID `json:"poolId"`
	Volume string `json:"volume"`
}

// Disk is a virtual disk on its own volume. Disk.FileFormat returns its format in a file pool; in block pools the
// format is raw. The agent creates the volume empty, as a full copy of Image, or as an overlay backed by Image. A
// volume with Existing set is used unchanged: the agent never creates, changes or deletes it.
type Disk struct {
	PoolID PoolID `json:"poolId"`
	// Volume: name of the disk's volume; set by the portal when the disk is added, except for an existing volume
	Volume string `json:"volume"`
	// SizeBytes: with Image, 0 means the image's size, and a larger value grows the disk
	SizeBytes int64   `json:"sizeBytes"`
	Image     *Volref `json:"image,omitempty"` // source volume of the clone
	// Existing: the disk uses an existing volume: a LUN of a pool where Quantix creates no volumes, or a shareable
	// volume
	Existing bool `json:"existing,omitempty"`

	// ImageID: source image of the library; the portal chooses which copy is cloned
	ImageID ImageID `json:"imageId,omitempty"`
	// VersionID: version of the image; empty: the newest at the time of the request
	VersionID ImageVersionID `json:"versionId,omitempty"`
	// ImageSHA256 is the image version's checksum, if it was known when the VM was created. The portal sets it for the
	// host.
	ImageSHA256 string `json:"imageSha256,omitempty"`
	// Overlay: the disk is an overlay backed by the image's copy in the disk's pool; false: the disk is a full copy
	Overlay bool `json:"overlay,omitempty"`
	// Encryption is "luks" if the disk is created with encryption. The host generates and stores the passphrase. Empty:
	// no encryption.
	Encryption string `json:"encryption,omitempty"`
	// Format: file format at creation: raw; empty: the pool's default, which is qcow2 in a file pool
	Format string `json:"format,omitempty"`

	// Properties of the device that the guest sees: see DiskFields. The zero value of each is the default.
	Bus string `json:"bus,omitempty"` // scsi, sata, usb, ide or nvme: see DiskBuses; empty: virtio
	// Cache: none, writeback, writethrough, directsync or unsafe; empty: none if the storage supports it, else QEMU's
	// default
	Cache     string `json:"cache,omitempty"`
	Discard   string `json:"discard,omitempty"`   // ignore; empty: discards by the guest free space in the volume
	IO        string `json:"io,omitempty"`        // native, threads or io_uring; empty: QEMU's default
	BootOrder int    `json:"bootOrder,omitempty"` // 1 is tried first; 0: no explicit order
	Serial    string `json:"serial,omitempty"`    // serial number that the guest reads
	ReadOnly  bool   `json:"readOnly,omitempty"`
	// Shareable: the raw volume may be attached to several running VMs, if each of them sets Shareable
	Shareable bool       `json:"shareable,omitempty"`
	Limits    DiskLimits `json:"limits,omitzero"`
}

// DiskLimits are a disk's I/O limits per second; 0 means unlimited. A total limit excludes separate read and write
// limits of the same kind. Burst limits replace the total limit for at most BurstSeconds seconds.
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

// Ref returns the reference of the disk's volume.
func (d Disk) Ref() Volref { return Volref{PoolID: d.PoolID, Volume: d.Volume} }

// NIC is a VM's virtual network interface on one network: a libvirt network or a bridge device of the host. A request
// gives the network's ID or its name. The portal stores the ID and shows both; hosts use the name.
type NIC struct {
	NetworkID NetworkID `json:"networkId,omitempty"`
	Network   string    `json:"network,omitempty"` // name of a libvirt network on the host
	Bridge    string    `json:"bridge,omitempty"`  // name of a bridge device on the host
	MAC       string    `json:"mac"`               // set by the portal if empty

	// Traffic filtering of the NIC: see SecurityGroup. A NIC without a group is not filtered.
	SecurityGroups []SecurityGroupID `json:"securityGroups,omitempty"`
	// AntiSpoofing: the guest may send only from its own addresses; nil: the default for the user who creates the NIC
	AntiSpoofing *bool `json:"antiSpoofing,omitempty"`
	// PortGroup is the name of a port group of the managed network; empty: the NIC is in no port group
	PortGroup string `json:"portGroup,omitempty"`

	// Set by the portal: the NIC's security groups and anti-spoofing follow the port group's defaults until an edit of
	// the NIC sets them.
	DefaultGroups       bool `json:"defaultGroups,omitempty"`
	DefaultAntiSpoofing bool `json:"defaultAntiSpoofing,omitempty"`

	// Properties of the device that the guest sees: see NICFields. The zero value of each is the default.
	Model     string    `json:"model,omitempty"`     // e1000e or rtl8139; empty: virtio
	LinkDown  bool      `json:"linkDown,omitempty"`  // the virtual cable is unplugged
	Queues    int       `json:"queues,omitempty"`    // queues of a virtio NIC; 0: one
	BootOrder int       `json:"bootOrder,omitempty"` // 1 is tried first; 0: no explicit order
	Limits    NICLimits `json:"limits,omitzero"`
}

// NICLimits are a NIC's bandwidth limits in KiB per second; 0 means unlimited. In is traffic to the guest, Out from the
// guest. The peak rate applies instead of the limit for as many KiB as the burst.
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
	Crashed Power = "crashed" // only in reports
	Absent  Power = "absent"  // only in reports: the host has no such domain
)

// VMStatus is the host's last report on a VM. Its values do not change while nothing happens to the VM.
type VMStatus struct {
	Power Power `json:"power"`
	// Reason: libvirt's reason for the power state: "I/O error", "migration", …
	Reason string `json:"reason,omitempty"`
	// CPUs: vCPUs of the running guest, or of the definition while the VM is off
	CPUs int `json:"cpus"`
	// MemoryMiB: memory of the running guest, or of the definition while the VM is off
	MemoryMiB int `json:"memoryMiB"`
	// BalloonMiB: memory that the balloon leaves to the running guest while its host is short of memory; 0: all memory
	BalloonMiB int `json:"balloonMiB,omitempty"`
	// MaxCPUs: maximum vCPUs that the running guest can reach without a restart; 0: the current number
	MaxCPUs int `json:"maxCpus,omitempty"`
	// MaxMemory: maximum memory that the running guest can reach without a restart; 0: the current amount
	MaxMemory int `json:"maxMemoryMiB,omitempty"`
	// MinCPUs: minimum vCPUs that the running guest can reach without a restart; 0: the current number
	MinCPUs int `json:"minCpus,omitempty"`
	// Modules: memory modules hot-plugged since the guest's start, oldest first
	Modules []Module `json:"modules,omitempty"`
	// PendingUnplug: devices whose hot-unplug the guest has not completed. NextBoot also lists the devices' spec fields.
	PendingUnplug []PendingUnplug `json:"pendingUnplug,omitempty"`
	// NextBoot: spec fields whose changes take effect at the running guest's next start: "cpus", "memoryMiB", …
	NextBoot  []string    `json:"nextBoot,omitempty"`
	Disks     []DiskState `json:"disks,omitempty"`
	NICs      []NICState  `json:"nics,omitempty"`
	StartedAt *time.Time  `json:"startedAt,omitempty"`
	// Error: the hypervisor's message about the last failed job; empty after a success
	Error       string  `json:"error,omitempty"`
	ErrorOf     JobKind `json:"errorOf,omitempty"`     // kind of the job that failed with Error
	Accelerator string  `json:"accelerator,omitempty"` // "kvm" or "qemu" (emulation)
	// Domain: the domain's name in "virsh list", if it differs from the VM's name
	Domain string  `json:"domain,omitempty"`
	Faults []Fault `json:"faults,omitempty"` // current problems that need attention
	Drift  []Drift `json:"drift,omitempty"`  // differences between the host's definition and the spec

	Snapshots *SnapshotTree `json:"snapshots,omitempty"` // nil: no snapshots
	// Guest: report of the guest agent; nil: the VM is off, or an older agent does not report it
	Guest  *GuestStatus  `json:"guest,omitempty"`
	Policy VMPolicy      `json:"policy,omitzero"`  // the policy that the host applies
	Checks []HealthCheck `json:"checks,omitempty"` // health checks that the host runs
	Health []HealthState `json:"health,omitempty"` // results of Checks
	// Launch: launch measurement of the running guest, if its memory is encrypted
	Launch *LaunchInfo `json:"launch,omitempty"`
	// NoConsole: why Quantix cannot show the running guest's screen, as a sentence. Only for discovered VMs
	NoConsole string `json:"noConsole,omitempty"`
	// Transient: the host has no persistent definition of the running guest, so it loses the VM when the guest stops.
	// Only for discovered VMs: a VM of Quantix has FaultUndefined
	Transient bool `json:"transient,omitempty"`
	// Unmigratable: why the definition of an adopted VM cannot go to another host, as a sentence that names the element
	Unmigratable string `json:"unmigratable,omitempty"`
	// Restarts: number of automatic restarts by the host. The host resets the number after the VM has run for some time.
	Restarts int `json:"restarts,omitempty"`
}

// FaultCode identifies a kind of problem, so that pages can show the matching remedy.
type FaultCode string

const (
	FaultDisk      FaultCode = "disk"      // a disk's volume is missing: restore it, detach the disk, or create a new one
	FaultRebooted  FaultCode = "rebooted"  // the VM ran when its host went down and has been off since
	FaultIO        FaultCode = "io"        // QEMU paused the VM because its storage is full or fails
	FaultTwoPlaces FaultCode = "twoPlaces" // two hosts run the VM; the portal finds this
	FaultElsewhere FaultCode = "elsewhere" // another host runs the VM while the VM's own host is offline; the portal finds this
	FaultRestart   FaultCode = "restart"   // the VM stopped without a request, and its host restarts it or failed to
	FaultSchedule  FaultCode = "schedule"  // a snapshot schedule of the VM takes no snapshots; the portal finds this
	FaultExpiry    FaultCode = "expiry"    // the VM has expired or will soon; the portal finds this
	FaultHealth    FaultCode = "health"    // the guest fails health checks
	FaultPlacement FaultCode = "placement" // the VM's host breaks a required placement rule; the portal finds this
	// FaultUndefined: the VM runs without a persistent definition on the host. The host loses the VM when the guest stops,
	// unless a user reapplies the VM before.
	FaultUndefined FaultCode = "undefined"
	// FaultLost: the VM's QEMU process runs but libvirt reports the VM as off; the agent does not change it
	FaultLost   FaultCode = "lost"
	FaultUnread FaultCode = "unread" // the host cannot read the VM's definition
)

// Fault is one problem of a VM on its host. It lasts as long as the problem; no task clears it.
type Fault struct {
	Code FaultCode `json:"code"`
	Disk *Volref   `json:"disk,omitempty"` // affected disk: always set for FaultDisk, and for FaultIO if known
	// Text: sentence for users: "Disk 1 (pool fast, volume web-1.qcow2) is not on host-1: …"
	Text string `json:"text"`
}

// MissingDiskFault returns the fault that reports the disk's volume as missing, or nil.
func (vm VM) MissingDiskFault(disk Volref) *Fault {
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

// Drift is a field of a VM, pool or network whose value in the host's definition differs from the last applied one. The
// cause is a change outside Quantix, or a restore of the portal's database from a backup. Drift stays until a user
// reapplies the spec or accepts the drift into the spec.
type Drift struct {
	// For a VM: "name", or the JSON name of a field of VMSpec: "cpus", "memoryMiB", …
	// For a pool or network: a field of drift.PoolFields or drift.NetworkFields
	Field   string `json:"field"`
	Applied string `json:"applied"` // last applied value, as text
	Actual  string `json:"actual"`  // value in the host's definition, as text
	// Take is the actual value as the field's JSON; absent: users cannot accept the drift; null for the field iso: no ISO
	Take json.RawMessage `json:"take,omitempty"`
	// Ignored: a user ignores the drift until Actual changes. Set by the portal, never by an agent
	Ignored bool `json:"ignored,omitempty"`
}

// HasOpenDrift reports whether the list has drift that nobody ignores.
func HasOpenDrift(all []Drift) bool {
	return slices.ContainsFunc(all, func(d Drift) bool { return !d.Ignored })
}

// RecordFilterDrift records that a NIC's network filter on the host differs from the filter that Quantix defined. It
// adds the difference to the NIC's status and to the VM's drift. Users can reapply the filter.
func (s *VMStatus) RecordFilterDrift(mac, drift string) {
	for i := range s.NICs {
		if strings.EqualFold(s.NICs[i].MAC, mac) {
			s.NICs[i].FilterDrift = drift
		}
	}
	if !slices.ContainsFunc(s.Drift, func(d Drift) bool { return d.Field == "nics" }) {
		s.Drift = append(slices.Clip(s.Drift), Drift{Field: "nics", Applied: mac + " with the network filter that Quantix defined", Actual: drift})
	}
}

// FailureHeading names the last failed task as a heading: "Start failed".
func (s VMStatus) FailureHeading() string {
	return cmp.Or(s.ErrorOf.Info().Verb, "The last task") + " failed"
}

// DiskState is one disk as the host reports it.
type DiskState struct {
	Target     string `json:"target"` // "vda"
	Path       string `json:"path"`
	SizeBytes  int64  `json:"sizeBytes"`
	AllocBytes int64  `json:"allocBytes"`
	// Volume is the volume of the spec's disk that has this path. Nil: the spec has no such disk, or the file is missing
	// or incomplete.
	Volume *Volref `json:"volume,omitempty"`
}

// NICState is one NIC as the host reports it.
type NICState struct {
	MAC       string   `json:"mac"`
	Source    string   `json:"source"` // "network default", "bridge br0"
	Addresses []string `json:"addresses,omitempty"`
	Filter    string   `json:"filter,omitempty"` // name of the NIC's network filter

	// FilterDrift: difference between Filter and the network filter that Quantix defined, as text
	FilterDrift string `json:"filterDrift,omitempty"`

	Seen []SeenAddress `json:"seen,omitempty"` // Addresses, each with its sources; older agents do not report it
}

// whyUnreachable is the reason against actions that need the VM's host, if the host is offline or powered off.
func (v VMView) whyUnreachable() string {
	switch {
	case v.Phase == PhaseUnknown:
		return "Its host is offline, so the VM's state is unknown."
	case v.OffWithHost():
		return "Its host is powered off. Power the host on first."
	}
	return ""
}

// OffWithHost reports whether the VM is off on a host that is powered off for maintenance: see VM.IsKnownOff.
func (v VMView) OffWithHost() bool {
	return v.HostMaintenance == MaintenancePoweredOff && v.Phase == PhaseStopped
}

// VMView is a VM as the API and pages show it: with its derived phase, and the names of objects that the spec refers to
// by ID.
type VMView struct {
	VM
	Phase       Phase       `json:"phase"`
	Attention   bool        `json:"attention"` // see VM.NeedsAttention
	HostName    string      `json:"hostName"`
	ProjectName string      `json:"projectName"`
	SeenAt      *ReportTime `json:"seenAt"` // when the host was last seen (database time)
	// CPUPercent is the CPU load of a running VM in lists; 100 is one core. Nil: not running, or no sample in the
	// last minute.
	CPUPercent *float64 `json:"cpuPercent,omitempty"`
	// ChangeRefusal: why the VM's protection forbids changes by the current user; empty: changes are allowed
	ChangeRefusal string `json:"barred,omitempty"`
	// HostMaintenance is the maintenance of the VM's host. StartRefusal is why it forbids a start of the VM; empty: it
	// does not.
	HostMaintenance MaintenanceState `json:"-"`
	StartRefusal    string           `json:"-"`
}
