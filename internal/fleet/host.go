package fleet

import "time"

// Host is a physical machine that runs VMs. Users write the Spec, the host's agent writes the Status.
type Host struct {
	ID         HostID      `json:"id"`
	Name       string      `json:"name"`
	Spec       HostSpec    `json:"spec"`
	Generation int64       `json:"generation"`
	Status     *HostStatus `json:"status"` // nil: the host never reported
	SeenAt     *ReportTime `json:"seenAt"` // database time of the newest report or heartbeat
	// InventoryAt is when the host took the inventory of VMs, pools and networks in its newest report.
	InventoryAt *ReportTime `json:"lookedAt"`
	Conflict    string      `json:"conflict,omitempty"` // set: a second agent used this host's identity
	// Maintenance is the requested maintenance; nil: none. See Lifecycle.
	Maintenance *HostMaintenance `json:"maintenance,omitempty"`
	HasBMC      bool             `json:"hasBmc,omitempty"` // the portal can switch its power through a BMC
	CreatedAt   time.Time        `json:"createdAt"`
}

// HostStatus is the agent's report on the host itself.
type HostStatus struct {
	AgentVersion string    `json:"agentVersion"`
	Platform     string    `json:"platform,omitempty"` // what the agent runs on: "linux-amd64"; older agents report none
	Hypervisor   string    `json:"hypervisor"`         // "libvirt 9.0.0, QEMU 7.2.22"
	Connected    bool      `json:"connected"`          // the agent is connected to the hypervisor
	Error        string    `json:"error,omitempty"`    // the hypervisor's error if not connected
	Inventory    Inventory `json:"inventory"`
	OtherPools   []string  `json:"otherPools,omitempty"` // names of DiscoveredPools; an older agent reports only these names
	// DiscoveredPools are the host's unmanaged storage pools.
	DiscoveredPools []DiscoveredPool `json:"discoveredPools,omitempty"`
	// Settings are those of agent.yaml that users can also set in the portal; nil: an older agent, which knows none and
	// reports at the default interval
	Settings *AgentSettings `json:"settings,omitempty"`
}

// DiscoveredPool is an unmanaged storage pool of a host.
type DiscoveredPool struct {
	Name      string `json:"name"`
	Kind      string `json:"kind"`  // libvirt's pool type: "dir", "netfs", "zfs", …
	Place     string `json:"place"` // location of its volumes: "/srv/imgs", "/mnt of 10.0.0.5:/vm"
	Active    bool   `json:"active"`
	Autostart bool   `json:"autostart"`
	Error     string `json:"error,omitempty"` // why the host could not read the other fields
	// Spec is the pool as Quantix would adopt it; nil: Refusal says why Quantix cannot, or an older agent does not report it
	Spec *PoolSpec `json:"spec,omitempty"`
	// PoolID is the Quantix pool with this name and location, which adoption joins. The portal sets it, never an agent.
	PoolID PoolID `json:"poolId,omitempty"`
	Adoptability
}

// UnmanagedPools returns the host's unmanaged storage pools. For an older agent, each pool has only a name.
func (s HostStatus) UnmanagedPools() []DiscoveredPool {
	if len(s.DiscoveredPools) > 0 {
		return s.DiscoveredPools
	}
	out := make([]DiscoveredPool, len(s.OtherPools))
	for i, name := range s.OtherPools {
		out[i].Name = name
	}
	return out
}

