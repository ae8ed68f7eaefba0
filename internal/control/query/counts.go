package query

import (
	"slices"
	"sync"

	"quantix/db"
	"quantix/internal/fleet"
)

// countPageSize is the number of VMs read at a time.
const countPageSize = 5000

// vmCounts holds how each VM was counted. publishCounters makes publishedTotals from it. After a change of a VM, only
// that VM is read again.
type vmCounts struct {
	mu sync.Mutex
	vmSums
}

// vmSums are totals over VMs. The zero value is empty.
type vmSums struct {
	vms        map[fleet.VMID]vmContribution
	groupIndex map[vmGroupKey]int32 // index into groups
	groups     []vmGroup
	hosts      map[fleet.HostID]vmUsage
	projects   map[fleet.ProjectID]vmUsage
	discovered map[fleet.HostID]db.DiscoveredUsage
	changed    bool // since the counters were published
}

// vmContribution is the contribution of one VM to the totals.
type vmContribution struct {
	group     int32
	attention bool
	drifted   bool
	cpus      int32
	memoryMiB int64
}

func newVMSums() vmSums {
	return vmSums{
		vms: map[fleet.VMID]vmContribution{}, groupIndex: map[vmGroupKey]int32{}, hosts: map[fleet.HostID]vmUsage{}, projects: map[fleet.ProjectID]vmUsage{},
		discovered: map[fleet.HostID]db.DiscoveredUsage{}, changed: true,
	}
}

// countVM counts a VM by its current row r, and removes the VM's previous count.
func (s *vmSums) countVM(id fleet.VMID, r db.CountedVMsRow) {
	p := vmGroupKey{r.ProjectID, r.HostID, r.Heard}
	g, known := s.groupIndex[p]
	if !known {
		g = int32(len(s.groups))
		s.groups, s.groupIndex[p] = append(s.groups, vmGroup{vmGroupKey: p}), g
	}
	now := vmContribution{g, r.Attention, r.Drifted, r.Cpus, r.MemoryMib}
	if was, ok := s.vms[id]; ok {
		if was == now {
			return
		}
		s.addCount(was, -1)
	}
	s.vms[id] = now
	s.addCount(now, 1)
}

// uncountVM removes a VM from the totals.
func (s *vmSums) uncountVM(id fleet.VMID) {
	if was, ok := s.vms[id]; ok {
		delete(s.vms, id)
		s.addCount(was, -1)
	}
}

func (s *vmSums) addCount(v vmContribution, n int) {
	s.changed = true
	g := &s.groups[v.group]
	g.Vms += int64(n)
	g.Cpus += int64(n) * int64(v.cpus)
	g.MemoryMib += int64(n) * v.memoryMiB
	if v.attention {
		g.Attention += int64(n)
	}
	if v.drifted {
		g.Drifted += int64(n)
	}
	s.hosts[g.HostID] = s.hosts[g.HostID].plusVM(v, g.OnlinePhase, n)
	s.projects[g.ProjectID] = s.projects[g.ProjectID].plusVM(v, g.OnlinePhase, n)
}

// setDiscovered replaces the counts of discovered VMs on the hosts by rows. A host without a row has none.
func (s *vmSums) setDiscovered(hosts []fleet.HostID, rows []db.DiscoveredUsage) {
	was := make(map[fleet.HostID]db.DiscoveredUsage, len(hosts))
	for _, h := range hosts {
		if u, ok := s.discovered[h]; ok {
			was[h] = u
			delete(s.discovered, h)
		}
	}
	for _, r := range rows {
		s.discovered[r.HostID] = r
	}
	for _, h := range hosts {
		s.changed = s.changed || s.discovered[h] != was[h]
	}
}

// differingVMs returns the VMs that s and other count differently.
func (s *vmSums) differingVMs(other *vmSums) (ids []fleet.VMID) {
	what := func(of *vmSums, id fleet.VMID) (vmGroup, bool) {
		v, ok := of.vms[id]
		if !ok {
			return vmGroup{}, false
		}
		g := vmGroup{vmGroupKey: of.groups[v.group].vmGroupKey, Vms: 1, Cpus: int64(v.cpus), MemoryMib: v.memoryMiB}
		if v.attention {
			g.Attention = 1
		}
		if v.drifted {
			g.Drifted = 1
		}
		return g, true
	}
	for _, in := range []*vmSums{s, other} {
		for id := range in.vms {
			mine, here := what(s, id)
			if theirs, there := what(other, id); mine != theirs || here != there {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
