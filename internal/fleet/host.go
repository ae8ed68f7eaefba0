package fleet

import "time"

// Host is a machine that runs guests. Spec is written by people, Status by its agent.
type Host struct {
	ID         HostID      `json:"id"`
	Name       string      `json:"name"`
	Spec       HostSpec    `json:"spec"`
	Generation int64       `json:"generation"`
	Status     *HostStatus `json:"status"`             // nil: never reported
	SeenAt     *time.Time  `json:"seenAt"`             // database time of the newest report or heartbeat
	LookedAt   *time.Time  `json:"lookedAt"`           // how old what it says about its VMs, pools and networks is
	Conflict   string      `json:"conflict,omitempty"` // set: a second agent showed this host's identity
	CreatedAt  time.Time   `json:"createdAt"`
}

// HostSpec is what people set about a host.
type HostSpec struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Description string            `json:"description,omitempty"`
	Taints      []string          `json:"taints,omitempty"` // "gpu" or "gpu=a100": VMs that do not tolerate each of them are not placed here
}

// HostStatus is what the agent says about the host itself.
type HostStatus struct {
	AgentVersion string    `json:"agentVersion"`
	Hypervisor   string    `json:"hypervisor"`      // "libvirt 9.0.0, QEMU 7.2.22"
	Connected    bool      `json:"connected"`       // whether the agent reaches the hypervisor
	Error        string    `json:"error,omitempty"` // why not, in the hypervisor's own words
	Inventory    Inventory `json:"inventory"`
	OtherPools   []string  `json:"otherPools,omitempty"` // names of DiscoveredPools; older agents tell them alone
	// DiscoveredPools are the host's own storage pools, which Quantix does not manage.
	DiscoveredPools []DiscoveredPool `json:"foundPools,omitempty"`
}

// DiscoveredPool is a storage pool that a host has beside Quantix's.
type DiscoveredPool struct {
	Name      string `json:"name"`
	Kind      string `json:"kind"`  // libvirt's word: "dir", "netfs", "zfs", …
	Place     string `json:"place"` // where its volumes are: "/srv/imgs", "/mnt of 10.0.0.5:/vm"
	Active    bool   `json:"active"`
	Autostart bool   `json:"autostart"`
	Error     string `json:"error,omitempty"` // why nothing more is known of it
}

// Discovered are the host's own storage pools, also as older agents tell them: by name alone.
func (s HostStatus) Discovered() []DiscoveredPool {
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
	Hostname     string       `json:"hostname"`
	HostUUID     string       `json:"hostUuid"`
	OS           string       `json:"os"` // "Debian GNU/Linux 12"
	Kernel       string       `json:"kernel"`
	Arch         string       `json:"arch"`
	BootID       string       `json:"bootId"`
	BootedAt     *time.Time   `json:"bootedAt,omitempty"`
	CPU          CPU          `json:"cpu"`
	MemoryBytes  int64        `json:"memoryBytes"`
	HugePages    []HugePages  `json:"hugePages,omitempty"`
	NUMA         []NUMANode   `json:"numa,omitempty"`
	Disks        []HostDisk   `json:"disks,omitempty"`
	NICs         []HostNIC    `json:"nics,omitempty"`
	NICsLooked   bool         `json:"nicsLooked,omitempty"` // they are as at the host's last look, with their ports; older agents tell those of their last discovery
	GPUs         []GPU        `json:"gpus,omitempty"`
	Accelerators []string     `json:"accelerators"` // libvirt domain types that work: "kvm", "qemu"
	Firmwares    []Firmware   `json:"firmwares"`
	PoolGaps     []PoolGap    `json:"poolGaps,omitempty"`    // kinds of pools that it cannot have
	NetworkGaps  []NetworkGap `json:"networkGaps,omitempty"` // modes of networks that it cannot have
	VMFields     []string     `json:"vmFields,omitempty"`    // the parts of a VM that its agent knows: see PartNames; older agents tell none, and know none
	VMGaps       []VMGap      `json:"vmGaps,omitempty"`      // those that it cannot have
	CPUModels    []string     `json:"cpuModels,omitempty"`   // named ones that its guests can have; older agents tell none
	Devices      []HostDevice `json:"devices,omitempty"`     // that a guest could have for itself
	Machine      string       `json:"machine,omitempty"`     // vendor and product: "Dell Inc. PowerEdge R650"
}

