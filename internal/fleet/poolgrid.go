package fleet

// PoolGrid is how many pools are on many hosts.
type PoolGrid struct {
	Hosts    Page[HostView]
	Pools    Page[PoolView]
	Statuses [][]GridStatus // one row for each of Hosts, one column for each of Pools
}

// GridStatus is how a pool is on a host. The zero value is a pool that is not assigned to the host.
type GridStatus struct {
	State       PoolState
	Severity    Severity
	UsedPercent int // as the host said last
	Leaving     bool
}
