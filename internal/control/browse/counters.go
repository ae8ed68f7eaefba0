package browse

import (
	"context"
	"time"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
)

// counters are sums over all VMs, kept between requests so that no page has to count a hundred thousand rows.
type counters struct {
	at       time.Time
	hosts    map[fleet.HostID]usage
	projects map[fleet.ProjectID]usage
	heard    map[fleet.ProjectID]map[fleet.Phase]sum // of all VMs, were all hosts heard
	of       map[fleet.HostID][]db.CountVMsRow       // by project and phase-if-heard
	found    map[fleet.HostID]int
	looked   map[fleet.HostID]*time.Time // how old what the host says was then
	now      time.Time                   // by the clock of looked
}

// silent are the hosts with VMs of which what they say is not believed any more.
func (n *counters) silent() []fleet.HostID {
	now := n.now.Add(time.Since(n.at))
	var out []fleet.HostID
	for id := range n.of {
		if !fleet.Fresh(n.looked[id], now) {
			out = append(out, id)
		}
	}
	return out
}

// sum is what VMs of one project and phase add up to.
type sum struct{ vms, inNeed, cpus, memoryMiB int64 }

func (s sum) plus(r db.CountVMsRow) sum {
	return sum{s.vms + r.Vms, s.inNeed + r.Attention, s.cpus + r.Cpus, s.memoryMiB + r.MemoryMib}
}

// usage is what some VMs add up to.
type usage struct {
	vms, cpus int
	memoryMiB int64
	leaving   int // of the VMs, those whose deletion was asked for
}

func (u usage) plus(r db.CountVMsRow) usage {
	sum := usage{u.vms + int(r.Vms), u.cpus + int(r.Cpus), u.memoryMiB + r.MemoryMib, u.leaving}
	if r.Heard == string(fleet.PhaseDeleting) {
		sum.leaving += int(r.Vms)
	}
	return sum
}

// RefreshCounters counts anew. A loop of the portal calls it every few seconds.
func (b *Browse) RefreshCounters(ctx context.Context, a fleet.Actor) error {
	if err := store.OnlySystem(a); err != nil {
		return err
	}
	_, err := b.count(ctx)
	return err
}

func (b *Browse) count(ctx context.Context) (*counters, error) {
	rows, err := b.store.CountVMs(ctx)
	if err != nil {
		return nil, store.Err(err)
	}
	found, err := b.store.CountFound(ctx)
	if err != nil {
		return nil, store.Err(err)
	}
	seen, err := b.store.HostsSeen(ctx)
	if err != nil {
		return nil, store.Err(err)
	}
	n := &counters{
		at: time.Now(), hosts: map[fleet.HostID]usage{}, projects: map[fleet.ProjectID]usage{}, found: map[fleet.HostID]int{},
		looked: make(map[fleet.HostID]*time.Time, len(seen)), heard: map[fleet.ProjectID]map[fleet.Phase]sum{}, of: map[fleet.HostID][]db.CountVMsRow{},
	}
	for _, r := range seen {
		n.looked[r.HostID], n.now = r.LookedAt, r.Now
	}
	for _, r := range found {
		n.found[r.HostID] = int(r.Vms)
	}
	for _, r := range rows {
		n.hosts[r.HostID] = n.hosts[r.HostID].plus(r)
		n.projects[r.ProjectID] = n.projects[r.ProjectID].plus(r)
		if n.heard[r.ProjectID] == nil {
			n.heard[r.ProjectID] = map[fleet.Phase]sum{}
		}
		n.heard[r.ProjectID][fleet.Phase(r.Heard)] = n.heard[r.ProjectID][fleet.Phase(r.Heard)].plus(r)
		n.of[r.HostID] = append(n.of[r.HostID], r)
	}
	b.counters.Store(n)
	return n, nil
}

// counted returns the newest counters; the first who asks counts, and who finds them so old that nobody seems to count any more.
func (b *Browse) counted(ctx context.Context) (*counters, error) {
	if n := b.counters.Load(); n != nil && time.Since(n.at) < fleet.Freshness/2 {
		return n, nil
	}
	return b.count(ctx)
}
