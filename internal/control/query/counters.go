package query

import (
	"context"
	"maps"
	"slices"
	"time"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
)

// publishedTotals are totals over all VMs, which pages read instead of counting all VMs. A published value never
// changes: publishCounters replaces it by a new one.
type publishedTotals struct {
	countedAt  time.Time
	hosts      map[fleet.HostID]vmUsage
	projects   map[fleet.ProjectID]vmUsage
	byPhase    map[fleet.ProjectID]map[fleet.Phase]phaseTotals // of all VMs, as if all hosts were online
	byHost     map[fleet.HostID][]vmGroup                      // groups of the host's VMs, by project and online phase
	discovered map[fleet.HostID]db.DiscoveredUsage
	staleHosts map[fleet.HostID]*fleet.ReportTime // hosts whose VM inventory may be stale within livenessMargin, with its time
	now        time.Time                          // database time at which staleHosts was read
	onlineAt   time.Time                          // local time at which staleHosts was read
}

// livenessMaxAge is the maximum age of the hosts' liveness that publishCounters reuses when only counts have changed.
const livenessMaxAge = 5 * time.Second

// livenessMargin is the longest time until liveness is read again. A host whose inventory is not valid that long may go
// offline before.
const livenessMargin = countersMaxAge + livenessMaxAge

// countersMaxAge is the maximum age of published counters. They are only older if the background counting has stopped.
const countersMaxAge = 15 * time.Second

// offlineHosts returns those hosts with VMs that are offline now.
func (n *publishedTotals) offlineHosts() (out offlineHosts) {
	now := n.now.Add(time.Since(n.onlineAt))
	for id := range n.byHost {
		if looked, ok := n.staleHosts[id]; ok && !fleet.IsReportFresh(looked, now) {
			out.add(id, looked != nil && looked.PoweredOff)
		}
	}
	return out
}

// offlineHosts are hosts whose reports on VMs are not fresh.
type offlineHosts struct {
	ids        []fleet.HostID
	poweredOff map[fleet.HostID]bool // those among them that were powered off by Quantix's command: see fleet.ReportTime
}

func (o *offlineHosts) add(id fleet.HostID, poweredOff bool) {
	o.ids = append(o.ids, id)
	if poweredOff {
		if o.poweredOff == nil {
			o.poweredOff = map[fleet.HostID]bool{}
		}
		o.poweredOff[id] = true
	}
}

// knowsPhase reports whether the phase of the VMs on an offline host is known: they are being created or deleted, or
// they were off before the host was powered off.
func (o offlineHosts) knowsPhase(host fleet.HostID, p fleet.Phase) bool {
	return p == fleet.PhaseDeleting || p == fleet.PhaseCreating || p == fleet.PhaseStopped && o.poweredOff[host]
}

// phaseTotals holds the totals of the VMs of one project and phase.
type phaseTotals struct{ vms, attention, drifted, cpus, memoryMiB int64 }

func (s phaseTotals) plusGroup(r vmGroup) phaseTotals {
	return phaseTotals{s.vms + r.Vms, s.attention + r.Attention, s.drifted + r.Drifted, s.cpus + r.Cpus, s.memoryMiB + r.MemoryMib}
}

// vmGroupKey identifies the VMs that have the same project, host and phase.
type vmGroupKey struct {
	ProjectID   fleet.ProjectID
	HostID      fleet.HostID
	OnlinePhase string // phase if the host is online
}

// vmGroup holds the totals of the VMs with one vmGroupKey.
type vmGroup struct {
	vmGroupKey
	Vms, Attention, Drifted, Cpus, MemoryMib int64
}

// vmUsage holds the number of VMs of a host or project, and their CPUs and memory.
type vmUsage struct {
	vms, cpus int
	memoryMiB int64
	deleting  int // how many of the VMs have a requested deletion
}

// plusVM returns the usage with a VM added if n is 1, or removed if n is -1. online is the VM's phase if its host is
// online.
func (u vmUsage) plusVM(v vmContribution, online string, n int) vmUsage {
	sum := vmUsage{u.vms + n, u.cpus + n*int(v.cpus), u.memoryMiB + int64(n)*v.memoryMiB, u.deleting}
	if online == string(fleet.PhaseDeleting) {
		sum.deleting += n
	}
	return sum
}

// RefreshCounters counts all VMs again. It returns the VMs that the previous counters had counted differently.
func (b *Queries) RefreshCounters(ctx context.Context, a fleet.Actor) (other []fleet.VMID, err error) {
	if err := store.CheckSystemActor(a); err != nil {
		return nil, err
	}
	b.vmCounts.mu.Lock()
	defer b.vmCounts.mu.Unlock()
	return b.countAllVMs(ctx)
}

