package query

import (
	"context"

	"github.com/jackc/pgx/v5"

	"quantix/internal/fleet"
)

// everything is what is added up over the whole fleet.
type everything struct{}

// wholeSums are what all hosts and all cells of pools add up to, with what of them wants a person.
type wholeSums struct {
	hostSums
	troubled []fleet.Attention // hosts that need a person, by cause
	pools    map[fleet.PoolID][]poolGroup
	rooms    map[fleet.PoolID]fleet.Room // of shared pools that many hosts have
	storage  fleet.Room                  // of all pools, each file system counted once
	causes   []poolCause                 // for which pools need a person
}

// sumWhole adds up the whole fleet. Pages ask whole.
func (b *Queries) sumWhole(ctx context.Context, _ []everything) (map[everything]wholeSums, error) {
	var w wholeSums
	var err error
	if w.hostSums, err = b.countHosts(ctx); err != nil {
		return nil, err
	}
	if w.troubled, err = b.troubledHosts(ctx, w.hostSums); err != nil {
		return nil, err
	}
	if w.pools, err = b.allPoolGroups(ctx, w.offline); err != nil {
		return nil, err
	}
	if w.storage, err = b.storageTotal(ctx); err != nil {
		return nil, err
	}
	if w.causes, err = b.poolCauses(ctx, w.pools); err != nil {
		return nil, err
	}
	many := []string{}
	for id, groups := range w.pools {
		if statusesOf(groups) > wide {
			many = append(many, string(id))
		}
	}
	if len(many) > 0 {
		var s statement
		s.and("p.id = ANY (" + s.key(many) + "::text[])")
		rows, err := b.poolRows(ctx, s, "")
		if err != nil {
			return nil, err
		}
		if w.rooms, err = b.readRooms(ctx, rows, w.pools); err != nil {
			return nil, err
		}
	}
	return map[everything]wholeSums{{}: w}, nil
}

// wakePools wakes who follows pools that many hosts have and that are otherwise than they were shown.
func (b *Queries) wakePools(_ everything, was, now wholeSums) {
	for id, groups := range was.pools {
		if statusesOf(groups) > wide && !samePool(groups, now.pools[id]) {
			b.wakePool(id)
		}
	}
}

// poolSums are the groups of these pools: of those that many hosts have as they are kept.
func (b *Queries) poolSums(ctx context.Context, ids ...fleet.PoolID) (map[fleet.PoolID][]poolGroup, error) {
	out := make(map[fleet.PoolID][]poolGroup, len(ids))
	rest := ids
	if whole, ok := b.whole.known(ctx, everything{}); ok {
		rest = nil
		for _, id := range ids {
			if groups := whole.pools[id]; statusesOf(groups) > wide {
				out[id] = groups
			} else {
				rest = append(rest, id)
			}
		}
	}
	if len(rest) == 0 {
		return out, nil
	}
	now, err := b.poolGroups(ctx, rest)
	for id, groups := range now {
		if out[id] = groups; statusesOf(groups) > wide {
			b.whole.warm(everything{})
		}
	}
	return out, err
}

// hostSums are what all hosts add up to.
type hostSums struct {
	phases  []hostSum
	offline []fleet.HostID // of which what they say about VMs and pools is not believed
}

// hostSum is what the hosts of one phase add up to.
type hostSum struct {
	phase                fleet.HostPhase
	hosts                int
	threads, memoryBytes int64
}

func (h hostSums) count() (n int) {
	for _, x := range h.phases {
		n += x.hosts
	}
	return n
}

// hostSums are what all hosts add up to: as it is kept, or now.
func (b *Queries) hostSums(ctx context.Context) (hostSums, error) {
	if whole, ok := b.whole.known(ctx, everything{}); ok {
		return whole.hostSums, nil
	}
	sums, err := b.countHosts(ctx)
	if sums.count() > wide {
		b.whole.warm(everything{})
	}
	return sums, err
}

func (b *Queries) countHosts(ctx context.Context) (sums hostSums, err error) {
	sums.phases, err = collect(ctx, b, "SELECT "+hostPhaseSQL+", count(*), "+total("h.threads")+", "+total("h.memory_bytes")+
		", COALESCE(array_agg(h.id) FILTER (WHERE NOT "+fresh+"), '{}')"+
		" FROM hosts h LEFT JOIN host_sessions s ON s.host_id = h.id GROUP BY 1",
		new(statement), func(row pgx.CollectableRow) (x hostSum, err error) {
			var silent []fleet.HostID
			err = row.Scan(&x.phase, &x.hosts, &x.threads, &x.memoryBytes, &silent)
			sums.offline = append(sums.offline, silent...)
			return x, err
		})
	return sums, err
}
