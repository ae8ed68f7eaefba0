package control

import (
	"context"
	"time"

	"quantix/db"
	"quantix/internal/fleet"
)

// counters are sums over all VMs, kept between requests so that no page has to count a hundred thousand rows.
type counters struct {
	at       time.Time
	hosts    map[fleet.HostID]usage
	projects map[fleet.ProjectID]usage
	groups   []db.CountVMsRow // by project, host and phase-if-heard
	found    map[fleet.HostID]int
	looked   map[fleet.HostID]*time.Time // how old what the host says was then
	now      time.Time                   // by the clock of looked
}

// fresh tells of each host whether what it says is still believed.
func (n *counters) fresh() map[fleet.HostID]bool {
	now := n.now.Add(time.Since(n.at))
	out := make(map[fleet.HostID]bool, len(n.looked))
	for id, at := range n.looked {
		out[id] = fleet.Fresh(at, now)
	}
	return out
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
func (c *Control) RefreshCounters(ctx context.Context, a fleet.Actor) error {
	if err := onlySystem(a); err != nil {
		return err
	}
	_, err := c.count(ctx)
	return err
}

func (c *Control) count(ctx context.Context) (*counters, error) {
	rows, err := c.q.CountVMs(ctx)
	if err != nil {
		return nil, dbError(err)
	}
	found, err := c.q.CountFound(ctx)
	if err != nil {
		return nil, dbError(err)
	}
	seen, err := c.q.HostsSeen(ctx)
	if err != nil {
		return nil, dbError(err)
	}
	n := &counters{
		at: time.Now(), hosts: map[fleet.HostID]usage{}, projects: map[fleet.ProjectID]usage{}, groups: rows, found: map[fleet.HostID]int{},
		looked: make(map[fleet.HostID]*time.Time, len(seen)),
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
	}
	c.counters.Store(n)
	return n, nil
}

// counted returns the newest counters; the first who asks counts, and who finds them so old that nobody seems to count any more.
func (c *Control) counted(ctx context.Context) (*counters, error) {
	if n := c.counters.Load(); n != nil && time.Since(n.at) < fleet.Freshness/2 {
		return n, nil
	}
	return c.count(ctx)
}

// vmCount is how many VMs a project has, as of the newest counters.
func (c *Control) vmCount(ctx context.Context, id fleet.ProjectID) (int, error) {
	n, err := c.counted(ctx)
	if err != nil {
		return 0, err
	}
	return n.projects[id].vms, nil
}