// PoolGap is a kind of pool that a host cannot have, and what would bring it, as a sentence.
type PoolGap struct {
	Kind PoolKind `json:"kind"`
	Why  string   `json:"why"`
}

// VMGap is a part of a VM that a host cannot have, and what would bring it, as a sentence.
type VMGap struct {
	Field string `json:"field"`           // a VMField's name, or a device's field: "disks.bus"
	Value string `json:"value,omitempty"` // of it, the value that it cannot have; empty: any but the usual
	Why   string `json:"why"`
}

// NICLimitGaps are the gaps of a host that cannot limit a NIC's bandwidth, in either direction. Peaks and bursts need no gaps
// of their own: a NIC has them only with a limit.
func NICLimitGaps(why string) []VMGap {
	return []VMGap{{Field: NICLimitIn, Why: why}, {Field: NICLimitOut, Why: why}}
}

// Fields of a NIC's limits, as a gap names them.
const (
	NICLimitIn  = "nics.limits.inKiB"
	NICLimitOut = "nics.limits.outKiB"
)

// CPU describes all processors of a host.
type CPU struct {
	Model    string   `json:"model"`
	Vendor   string   `json:"vendor"`
	Sockets  int      `json:"sockets"`
	Cores    int      `json:"cores"`   // in all
	Threads  int      `json:"threads"` // in all: what can be scheduled
	Features []string `json:"features,omitempty"`
}

// HugePages is one size of huge pages and how many there are.
type HugePages struct {
	SizeKiB int64 `json:"sizeKiB"`
	Total   int64 `json:"total"`
	Free    int64 `json:"free"`
}

// NUMANode is one memory node.
type NUMANode struct {
	ID          int   `json:"id"`
	MemoryBytes int64 `json:"memoryBytes"`
	Threads     []int `json:"threads"`
}

// HostDisk is a block device. Kind is "nvme", "ssd", "hdd", "virtual" or "unknown".
type HostDisk struct {
	Name      string `json:"name"`
	Kind      string `json:"kind"`
	Model     string `json:"model,omitempty"`
	Serial    string `json:"serial,omitempty"`
	SizeBytes int64  `json:"sizeBytes"`
	Removable bool   `json:"removable,omitempty"`
}

// HostNIC is a network device.
type HostNIC struct {
	Name      string   `json:"name"`
	MAC       string   `json:"mac,omitempty"`
	Driver    string   `json:"driver,omitempty"`
	Kind      string   `json:"kind"` // "physical", "bridge", "bond", "vlan", "virtual"
	SpeedMbps int      `json:"speedMbps,omitempty"`
	Up        bool     `json:"up"`
	MTU       int      `json:"mtu,omitempty"`
	Addresses []string `json:"addresses,omitempty"`
	VFs       int      `json:"vfs,omitempty"`      // SR-IOV functions in use
	VFsTotal  int      `json:"vfsTotal,omitempty"` // SR-IOV functions possible
	Agent     bool     `json:"agent,omitempty"`    // the agent reaches its portal by it
	Master    string   `json:"master,omitempty"`   // the bridge or bond that it is a port of
	Over      string   `json:"over,omitempty"`     // of a VLAN: the device whose packets it takes
}

// GPU is a display or compute adapter.
type GPU struct {
	Address   string   `json:"address"` // PCI
	Vendor    string   `json:"vendor"`
	Product   string   `json:"product"`
	Driver    string   `json:"driver,omitempty"`
	VFsTotal  int      `json:"vfsTotal,omitempty"`
	MdevTypes []string `json:"mdevTypes,omitempty"`
}

