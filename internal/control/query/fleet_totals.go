package query

import (
	"context"

	"github.com/jackc/pgx/v5"

	"quantix/internal/fleet"
)

// fleetTotalsKey is the key type of the cache Queries.fleetTotals, which has only one entry.
type fleetTotalsKey struct{}

// fleetTotals are totals over all hosts and pools, and the hosts and pools that need attention.
type fleetTotals struct {
	hostSums
	hostProblems     []fleet.AttentionCause // hosts that need attention, by cause
	pools            map[fleet.PoolID][]poolStatusGroup
	sharedPoolSpaces map[fleet.PoolID]fleet.PoolSpace // capacity of shared pools on many hosts
	storage          fleet.PoolSpace                  // all pools, each file system counted once
	poolCauses       []poolAttentionCause             // pools that need attention, by cause
	drift            []fleet.AttentionCause           // pools and networks with another definition on a host
}

// computeFleetTotals computes the totals from the database. Pages read them from the cache Queries.fleetTotals.
func (b *Queries) computeFleetTotals(ctx context.Context, _ []fleetTotalsKey) (map[fleetTotalsKey]fleetTotals, error) {
	var w fleetTotals
	var err error
	if w.hostSums, err = b.countHosts(ctx); err != nil {
		return nil, err
	}
	if w.hostProblems, err = b.hostsNeedingAttention(ctx, w.hostSums); err != nil {
		return nil, err
	}
	evictions, err := b.evictionAttention(ctx)
	if err != nil {
		return nil, err
	}
	w.hostProblems = append(w.hostProblems, evictions...)
	if w.pools, err = b.groupAllPoolStatuses(ctx, w.offline); err != nil {
		return nil, err
	}
	if w.storage, err = b.storageTotal(ctx); err != nil {
		return nil, err
	}
	if w.poolCauses, err = b.poolAttentionCauses(ctx, w.pools); err != nil {
		return nil, err
	}
	if w.drift, err = b.driftAttention(ctx); err != nil {
		return nil, err
	}
	many := []string{}
	for id, groups := range w.pools {
		if countPoolStatuses(groups) > maxUncachedHosts {
			many = append(many, string(id))
		}
	}
	if len(many) > 0 {
		var s statementBuilder
		s.addCondition("p.id = ANY (" + s.addKeyArg(many) + "::text[])")
		rows, err := b.readPoolRows(ctx, s, "")
		if err != nil {
			return nil, err
		}
		if w.sharedPoolSpaces, err = b.readSharedCapacities(ctx, rows, w.pools); err != nil {
			return nil, err
		}
	}
	return map[fleetTotalsKey]fleetTotals{{}: w}, nil
}

// notifyPools sends a wake-up for each pool on many hosts whose health has changed, to the pages that show the pool.
func (b *Queries) notifyPools(_ fleetTotalsKey, was, now fleetTotals) {
	for id, groups := range was.pools {
		if countPoolStatuses(groups) > maxUncachedHosts && !equalPoolStatusGroups(groups, now.pools[id]) {
			b.notifyPool(id)
		}
	}
}

// poolStatusGroups returns the groupPoolStatuses of the given pools. For pools on many hosts they come from the cache.
func (b *Queries) poolStatusGroups(ctx context.Context, ids ...fleet.PoolID) (map[fleet.PoolID][]poolStatusGroup, error) {
	out := make(map[fleet.PoolID][]poolStatusGroup, len(ids))
	rest := ids
	if totals, ok := b.fleetTotals.lookUpTotal(ctx, fleetTotalsKey{}); ok {
		rest = nil
		for _, id := range ids {
			if groups := totals.pools[id]; countPoolStatuses(groups) > maxUncachedHosts {
				out[id] = groups
			} else {
				rest = append(rest, id)
			}
		}
	}
	if len(rest) == 0 {
		return out, nil
	}
	now, err := b.groupPoolStatuses(ctx, rest)
	for id, groups := range now {
		if out[id] = groups; countPoolStatuses(groups) > maxUncachedHosts {
			b.fleetTotals.prefetchTotal(fleetTotalsKey{})
		}
	}
	return out, err
}

// hostSums are totals over all hosts.
type hostSums struct {
	phases  []hostPhaseTotals
	offline []fleet.HostID // hosts whose reports on VMs and pools are not fresh
	// poweredOffHosts are those among them that were powered off by Quantix's command: see fleet.ReportTime.
	poweredOffHosts map[fleet.HostID]bool
}

// hostPhaseTotals holds the totals of the hosts in one phase.
type hostPhaseTotals struct {
	phase                fleet.HostPhase
	hosts                int
	poweredOff           int // in maintenance and offline, as expected
	threads, memoryBytes int64
}

func (h hostSums) hostCount() (n int) {
	for _, x := range h.phases {
		n += x.hosts
	}
	return n
}

// hostSums returns the totals over all hosts, from the cache or computed now.
func (b *Queries) hostSums(ctx context.Context) (hostSums, error) {
	if totals, ok := b.fleetTotals.lookUpTotal(ctx, fleetTotalsKey{}); ok {
		return totals.hostSums, nil
	}
	sums, err := b.countHosts(ctx)
	if sums.hostCount() > maxUncachedHosts {
		b.fleetTotals.prefetchTotal(fleetTotalsKey{})
	}
	return sums, err
}

func (b *Queries) countHosts(ctx context.Context) (sums hostSums, err error) {
	sums.phases, err = collectRows(ctx, b, "SELECT "+hostPhaseSQL+", count(*), count(*) FILTER (WHERE "+hostPhaseSQL+" = 'unknown' AND "+expectedOfflineSQL+"), "+saturatingSumSQL("h.threads")+", "+saturatingSumSQL("h.memory_bytes")+
		", COALESCE(array_agg(h.id) FILTER (WHERE NOT "+reportsFreshSQL+"), '{}'), COALESCE(array_agg(h.id) FILTER (WHERE NOT "+reportsFreshSQL+" AND "+poweredOffSQL+"), '{}')"+
		" FROM hosts h LEFT JOIN host_sessions s ON s.host_id = h.id GROUP BY 1",
		new(statementBuilder), func(row pgx.CollectableRow) (x hostPhaseTotals, err error) {
			var offline, poweredOff []fleet.HostID
			err = row.Scan(&x.phase, &x.hosts, &x.poweredOff, &x.threads, &x.memoryBytes, &offline, &poweredOff)
			sums.offline = append(sums.offline, offline...)
			for _, id := range poweredOff {
				if sums.poweredOffHosts == nil {
					sums.poweredOffHosts = map[fleet.HostID]bool{}
				}
				sums.poweredOffHosts[id] = true
			}
			return x, err
		})
	return sums, err
}
