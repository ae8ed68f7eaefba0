package browse

import (
	"context"
	"strconv"

	"github.com/jackc/pgx/v5"

	"quantix/internal/control/store"
	"quantix/internal/fleet"
)

// everything is what is added up over the whole fleet.
type everything struct{}

// wholeSums are what all hosts and all cells of pools add up to, with what of them wants a person.
type wholeSums struct {
	hostSums
	troubled []fleet.Attention // hosts, the worst first, as many as the list of these holds
	pools    map[fleet.PoolID][]poolGroup
	rooms    map[fleet.PoolID]fleet.Room     // of shared pools that many hosts have
	storage  fleet.Room                      // of all pools, each file system counted once
	worst    struct{ pools, hosts []string } // of each pool that wants a person the cell that stands for it
}

// sumWhole adds up the whole fleet. Pages ask whole.
func (b *Browse) sumWhole(ctx context.Context, _ []everything) (map[everything]wholeSums, error) {
	var w wholeSums
	var err error
	if w.hostSums, err = b.countHosts(ctx); err != nil {
		return nil, err
	}
	if w.troubled, err = b.troubledHosts(ctx, w.hostSums); err != nil {
		return nil, err
	}
	if w.pools, err = b.allPoolGroups(ctx, w.silent); err != nil {
		return nil, err
	}
	if w.storage, err = b.storageTotal(ctx); err != nil {
		return nil, err
	}
	if err := b.findWorst(ctx, &w); err != nil {
		return nil, err
	}
	many := []string{}
	for id, groups := range w.pools {
		if cellsOf(groups) > wide {
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
func (b *Browse) wakePools(_ everything, was, now wholeSums) {
	for id, groups := range was.pools {
		if cellsOf(groups) > wide && !samePool(groups, now.pools[id]) {
			b.wakePool(id)
		}
	}
}

// poolSums are the groups of these pools: of those that many hosts have as they are kept.
func (b *Browse) poolSums(ctx context.Context, ids ...fleet.PoolID) (map[fleet.PoolID][]poolGroup, error) {
	out := make(map[fleet.PoolID][]poolGroup, len(ids))
	rest := ids
	if whole, ok := b.whole.known(ctx, everything{}); ok {
		rest = nil
		for _, id := range ids {
			if groups := whole.pools[id]; cellsOf(groups) > wide {
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
		if out[id] = groups; cellsOf(groups) > wide {
			b.whole.warm(everything{})
		}
	}
	return out, err
}

// hostSums are what all hosts add up to.
type hostSums struct {
	phases []hostSum
	silent []fleet.HostID // of which what they say about VMs and pools is not believed
	first  []fleet.HostID // by name, of each phase in which hosts want a person, as many as the list of what wants one holds
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
func (b *Browse) hostSums(ctx context.Context) (hostSums, error) {
	if whole, ok := b.whole.known(ctx, everything{}); ok {
		return whole.hostSums, nil
	}
	sums, err := b.countHosts(ctx)
	if sums.count() > wide {
		b.whole.warm(everything{})
	}
	return sums, err
}

func (b *Browse) countHosts(ctx context.Context) (sums hostSums, err error) {
	sums.phases, err = collect(ctx, b, "SELECT "+hostPhaseSQL+", count(*), "+total("h.threads")+", "+total("h.memory_bytes")+
		", COALESCE(array_agg(h.id) FILTER (WHERE NOT "+fresh+"), '{}')"+
		", COALESCE((array_agg(h.id ORDER BY h.name) FILTER (WHERE NOT "+fresh+" OR s.blind_since IS NOT NULL OR s.conflict <> ''))[1:"+strconv.Itoa(maxAttention)+"], '{}')"+
		" FROM hosts h LEFT JOIN host_sessions s ON s.host_id = h.id GROUP BY 1",
		new(statement), func(row pgx.CollectableRow) (x hostSum, err error) {
			var silent, first []fleet.HostID
			err = row.Scan(&x.phase, &x.hosts, &x.threads, &x.memoryBytes, &silent, &first)
			sums.silent = append(sums.silent, silent...)
			if hostTroubles[x.phase] != nil {
				sums.first = append(sums.first, first...)
			}
			return x, err
		})
	return sums, err
}

// troubledHosts names those that want a person.
func (b *Browse) troubledHosts(ctx context.Context, sums hostSums) ([]fleet.Attention, error) {
	if len(sums.first) == 0 {
		return nil, nil
	}
	var s statement
	s.and("h.id = ANY (" + s.key(store.Texts(sums.first)) + "::text[])")
	s.and(hostPhaseSQL + " IN ('conflict', 'degraded', 'unknown')") // still
	return collect(ctx, b, "SELECT h.id, h.name, "+hostPhaseSQL+" AS phase, s.conflict, COALESCE(h.status->>'error', ''), s.seen_at"+
		" FROM hosts h JOIN host_sessions s ON s.host_id = h.id"+s.conditions()+" ORDER BY "+hostPhaseSQL+" = 'unknown', h.name LIMIT "+strconv.Itoa(maxAttention),
		&s, func(row pgx.CollectableRow) (fleet.Attention, error) {
			n := fleet.Attention{Kind: "host"}
			var phase fleet.HostPhase
			var conflict, words string
			err := row.Scan(&n.ID, &n.Name, &phase, &conflict, &words, &n.At)
			if says := hostTroubles[phase]; says != nil {
				n.Tone, n.Text = phase.Tone(), says(conflict, words)
			}
			return n, err
		})
}

// findWorst finds, of each pool that wants a person, the cell that stands for it.
func (b *Browse) findWorst(ctx context.Context, w *wholeSums) error {
	var worst []poolGroup
	var of []string
	for id, groups := range w.pools {
		for _, g := range worstOf(groups) {
			worst, of = append(worst, g), append(of, string(id))
		}
	}
	if len(worst) == 0 {
		return nil
	}
	var s statement
	ranks := ranksOf(&s, worst, nil)
	_, err := collect(ctx, b, `SELECT DISTINCT ON (x.object_id) x.object_id, x.host_id FROM (SELECT `+keySQL+cellsFrom+` WHERE a.pool_id = ANY (`+s.key(of)+`::text[])) x
		JOIN `+ranks+` JOIN hosts h ON h.id = x.host_id ORDER BY x.object_id, g.rank, h.name`, &s, func(row pgx.CollectableRow) (none struct{}, err error) {
		var pool, host string
		err = row.Scan(&pool, &host)
		w.worst.pools, w.worst.hosts = append(w.worst.pools, pool), append(w.worst.hosts, host)
		return none, err
	})
	return err
}

// worstOf are the groups of which one cell stands for a pool that wants a person: those of the worst tone. None: it wants none.
func worstOf(groups []poolGroup) (worst []poolGroup) {
	for _, g := range groups {
		switch {
		case !g.Notable():
		case worst == nil || urgency[g.Tone()] < urgency[worst[0].Tone()]:
			worst = []poolGroup{g}
		case g.Tone() == worst[0].Tone():
			worst = append(worst, g)
		}
	}
	return worst
}