// Inventory is the hardware of a host.
type Inventory struct {
	Hostname    string      `json:"hostname"`
	HostUUID    string      `json:"hostUuid"`
	OS          string      `json:"os"` // "Debian GNU/Linux 12"
	Kernel      string      `json:"kernel"`
	Arch        string      `json:"arch"`
	BootID      string      `json:"bootId"`
	BootedAt    *time.Time  `json:"bootedAt,omitempty"`
	CPU         CPU         `json:"cpu"`
	MemoryBytes int64       `json:"memoryBytes"`
	HugePages   []HugePages `json:"hugePages,omitempty"`
	NUMA        []NUMANode  `json:"numa,omitempty"`
	Disks       []HostDisk  `json:"disks,omitempty"`
	NICs        []HostNIC   `json:"nics,omitempty"`
	// NICsCurrent: NICs are as current as the rest of the inventory and include bridge ports; an older agent reports
	// the NICs of its last discovery
	NICsCurrent  bool         `json:"nicsLooked,omitempty"`
	GPUs         []GPU        `json:"gpus,omitempty"`
	Accelerators []string     `json:"accelerators"` // libvirt domain types that work on the host: "kvm", "qemu"
	Firmwares    []Firmware   `json:"firmwares"`
	PoolGaps     []PoolGap    `json:"poolGaps,omitempty"`    // kinds of pools that the host does not support
	NetworkGaps  []NetworkGap `json:"networkGaps,omitempty"` // network modes that the host does not support
	// VMFields are the optional VM fields that the agent supports: see OptionalFieldNames. An older agent reports none
	// and supports none.
	VMFields  []string `json:"vmFields,omitempty"`
	VMGaps    []VMGap  `json:"vmGaps,omitempty"`    // optional VM fields or values that the host does not support
	Reapplies bool     `json:"reapplies,omitempty"` // the agent knows JobArgs.Fields, pool.reapply and network.reapply
	// MigratesLive: the agent speaks the protocol of agent/migration, which earlier agents do not
	MigratesLive bool `json:"migratesLive,omitempty"`
	// ReceivesFirmware: the agent receives UEFI variables and TPM state in cold migrations
	ReceivesFirmware bool `json:"receivesFirmware,omitempty"`
	// ReceivesDefinitions: the agent receives definitions of adopted VMs in cold migrations
	ReceivesDefinitions bool     `json:"receivesDefinitions,omitempty"`
	CPUModels           []string `json:"cpuModels,omitempty"` // CPU models that guests can have; older agents report none
	// CPUModelGaps are other models, each with the features that the host lacks for it.
	CPUModelGaps []CPUModelGap `json:"cpuModelGaps,omitempty"`
	Devices      []HostDevice  `json:"devices,omitempty"` // devices for passthrough
	Machine      string        `json:"machine,omitempty"` // vendor and product: "Dell Inc. PowerEdge R650"
}

// PoolGap is a kind of pool that a host does not support. Why is a sentence with the reason and the remedy.
type PoolGap struct {
	Kind PoolKind `json:"kind"`
	Why  string   `json:"why"`
}

// VMGap is an optional VM field that a host does not support. Why is a sentence with the reason and the remedy.
type VMGap struct {
	Field string `json:"field"`           // name of a VMField, or of a device's field: "disks.bus"
	Value string `json:"value,omitempty"` // the unsupported value of the field; empty: every value but the default
	Why   string `json:"why"`
}

// NICLimitGaps returns the gaps of a host that cannot limit a NIC's bandwidth, one for each direction. Peaks and bursts
// need no gaps of their own, because a NIC has them only with a limit.
func NICLimitGaps(why string) []VMGap {
	return []VMGap{{Field: NICLimitIn, Why: why}, {Field: NICLimitOut, Why: why}}
}

// Names of a NIC's limit fields in a VMGap.
const (
	NICLimitIn  = "nics.limits.inKiB"
	NICLimitOut = "nics.limits.outKiB"
)

// CPU describes all processors of a host together.
type CPU struct {
	Model    string   `json:"model"`
	Vendor   string   `json:"vendor"`
	Sockets  int      `json:"sockets"`
	Cores    int      `json:"cores"`   // total
	Threads  int      `json:"threads"` // total hardware threads, the unit of scheduling
	Features []string `json:"features,omitempty"`
}

// HugePages counts a host's huge pages of one size.
type HugePages struct {
	SizeKiB int64 `json:"sizeKiB"`
	Total   int64 `json:"total"`
	Free    int64 `json:"free"`
}

// NUMANode is one NUMA node of a host.
type NUMANode struct {
	ID          int   `json:"id"`
	MemoryBytes int64 `json:"memoryBytes"`
	Threads     []int `json:"threads"`
}

