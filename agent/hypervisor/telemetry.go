package hypervisor

import (
	"context"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// Telemetry reports the host's state and load.
type Telemetry interface {
	// HostState returns the full state of the host. It reports a part that cannot be read as unreadable (a pool as
	// stalled) and never omits it. It lists volumes only of pools assigned to this host; other pools go to
	// HostStatus.DiscoveredPools. It reports assigned pools and networks that the host lacks as missing, and edited
	// networks with the differences.
	//
	// HostState leaves Host.AgentVersion and Host.Inventory to the caller, except Inventory.Accelerators, .Firmwares,
	// .PoolGaps, .VMGaps, .CPUModels and .CPUModelGaps. It also leaves VMStatus.Error and ErrorOf to the caller.
	//
	// HostState restarts a failed pool as soon as a restart may succeed. A pool stopped by somebody else stays stopped
	// (PoolStatus.StoppedOutside).
	HostState(ctx context.Context, on Assignment) (wire.State, error)

	// Ping makes the cheapest call to the hypervisor, so that its answer can be timed. It never answers from a cache.
	Ping(ctx context.Context) error

	// Meters reads the load of all running VMs with Quantix metadata.
	Meters(ctx context.Context) ([]VMLoad, error)

	// FilterCounts reads the packet counters of NICs of running VMs with a Quantix network filter: the packets accepted
	// by each rule, and the packets dropped. It lists a rule without matches with the count 0.
	FilterCounts(ctx context.Context) ([]NICPacketCounts, error)

	// WatchChanges delivers a wake-up (no data) when the host's state may have changed. The channel has a buffer of
	// one, and deliveries end when ctx ends. Losing or restoring the connection to the hypervisor also causes a
	// wake-up.
	WatchChanges(ctx context.Context) <-chan struct{}

	// Diagnostics lists what can be read about the hypervisor. Its Name is "hypervisor", "domains", "pools" or "networks".
	Diagnostics() []Diagnostic
}

// VMLoad holds the counters of a running VM since its start, and its memory.
type VMLoad struct {
	wire.Meter
	Run                   int32 // changes with every start of the guest
	VCPUs                 int
	StealNanos            int64 // time that vCPUs waited for a CPU of the host
	AssignedBytes         int64 // memory that the balloon leaves to the guest
	GuestUsedBytes        int64 // memory used as the guest reports it; negative: unknown
	Reads, Writes         int64 // operations of all disks
	ReadNanos, WriteNanos int64 // time of these operations
	Drops                 int64 // packets dropped by all NICs

	Disks []DiskLoad
	NICs  []NICLoad
}

// DiskLoad holds the counters of one disk of a running VM.
type DiskLoad struct {
	Name                  string // "vda"
	ReadBytes, WriteBytes int64
	Reads, Writes         int64
	ReadNanos, WriteNanos int64
}

// NICLoad holds the counters of one NIC of a running VM.
type NICLoad struct {
	Index                       int // position among the VM's NICs
	ReceiveBytes, SendBytes     int64
	ReceivePackets, SendPackets int64
	ReceiveDrops, SendDrops     int64
}

// Assigned lists the objects that are assigned to a host.
type Assigned = wire.AssignedObjects

// Assignment lists the objects that the portal has most recently assigned to this host.
type Assignment struct {
	Assigned
	// checksums computed on this host; HostState reports the checksums of unchanged files
	Checksums map[fleet.Volref]VolumeChecksum
}

// Diagnostic is a text about the hypervisor for people who search for a fault. It has no secrets.
type Diagnostic struct {
	Name, Title string
	Read        func(context.Context) (string, error)
}