// HostDevice is a device of a host that a guest could have for itself. USB devices that are alike are one.
type HostDevice struct {
	Device string `json:"device"`           // "pci/0000:41:00.0", "usb/046d:c52b", "usb-port/1-2.3", "mdev/nvidia-63" or "blk/ata-WDC_WD40EFRX_1234": see VMHostDevice
	Name   string `json:"name"`             // vendor and product
	Class  string `json:"class,omitempty"`  // of PCI: "0x020000"
	Driver string `json:"driver,omitempty"` // that has it on the host
	IOMMU  string `json:"iommu,omitempty"`  // its group, whose devices go to one guest together; empty: the host cannot give it away

	Empty bool `json:"empty,omitempty"` // of a USB port: nothing is plugged in

	// Of a type of mediated devices: what makes them, how many guests can have one, and how many of those nobody has made yet.
	Parents []string `json:"parents,omitempty"` // "0000:41:00.0"
	Max     int      `json:"most,omitempty"`
	Free    int      `json:"free,omitempty"`

	SizeBytes int64  `json:"sizeBytes,omitempty"` // of a disk
	Busy      string `json:"busy,omitempty"`      // what the host does with the disk, so that no guest gets it, as the end of "it is …"
}

// MaxReportedDevices bounds how many of them a host tells.
const MaxReportedDevices = 512

// HostPhase is the one status word for a host; derived, never stored.
type HostPhase string

const (
	HostOnline   HostPhase = "online"
	HostDegraded HostPhase = "degraded" // heard, but its hypervisor does not answer
	HostConflict HostPhase = "conflict" // a second agent shows its identity
	HostPending  HostPhase = "pending"  // never heard
	HostUnknown  HostPhase = "unknown"  // not heard for longer than Freshness
)

// NoLook says why a host that is heard counts as without a hypervisor though its agent has not said so.
const NoLook = "Its agent has not seen it for more than 30 s."

// HostPhases lists every phase of a host.
var HostPhases = []HostPhase{HostOnline, HostDegraded, HostConflict, HostPending, HostUnknown}

// Phase derives the host's status word. A pool's fault never shows here.
func (h Host) Phase(now time.Time) HostPhase {
	switch {
	case h.SeenAt == nil || h.Status == nil:
		return HostPending
	case h.Conflict != "":
		return HostConflict
	case !Fresh(h.SeenAt, now):
		return HostUnknown
	case !h.Status.Connected || !Fresh(h.LookedAt, now):
		return HostDegraded
	}
	return HostOnline
}

var hostLooks = map[HostPhase]struct {
	word string
	tone Severity
}{
	HostOnline: {"Online", SeverityOK}, HostDegraded: {"No hypervisor", SeverityBad}, HostConflict: {"Identity conflict", SeverityBad},
	HostPending: {"Waiting for agent", SeverityWarn}, HostUnknown: {"Unknown", SeverityUnknown},
}

// Word is the phase as people read it.
func (p HostPhase) Word() string { return hostLooks[p].word }

// Severity is how the phase is drawn.
func (p HostPhase) Severity() Severity { return hostLooks[p].tone }

// HostView is a host as people see it.
type HostView struct {
	Host
	Phase         HostPhase  `json:"phase"`
	VMs           int        `json:"vms"`
	Leaving       int        `json:"leaving,omitempty"` // of these, those whose deletion was asked for
	CommittedCPUs int        `json:"committedCpus"`     // vCPUs of all VMs placed here
	CommittedMiB  int64      `json:"committedMemoryMiB"`
	ReservedCPU   int64      `json:"reservedCpuPercent,omitempty"` // of a processor, of all VMs placed here; only where one host is asked for
	Load          *HostMeter `json:"load,omitempty"`               // of the newest report; only where one host is asked for
}

// JoinToken lets one machine join as a host. The secret is shown once; only its hash is stored.
type JoinToken struct {
	ID        JoinTokenID `json:"id"`
	HostID    HostID      `json:"hostId,omitempty"` // the host whose agent joins again; empty: a new host
	CreatedBy string      `json:"createdBy"`
	CreatedAt time.Time   `json:"createdAt"`
	ExpiresAt time.Time   `json:"expiresAt"`
	UsedAt    *time.Time  `json:"usedAt,omitempty"`
	UsedBy    string      `json:"usedBy,omitempty"` // host name
	RevokedAt *time.Time  `json:"revokedAt,omitempty"`
	Secret    string      `json:"secret,omitempty"`  // only in the answer that makes it
	Command   string      `json:"command,omitempty"` // likewise: what to paste on the host
}