// HostDisk is a block device of a host. Kind is "nvme", "ssd", "hdd", "virtual" or "unknown".
type HostDisk struct {
	Name      string `json:"name"`
	Kind      string `json:"kind"`
	Model     string `json:"model,omitempty"`
	Serial    string `json:"serial,omitempty"`
	SizeBytes int64  `json:"sizeBytes"`
	Removable bool   `json:"removable,omitempty"`
}

// HostNIC is a network device of a host, physical or virtual.
type HostNIC struct {
	Name      string   `json:"name"`
	MAC       string   `json:"mac,omitempty"`
	Driver    string   `json:"driver,omitempty"`
	Kind      string   `json:"kind"` // "physical", "bridge", "bond", "vlan", "virtual"
	SpeedMbps int      `json:"speedMbps,omitempty"`
	Up        bool     `json:"up"`
	MTU       int      `json:"mtu,omitempty"`
	Addresses []string `json:"addresses,omitempty"`
	VFs       int      `json:"vfs,omitempty"`      // SR-IOV virtual functions in use
	VFsTotal  int      `json:"vfsTotal,omitempty"` // SR-IOV virtual functions available in total
	Agent     bool     `json:"agent,omitempty"`    // the agent reaches the portal through this device
	Master    string   `json:"master,omitempty"`   // bridge or bond that has the device as a port
	Over      string   `json:"over,omitempty"`     // parent device of a VLAN
}

// GPU is a display or compute adapter of a host.
type GPU struct {
	Address   string   `json:"address"` // PCI address
	Vendor    string   `json:"vendor"`
	Product   string   `json:"product"`
	Driver    string   `json:"driver,omitempty"`
	VFsTotal  int      `json:"vfsTotal,omitempty"`
	MdevTypes []string `json:"mdevTypes,omitempty"`
}

// HostDevice is a host device that can be passed through to a guest. Identical USB devices share one entry.
type HostDevice struct {
	// "pci/0000:41:00.0", "usb/046d:c52b", "usb-port/1-2.3", "mdev/nvidia-63" or "blk/ata-WDC_WD40EFRX_1234": see
	// VMHostDevice
	Device string `json:"device"`
	Name   string `json:"name"`             // vendor and product
	Class  string `json:"class,omitempty"`  // PCI class: "0x020000"
	Driver string `json:"driver,omitempty"` // driver bound on the host
	// IOMMU group, whose devices must all be passed through to the same guest; empty: passthrough is impossible
	IOMMU string `json:"iommu,omitempty"`

	Empty bool `json:"empty,omitempty"` // nothing is plugged into the USB port

	// Only for a type of mediated device: its parent devices, the maximum number of instances, and how many are free.
	Parents []string `json:"parents,omitempty"` // "0000:41:00.0"
	Max     int      `json:"most,omitempty"`
	Free    int      `json:"free,omitempty"`

	SizeBytes int64 `json:"sizeBytes,omitempty"` // size of a disk
	// HostUse is how the host itself uses the disk, as the end of "the disk is …". Such a disk cannot be passed
	// through.
	HostUse string `json:"busy,omitempty"`
}

// MaxReportedDevices bounds the passthrough devices in one host's report.
const MaxReportedDevices = 512

// HostPhase is the state of a host as pages show it. It is derived, never stored.
type HostPhase string

const (
	HostOnline   HostPhase = "online"
	HostDegraded HostPhase = "degraded" // online, but the hypervisor does not answer
	HostConflict HostPhase = "conflict" // a second agent uses the host's identity
	HostPending  HostPhase = "pending"  // never online
	HostUnknown  HostPhase = "unknown"  // offline: the last report is no longer fresh
)

// StaleInventoryError is the error text of an online host whose agent has not inspected the hypervisor for longer than
// its reports are valid.
const StaleInventoryError = "The agent has not reached the hypervisor for more than three report intervals."

// HostPhases lists every phase of a host.
var HostPhases = []HostPhase{HostOnline, HostDegraded, HostConflict, HostPending, HostUnknown}

// Phase derives the host's phase at now. Faults of pools do not affect it.
func (h Host) Phase(now time.Time) HostPhase {
	switch {
	case h.SeenAt == nil || h.Status == nil:
		return HostPending
	case h.Conflict != "":
		return HostConflict
	case !IsReportFresh(h.SeenAt, now):
		return HostUnknown
	case !h.Status.Connected || !IsReportFresh(h.InventoryAt, now):
		return HostDegraded
	}
	return HostOnline
}

