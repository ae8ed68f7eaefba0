package fleet

// PoolGrid is the matrix of pools and hosts.
type PoolGrid struct {
	Hosts    Page[HostView]
	Pools    Page[PoolView]
	Statuses [][]GridStatus // one row per host, one column per pool
}

// GridStatus is the status of a pool on a host. The zero value means that the pool is not assigned to the host.
type GridStatus struct {
	State       PoolState
	Severity    Severity
	UsedPercent int // last reported use
	Leaving     bool
}
