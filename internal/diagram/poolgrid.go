package diagram

import "quantix/internal/fleet"

// PoolGrid is the matrix of pools and hosts.
type PoolGrid struct {
	Hosts    fleet.Page[fleet.HostView]
	Pools    fleet.Page[fleet.PoolView]
	Statuses [][]GridStatus // one row per host, one column per pool
}

// GridStatus is the status of a pool on a host. The zero value means that the pool is not assigned to the host.
type GridStatus struct {
	State       fleet.PoolState
	Severity    fleet.Severity
	UsedPercent int // last reported use
	Leaving     bool
}
