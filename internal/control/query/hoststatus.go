package query

import (
	"context"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"quantix/internal/control/store"
	"quantix/internal/filter"
	"quantix/internal/fleet"
)

// pausedVMsSQL counts, per host and pool, the VMs that QEMU paused because their storage is full or failing. Such VMs
// are few.
const pausedVMsSQL = `SELECT v.host_id, d->>'poolId' AS pool_id, count(DISTINCT v.id)::integer AS vms FROM vms v CROSS JOIN LATERAL jsonb_array_elements(v.spec->'disks') AS d
	WHERE v.starved GROUP BY 1, 2`

// statusKeySQL are the columns of a host status that determine its health, without the complete report. For a pool,
// said, fresh, used, starving, by_others and faulty determine the policy.PoolHealthKey. For a network, said, fresh and
// faulty determine the fleet.NetworkState.
var statusKeySQL = `a.object_id, a.host_id, COALESCE(a.said, '') AS said, ` + reportsFreshSQL + ` AS fresh, a.used_percent AS used, w.vms IS NOT NULL AS starving, a.by_others, a.faulty`

// statusesFromSQL joins host statuses (alias a) with the agent sessions of their hosts (alias s).
const statusesFromSQL = ` FROM assignments a LEFT JOIN host_sessions s ON s.host_id = a.host_id` + joinPausedVMsSQL

// joinPausedVMsSQL joins host statuses (alias a) with the number of paused VMs per host and pool (alias w).
const joinPausedVMsSQL = ` LEFT JOIN (` + pausedVMsSQL + `) w ON w.host_id = a.host_id AND w.pool_id = a.pool_id`

// hostStatusSQL selects host statuses with the names of their hosts (alias h).
var hostStatusSQL = `SELECT h.name, ` + statusKeySQL + statusesFromSQL + ` JOIN hosts h ON h.id = a.host_id`

// hostStatusRank ranks host statuses; a status that needs an administrator ranks first.
func hostStatusRank(tone fleet.Severity, stopped bool) int {
	switch {
	case tone == fleet.SeverityBad:
		return 0
	case stopped: // others stopped the object on the host, which also needs an administrator
		return 1
	case tone == fleet.SeverityUnknown:
		return 2
	case tone == fleet.SeverityOK:
		return 4
	}
	return warningRank
}

const warningRank = 3 // rank of warnings, and of statuses changed after the groups were read

// sortOrdersByRank orders host statuses by rank, then by host.
func sortOrdersByRank[T any](rank func(T) int, host func(T) (string, fleet.HostID)) sortOrders[T] {
	return sortOrders[T]{"worst": {[]sortColumn{int32Column("c.rank"), textColumn("c.name"), textColumn("c.host_id")}, func(c T) []string {
		name, id := host(c)
		return []string{strconv.Itoa(rank(c)), name, string(id)}
	}}}
}

// parseStatusFilter parses the filter of a host status list. Name conditions are added to s; terms about the severity
// (key "health") are returned.
func (s *statementBuilder) parseStatusFilter(text string) ([]filter.Term, error) {
	terms, err := filter.Parse(fleet.HostStatusKeys, text)
	var tones []filter.Term
	for _, t := range terms {
		if t.Key == "health" {
			tones = append(tones, t)
		} else {
			s.addConditionOrNegation(t.Not, s.matchText("h.name", lowerMatches(t.Alternatives)))
		}
	}
	return tones, err
}

// hostStatusKey identifies a host status by object and host.
type hostStatusKey struct {
	object string
	host   fleet.HostID
}

// firstHostStatuses finds the first host statuses by rank of each object that s selects. It returns their positions in
// order, and a statement whose condition selects these assignments (alias a). g returns the SQL table of ranks (alias
// g).
func (b *Queries) firstHostStatuses(ctx context.Context, s *statementBuilder, g func(*statementBuilder) string) (map[hostStatusKey]int, statementBuilder, error) {
	statuses := hostStatusSQL + s.whereClause()
	all, err := collectRows(ctx, b, `SELECT c.object_id, c.host_id FROM (
		SELECT x.object_id, x.host_id, row_number() OVER (PARTITION BY x.object_id ORDER BY COALESCE(g.rank, `+strconv.Itoa(warningRank)+`), x.name) AS n
		FROM (`+statuses+`) x LEFT JOIN `+g(s)+`) c WHERE c.n <= `+strconv.Itoa(fleet.HostStatusesListed)+` ORDER BY c.object_id, c.n`, s, func(row pgx.CollectableRow) (at hostStatusKey, err error) {
		err = row.Scan(&at.object, &at.host)
		return at, err
	})
	var of statementBuilder
	var objects, hosts []string
	place := make(map[hostStatusKey]int, len(all))
	for i, at := range all {
		objects, hosts = append(objects, at.object), append(hosts, string(at.host))
		place[at] = i
	}
	of.addCondition("(a.object_id, a.host_id) IN (SELECT * FROM unnest(" + of.addKeyArg(objects) + "::text[], " + of.addKeyArg(hosts) + "::text[]))")
	return place, of, err
}