// CountChangedVMs updates the counters for changed or deleted VMs, and for hosts whose unmanaged VMs changed. It reads
// only those VMs.
func (b *Queries) CountChangedVMs(ctx context.Context, a fleet.Actor, vms []fleet.VMID, discoveredOn []fleet.HostID) error {
	if err := store.CheckSystemActor(a); err != nil {
		return err
	}
	t := &b.vmCounts
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.vms == nil {
		_, err := b.countAllVMs(ctx)
		return err
	}
	for ids := range slices.Chunk(vms, countPageSize) {
		rows, err := b.store.CountedVMsNamed(ctx, store.ToStrings(ids))
		if err != nil {
			return store.UserError(err)
		}
		now := make(map[fleet.VMID]db.CountedVMsNamedRow, len(rows))
		for _, r := range rows {
			now[r.ID] = r
		}
		for _, id := range ids {
			if r, ok := now[id]; ok {
				t.countVM(id, db.CountedVMsRow(r))
			} else {
				t.uncountVM(id)
			}
		}
	}
	for hosts := range slices.Chunk(discoveredOn, countPageSize) {
		rows, err := b.store.CountDiscoveredOn(ctx, store.ToStrings(hosts))
		if err != nil {
			return store.UserError(err)
		}
		t.setDiscovered(hosts, rows)
	}
	return b.publishCounters(ctx, livenessMaxAge)
}

// countAllVMs counts all VMs, page by page, and publishes the totals. The caller must hold the lock of vmCounts.
func (b *Queries) countAllVMs(ctx context.Context) (other []fleet.VMID, err error) {
	t := &b.vmCounts
	next := newVMSums()
	for after := fleet.VMID(""); ; {
		rows, err := b.store.CountedVMs(ctx, db.CountedVMsParams{After: after, Most: countPageSize})
		if err != nil {
			return nil, store.UserError(err)
		}
		for _, r := range rows {
			next.countVM(r.ID, r)
			after = r.ID
		}
		if len(rows) < countPageSize {
			break
		}
	}
	found, err := b.store.CountDiscovered(ctx)
	if err != nil {
		return nil, store.UserError(err)
	}
	for _, r := range found {
		next.discovered[r.HostID] = r
	}
	if t.vms != nil {
		other = next.differingVMs(&t.vmSums)
	}
	t.vmSums = next
	return other, b.publishCounters(ctx, 0)
}

// publishCounters publishes the totals of vmCounts, for all pages. It reads the hosts' liveness again if that is older
// than maxAge.
func (b *Queries) publishCounters(ctx context.Context, maxAge time.Duration) error {
	t, was, n := &b.vmCounts, b.counters.Load(), &publishedTotals{countedAt: time.Now()}
	if was != nil && n.countedAt.Sub(was.onlineAt) < maxAge {
		n.staleHosts, n.now, n.onlineAt = was.staleHosts, was.now, was.onlineAt
	} else {
		staleHosts, err := b.store.HostsNotLooked(ctx, livenessMargin)
		if err != nil {
			return store.UserError(err)
		}
		n.staleHosts, n.onlineAt = make(map[fleet.HostID]*fleet.ReportTime, len(staleHosts)), time.Now()
		for _, r := range staleHosts {
			n.staleHosts[r.HostID], n.now = fleet.NewReportTime(r.LookedAt, r.FreshFor), r.Now
			if looked := n.staleHosts[r.HostID]; looked != nil {
				looked.PoweredOff = r.PoweredOff
			}
		}
	}
	if was != nil && !t.changed {
		n.hosts, n.projects, n.byPhase, n.byHost, n.discovered = was.hosts, was.projects, was.byPhase, was.byHost, was.discovered
	} else {
		n.hosts, n.projects, n.discovered = maps.Clone(t.hosts), maps.Clone(t.projects), maps.Clone(t.discovered)
		n.byPhase, n.byHost = sumByPhase(t.groups)
	}
	t.changed = false
	b.counters.Store(n)
	return nil
}

// sumByPhase adds up the groups by project and phase, and returns the groups by host.
func sumByPhase(groups []vmGroup) (online map[fleet.ProjectID]map[fleet.Phase]phaseTotals, of map[fleet.HostID][]vmGroup) {
	online, of = map[fleet.ProjectID]map[fleet.Phase]phaseTotals{}, map[fleet.HostID][]vmGroup{}
	for _, g := range groups {
		if g.Vms == 0 { // all VMs of the group were deleted
			continue
		}
		if online[g.ProjectID] == nil {
			online[g.ProjectID] = map[fleet.Phase]phaseTotals{}
		}
		online[g.ProjectID][fleet.Phase(g.OnlinePhase)] = online[g.ProjectID][fleet.Phase(g.OnlinePhase)].plusGroup(g)
		of[g.HostID] = append(of[g.HostID], g)
	}
	return online, of
}

// currentCounters returns the published counters. If there are none, or if they are older than countersMaxAge, it
// counts all VMs first.
func (b *Queries) currentCounters(ctx context.Context) (*publishedTotals, error) {
	if n := b.freshCounters(); n != nil {
		return n, nil
	}
	b.vmCounts.mu.Lock()
	defer b.vmCounts.mu.Unlock()
	if n := b.freshCounters(); n != nil { // another request counted in between
		return n, nil
	}
	if _, err := b.countAllVMs(ctx); err != nil {
		return nil, err
	}
	return b.counters.Load(), nil
}

func (b *Queries) freshCounters() *publishedTotals {
	if n := b.counters.Load(); n != nil && time.Since(n.countedAt) < countersMaxAge {
		return n
	}
	return nil
}
