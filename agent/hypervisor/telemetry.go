package hypervisor

import (
	"context"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// Telemetry reports the host's state and load.
type Telemetry interface {
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
}

// Assigned lists what the portal's newest answer assigned to this host.
type Assigned struct {
	Pools    []fleet.Pool
	Networks []fleet.Network
	// checksums computed on this host: Snapshot reports those of unchanged files
	Hashed map[fleet.Volref]Hashed
}