// hostStatusPageHosts returns the hosts of one page of host statuses, ordered by rank. If fits is set, statuses that
// are not in the table of ranks are left out. apply adds the page's cursor, order and limit.
func (b *Queries) hostStatusPageHosts(ctx context.Context, s *statementBuilder, conditions, ranks string, fits bool, apply func(*statementBuilder) string) ([]string, error) {
	if fits {
		s.addCondition("c.fits")
	}
	tail := apply(s)
	return collectRows(ctx, b, `SELECT c.host_id FROM (
		SELECT x.host_id, x.name, COALESCE(g.rank, `+strconv.Itoa(warningRank)+`) AS rank, g.rank IS NOT NULL AS fits FROM (`+hostStatusSQL+conditions+`) x LEFT JOIN `+ranks+`) c`+
		s.whereClause()+tail, s, pgx.RowTo[string])
}

// statusList holds the functions that read a page of one object's host statuses.
type statusList[T any] struct {
	statuses  int                                             // total number
	readFirst func(context.Context) (firstStatusHosts, error) // start of the list, possibly cached
	// findHosts returns the page's hosts in order, with one extra host if another page follows
	findHosts    func(context.Context) ([]string, error)
	readStatuses func(ctx context.Context, hosts []string) ([]T, error) // their statuses, unordered
	hostOf       func(T) fleet.HostID
}

// readPage returns the host statuses that q selects: up to limit, and one extra. For large lists the first hosts are
// cached, but their statuses are always read.
func (m statusList[T]) readPage(ctx context.Context, q fleet.Query, limit int) ([]T, error) {
	if m.statuses > maxUncachedHosts && q.Filter == "" && q.After == "" && q.Before == "" && limit <= fleet.HostStatusesListed {
		first, err := m.readFirst(ctx)
		if err != nil {
			return nil, err
		}
		hosts := first.hosts[:min(len(first.hosts), limit+1)]
		if statuses, err := m.statusesOf(ctx, hosts); err != nil || len(statuses) == len(hosts) {
			return statuses, err
		} // otherwise the cached hosts include hosts unassigned since
	}
	hosts, err := m.findHosts(ctx)
	if err != nil {
		return nil, err
	}
	return m.statusesOf(ctx, hosts)
}

func (m statusList[T]) statusesOf(ctx context.Context, hosts []string) ([]T, error) {
	statuses, err := m.readStatuses(ctx, hosts)
	slices.SortFunc(statuses, func(x, y T) int {
		return slices.Index(hosts, string(m.hostOf(x))) - slices.Index(hosts, string(m.hostOf(y)))
	})
	return statuses, err
}

// firstStatusHosts are the hosts at the start of a status list, in order: the first page and one extra host.
type firstStatusHosts struct {
	hosts    []string
	statuses int // total number in the list
}

func (f firstStatusHosts) statusCount() int { return f.statuses }

func (f firstStatusHosts) equal(other firstStatusHosts) bool {
	return slices.Equal(f.hosts, other.hosts)
}

// offlineHostsFirst returns the first hosts of a list whose unhealthy hosts are all offline. It need not compute the
// rank of every status.
func (b *Queries) offlineHostsFirst(ctx context.Context, n fleet.ResourceType, id string, offline []fleet.HostID) ([]string, error) {
	var s statementBuilder
	assignment := " JOIN assignments a ON a.noun = " + s.addKeyArg(string(n)) + " AND a.object_id = " + s.addKeyArg(id) + " AND a.host_id = h.id "
	hosts := s.addKeyArg(store.ToStrings(offline))
	order := " ORDER BY h.name, h.id LIMIT " + strconv.Itoa(fleet.HostStatusesListed+1)
	return collectRows(ctx, b, `SELECT c.id FROM (
		(SELECT h.id, h.name, 1 AS part FROM unnest(`+hosts+`::text[]) q (id) JOIN hosts h ON h.id = q.id`+assignment+order+`) UNION ALL
		(SELECT h.id, h.name, 2 FROM hosts h`+assignment+`WHERE h.id NOT IN (SELECT unnest(`+hosts+`::text[]))`+order+`)
	) c ORDER BY c.part, c.name, c.id LIMIT `+strconv.Itoa(fleet.HostStatusesListed+1), &s, pgx.RowTo[string])
}

// forEachKey returns a function for totalsCache.count that calls find for each key.
func forEachKey[K comparable](find func(context.Context, K) (firstStatusHosts, error)) func(context.Context, []K) (map[K]firstStatusHosts, error) {
	return func(ctx context.Context, of []K) (map[K]firstStatusHosts, error) {
		out := make(map[K]firstStatusHosts, len(of))
		for _, id := range of {
			first, err := find(ctx, id)
			if err != nil {
				return nil, err
			}
			out[id] = first
		}
		return out, nil
	}
}