var hostPhaseDisplay = map[HostPhase]struct {
	word     string
	severity Severity
}{
	HostOnline: {"Online", SeverityOK}, HostDegraded: {"No hypervisor", SeverityBad}, HostConflict: {"Identity conflict", SeverityBad},
	HostPending: {"Waiting for agent", SeverityWarn}, HostUnknown: {"Unknown", SeverityUnknown},
}

// DisplayName returns the phase as pages show it.
func (p HostPhase) DisplayName() string { return hostPhaseDisplay[p].word }

// Severity returns the phase's severity on pages.
func (p HostPhase) Severity() Severity { return hostPhaseDisplay[p].severity }

// HostTotals counts hosts.
type HostTotals struct {
	Phases     map[HostPhase]int
	PoweredOff int // hosts in maintenance that are offline, as expected; not in Phases
}

// HostView is a host as the API and pages show it.
type HostView struct {
	Host
	ClusterID   ClusterID    `json:"clusterId"`
	ClusterName string       `json:"clusterName"`
	BaselineGap *CPUModelGap `json:"baselineGap,omitempty"` // set: the host does not support the cluster's baseline
	// Labels are those of the spec and of the agent's agent.yaml, which wins.
	Labels map[string]string `json:"labels"`
	// ReportInterval is the interval of the host's reports in seconds; see Host.EffectiveReportInterval.
	ReportInterval int       `json:"reportInterval"`
	Phase          HostPhase `json:"phase"`
	// Lifecycle is what the host allows; see Host.Lifecycle.
	Lifecycle     HostLifecycle `json:"lifecycle"`
	VMs           int           `json:"vms"`
	Deleting      int           `json:"leaving,omitempty"` // VMs among these with a requested deletion
	CommittedCPUs int           `json:"committedCpus"`     // vCPUs of all VMs on the host
	CommittedMiB  int64         `json:"committedMemoryMiB"`
	// DiscoveredVMs counts the discovered VMs. DiscoveredCPUs and DiscoveredMiB are the vCPUs and memory of those that
	// run, which also count in the capacity.
	DiscoveredVMs  int          `json:"discoveredVms,omitempty"`
	DiscoveredCPUs int64        `json:"discoveredCpus,omitempty"`
	DiscoveredMiB  int64        `json:"discoveredMemoryMiB,omitempty"`
	Capacity       HostCapacity `json:"capacity"` // zero before the first report
	// ReservedCPU: total CPU reservation of the VMs on the host, percent of one processor; not set in lists
	ReservedCPU int64      `json:"reservedCpuPercent,omitempty"`
	Load        *HostMeter `json:"load,omitempty"` // from the newest report; only for a single host
}

// UsedCPUs returns the vCPUs that count in the host's capacity: those of its VMs and of running discovered VMs.
func (h HostView) UsedCPUs() int64 { return int64(h.CommittedCPUs) + h.DiscoveredCPUs }

// UsedMiB returns the memory in MiB that counts in the host's capacity: see UsedCPUs.
func (h HostView) UsedMiB() int64 { return h.CommittedMiB + h.DiscoveredMiB }

// JoinToken lets one machine join as a host. The secret is shown once; only its hash is stored.
type JoinToken struct {
	ID        JoinTokenID `json:"id"`
	HostID    HostID      `json:"hostId,omitempty"` // host whose agent joins again; empty: a new host
	CreatedBy string      `json:"createdBy"`
	CreatedAt time.Time   `json:"createdAt"`
	ExpiresAt time.Time   `json:"expiresAt"`
	UsedAt    *time.Time  `json:"usedAt,omitempty"`
	UsedBy    string      `json:"usedBy,omitempty"` // name of the host that joined
	RevokedAt *time.Time  `json:"revokedAt,omitempty"`
	Secret    string      `json:"secret,omitempty"`  // only in the response that creates the token
	Command   string      `json:"command,omitempty"` // only in the response that creates the token: the command to run on the host
}
