package fleet

// PoolGrid is how many pools are on many hosts.
type PoolGrid struct {
	Hosts Page[HostView]
	Pools Page[PoolView]
	Cells map[PoolOn]GridCell // where a pool is assigned, or being released
}

// PoolOn is a pool's place on a host.
type PoolOn struct {
	Pool PoolID
	Host HostID
}

// GridCell is how a pool is on a host.
type GridCell struct {
	State       PoolState
	Tone        Tone
	UsedPercent int // as the host said last
	Leaving     bool
}
