package maintenance

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"quantix/internal/fleet"
)

// Room is what another host can still allocate.
type Room struct {
	HostID    fleet.HostID `json:"hostId"`
	HostName  string       `json:"hostName"`
	MemoryMiB int64        `json:"freeMemoryMiB"`
	CPUs      *int64       `json:"freeCpus,omitempty"` // vCPUs; nil: the host's agent does not report its processors
}

// Pool is the free space of a pool to which disks can be copied.
type Pool struct {
	PoolID    fleet.PoolID `json:"poolId"`
	PoolName  string       `json:"poolName"`
	HostID    fleet.HostID `json:"hostId,omitempty"` // empty: the pool's hosts share the space
	HostName  string       `json:"hostName,omitempty"`
	FreeBytes int64        `json:"freeBytes"` // bytes not reserved by any volume
}

// take allocates a VM's vCPUs and memory on the host. If they do not fit, take changes nothing and returns the reason.
func (r *Room) take(cpus, memoryMiB int) (why string) {
	switch {
	case int64(memoryMiB) > r.MemoryMiB:
		return fmt.Sprintf("After the other VMs, %s has %s MiB of memory left; this VM needs %s.", r.HostName, fleet.FormatCount(max(r.MemoryMiB, 0)), fleet.FormatCount(int64(memoryMiB)))
	case r.CPUs != nil && int64(cpus) > *r.CPUs:
		return fmt.Sprintf("After the other VMs, %s has %s left; this VM needs %d.", r.HostName, fleet.CountWithUnit(int(max(*r.CPUs, 0)), "vCPU"), cpus)
	}
	if r.MemoryMiB -= int64(memoryMiB); r.CPUs != nil {
		left := *r.CPUs - int64(cpus)
		r.CPUs = &left
	}
	return ""
}

// Space is what the other hosts and their pools can still take, while a plan allocates one VM after another.
// It is not safe for concurrent use.
type Space struct {
	hosts      map[fleet.HostID]*Room
	pools      map[poolOfHost]*Pool
	overcommit bool
}

// poolOfHost names a pool on a host, or a pool whose hosts share its space: then host is empty.
type poolOfHost struct {
	pool fleet.PoolID
	host fleet.HostID
}

// NewSpace returns the space on the hosts. With overcommit, their memory and vCPUs have no limit. It has no
// pools: see AddPools.
func NewSpace(hosts []Room, overcommit bool) *Space {
	s := &Space{make(map[fleet.HostID]*Room, len(hosts)), map[poolOfHost]*Pool{}, overcommit}
	for _, h := range hosts {
		s.hosts[h.HostID] = &h
	}
	return s
}

// AddPools adds the pools to which the migrations copy disks, if the space does not have them yet.
func (s *Space) AddPools(choices []Choice) {
	for _, c := range choices {
		for _, d := range c.Copies {
			key := keyOf(d, c.HostID)
			if s.pools[key] != nil {
				continue
			}
			p := &Pool{PoolID: d.PoolID, PoolName: d.PoolName, HostID: key.host, FreeBytes: d.FreeBytes}
			if key.host != "" {
				p.HostName = c.HostName
			}
			s.pools[key] = p
		}
	}
}

func keyOf(d fleet.PoolCopy, host fleet.HostID) poolOfHost {
	if d.Shared {
		host = ""
	}
	return poolOfHost{d.PoolID, host}
}

// Hosts returns a copy of all hosts but one, sorted by name.
func (s *Space) Hosts(but fleet.HostID) []Room {
	out := []Room{}
	for id, room := range s.hosts {
		if id != but {
			out = append(out, *room)
		}
	}
	slices.SortFunc(out, func(x, y Room) int { return strings.Compare(x.HostName, y.HostName) })
	return out
}

// Pools returns a copy of the pools, sorted by name and host.
func (s *Space) Pools() []Pool {
	out := []Pool{}
	for p := range maps.Values(s.pools) {
		out = append(out, *p)
	}
	slices.SortFunc(out, func(x, y Pool) int {
		return cmp.Or(strings.Compare(x.PoolName, y.PoolName), strings.Compare(x.HostName, y.HostName))
	})
	return out
}

// Take allocates a VM on the host of the migration, and its copied disks in that host's pools. If the VM does not fit,
// Take changes nothing and returns the reason. hostFull reports whether only the host's memory or vCPUs are missing.
func (s *Space) Take(c Choice, cpus, memoryMiB int) (why string, hostFull bool) {
	for _, d := range c.Copies {
		if p := s.pools[keyOf(d, c.HostID)]; p != nil && d.Bytes > p.FreeBytes {
			return fmt.Sprintf("After the other VMs, pool %s on %s has %s not provisioned to volumes; this VM's disks may grow to %s.", p.PoolName, c.HostName, fleet.FormatBytes(max(p.FreeBytes, 0)), fleet.FormatBytes(d.Bytes)), false
		}
	}
	if host := s.hosts[c.HostID]; host != nil {
		why := host.take(cpus, memoryMiB)
		switch {
		case why != "" && !s.overcommit:
			return why, true
		case why != "":
			host.MemoryMiB -= int64(memoryMiB) // the VMs are still spread
		}
	}
	for _, d := range c.Copies {
		if p := s.pools[keyOf(d, c.HostID)]; p != nil {
			p.FreeBytes -= d.Bytes
		}
	}
	return "", false
}

// TakeBest returns a migration and allocates the VM for it: to the preferred host, else to the host with the most free
// memory, and before that to a host to which no disk is copied. Without such a host, why is the reason, and hostFull
// reports whether overcommit would allow one. Both are empty if no host is allowed.
func (s *Space) TakeBest(choices []Choice, cpus, memoryMiB int, preferred fleet.HostID) (best *fleet.MaintenanceDecision, why string, hostFull bool) {
	allowed := slices.DeleteFunc(slices.Clone(choices), func(c Choice) bool {
		return c.Do != fleet.MaintenanceMigrate || !c.Allowed || s.hosts[c.HostID] == nil
	})
	rank := func(c Choice) int {
		switch {
		case c.HostID == preferred:
			return 0
		case c.Method != fleet.MethodCopy:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(allowed, func(x, y Choice) int {
		return cmp.Or(cmp.Compare(rank(x), rank(y)), cmp.Compare(s.hosts[y.HostID].MemoryMiB, s.hosts[x.HostID].MemoryMiB))
	})
	for i, c := range allowed {
		lacks, full := s.Take(c, cpus, memoryMiB)
		if lacks == "" {
			return &allowed[i].MaintenanceDecision, "", false
		}
		why, hostFull = cmp.Or(why, lacks), hostFull || full
	}
	if i := slices.IndexFunc(choices, func(c Choice) bool { return c.LacksRoom }); i >= 0 {
		why, hostFull = cmp.Or(why, choices[i].Reason), true
	}
	return nil, why, hostFull
}
