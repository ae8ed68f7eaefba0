package query

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"quantix/internal/control/store"
	"quantix/internal/filter"
	"quantix/internal/fleet"
)

// addPhaseTerm adds the condition of a filter term on the VM's phase. The VM's row contains the phase that applies
// while the VM's host is online. While the host is offline, the phase is unknown, unless the VM is being deleted, its
// host has never reported it, or it was off before the host was powered off. A test checks that the condition agrees with fleet.VM.Phase.
func (b *Queries) addPhaseTerm(ctx context.Context, s *statementBuilder, t filter.Term) error {
	var wanted []string
	for _, p := range fleet.VMPhases {
		matches := slices.ContainsFunc(t.Alternatives, func(m filter.Match) bool { return m.Matches(string(p)) })
		if matches != t.Not {
			wanted = append(wanted, string(p))
		}
	}
	hosts, err := b.readHostLiveness(ctx)
	if err != nil {
		return err
	}
	parts := []string{"false"}
	if i := slices.Index(wanted, string(fleet.PhaseUnknown)); i >= 0 {
		wanted = slices.Delete(wanted, i, i+1)
		parts = append(parts, s.hostOfflineSQL(hosts))
	}
	if slices.Contains(wanted, string(fleet.PhaseStopped)) {
		parts = append(parts, s.knownOffSQL(hosts))
	}
	if len(wanted) > 0 {
		condition := s.hostOnlineSQL(hosts)
		if slices.ContainsFunc(wanted, func(p string) bool { return slices.Contains(unobservedPhases, p) }) {
			condition += " OR " + unobservedSQL
		}
		// The phases are literals in the statement, so that PostgreSQL can estimate the number of rows from its statistics.
		parts = append(parts, "v.heard IN ('"+strings.Join(wanted, "', '")+"') AND ("+condition+")")
	}
	s.addCondition("((" + strings.Join(parts, ") OR (") + "))")
	return nil
}

// unobservedPhases are the phases of VMs that their host has not reported or that are being deleted. They do not depend
// on the host's liveness.
var unobservedPhases = []string{string(fleet.PhaseCreating), string(fleet.PhaseDeleting)}

const (
	// observedSQL is the condition that the VM's phase depends on reports of its host.
	observedSQL = "v.deleted_at IS NULL AND v.status IS NOT NULL AND v.observed_generation > 0"
	// unobservedSQL is the negation of observedSQL. PostgreSQL can use an index for the condition on the phases creating
	// and deleting, which all VMs that fail observedSQL have.
	unobservedSQL = "v.heard IN ('creating', 'deleting') AND NOT (" + observedSQL + ")"
)

// hostLiveness holds the numbers of online and offline hosts, of those that Quantix's command powered off, and their IDs if
// they are few. With a few literal IDs
// PostgreSQL estimates the number of rows well. With many IDs, planning would take longer than reading the page. If no
// host is online, or none is offline, the condition is constant.
type hostLiveness struct{ online, offline, poweredOff hostSet }

type hostSet struct {
	size int
	ids  []string // nil if there are more than maxHostsInSQL
}

// maxHostsInSQL is the maximum number of host IDs in a statement. For more hosts, PostgreSQL reads the VMs in the order
// of the list and checks the host of each.
const maxHostsInSQL = 200

// livenessSQL reads the numbers of online and offline hosts, and the hosts' IDs if there are at most maxHostsInSQL.
var livenessSQL = func() string {
	few := strconv.Itoa(maxHostsInSQL)
	ids := func(n, which string) string {
		return "CASE WHEN h." + n + " BETWEEN 1 AND " + few + " THEN ARRAY(SELECT s.host_id FROM host_sessions s WHERE " + which + ") END"
	}
	off := poweredOffSQL + " AND NOT " + reportsFreshSQL
	return "SELECT h.online, h.offline, h.off, " + ids("online", reportsFreshSQL) + ", " + ids("offline", "NOT "+reportsFreshSQL) + ", " + ids("off", off) + `
		FROM (SELECT count(*) FILTER (WHERE ` + reportsFreshSQL + `) AS online, count(*) FILTER (WHERE NOT ` + reportsFreshSQL + `) AS offline,
			count(*) FILTER (WHERE ` + off + `) AS off FROM host_sessions s) h`
}()

// manyOnlineSQL counts the online hosts, up to maxHostsInSQL+1.
var manyOnlineSQL = "SELECT count(*) FROM (SELECT 1 FROM host_sessions s WHERE " + reportsFreshSQL + " LIMIT " + strconv.Itoa(maxHostsInSQL+1) + ") h"

// readHostLiveness reads the liveness of hosts. With many hosts, the offline hosts come from the cache. The number of
// online hosts is always read, because all hosts may have gone offline since the cache was filled.
func (b *Queries) readHostLiveness(ctx context.Context) (hostLiveness, error) {
	if totals, ok := b.fleetTotals.lookUpTotal(ctx, fleetTotalsKey{}); ok {
		online, err := collectRows(ctx, b, manyOnlineSQL, new(statementBuilder), pgx.RowTo[int])
		if err != nil {
			return hostLiveness{}, err
		}
		if online[0] > maxHostsInSQL {
			h := hostLiveness{online: hostSet{size: online[0]}, offline: hostSet{size: len(totals.offline)}}
			if h.offline.size <= maxHostsInSQL {
				h.offline.ids = store.ToStrings(totals.offline)
			}
			if h.poweredOff.size = len(totals.poweredOffHosts); h.poweredOff.size <= maxHostsInSQL {
				h.poweredOff.ids = store.ToStrings(slices.Collect(maps.Keys(totals.poweredOffHosts)))
			}
			return h, nil
		}
	}
	rows, err := collectRows(ctx, b, livenessSQL, new(statementBuilder), func(row pgx.CollectableRow) (h hostLiveness, err error) {
		err = row.Scan(&h.online.size, &h.offline.size, &h.poweredOff.size, &h.online.ids, &h.offline.ids, &h.poweredOff.ids)
		return h, err
	})
	if err != nil {
		return hostLiveness{}, err
	}
	return rows[0], nil
}

// inSetSQL returns the condition that the VM's host is in the set. liveness is the SQL condition that a host of the set
// fulfils now. The IDs of a small set only help PostgreSQL to plan, because the set may be outdated.
func (h hostSet) inSetSQL(s *statementBuilder, liveness string) string {
	switch {
	case h.size == 0:
		return "false"
	case h.ids == nil:
		return liveness
	}
	return s.oneOfSQL("v.host_id", h.ids) + " AND " + liveness
}

// hostOfflineSQL is the condition that the VM's host is offline and the VM's phase therefore unknown.
func (s *statementBuilder) hostOfflineSQL(h hostLiveness) string {
	condition := "NOT " + reportsFreshSQL + " AND " + observedSQL
	if h.poweredOff.size > 0 {
		condition += " AND NOT (" + s.knownOffSQL(h) + ")"
	}
	return h.offline.inSetSQL(s, condition)
}

// knownOffSQL is the condition that the VM is off although its host is offline: see fleet.VM.IsKnownOff.
func (s *statementBuilder) knownOffSQL(h hostLiveness) string {
	return h.poweredOff.inSetSQL(s, "v.heard = 'stopped' AND "+poweredOffSQL+" AND NOT "+reportsFreshSQL)
}

// hostOnlineSQL is the condition that the VM's host is online. The redundant check that the host has an agent session
// lets PostgreSQL read the small table of agent sessions first.
func (s *statementBuilder) hostOnlineSQL(h hostLiveness) string {
	const hasSession = "s.host_id IS NOT NULL AND "
	if h.offline.size == 0 {
		return hasSession + reportsFreshSQL
	}
	return h.online.inSetSQL(s, hasSession+reportsFreshSQL)
}

// addAttentionTerm adds the condition of a filter term on whether a VM needs attention. A test checks that it agrees
// with fleet.VM.NeedsAttention.
func (b *Queries) addAttentionTerm(ctx context.Context, s *statementBuilder, t filter.Term) error {
	hosts, err := b.readHostLiveness(ctx)
	if err != nil {
		return err
	}
	s.whereYesOrNo(t, func() string { return "v.attention OR " + s.hostOfflineSQL(hosts) },
		func() string {
			return "NOT v.attention AND (" + s.hostOnlineSQL(hosts) + " OR " + s.knownOffSQL(hosts) + " OR " + unobservedSQL + ")"
		})
	return nil
}

// addDriftTerm adds the condition of a filter term on whether a VM has drifted. Drift that an offline host has reported
// does not count, as on pages.
func (b *Queries) addDriftTerm(ctx context.Context, s *statementBuilder, t filter.Term) error {
	hosts, err := b.readHostLiveness(ctx)
	if err != nil {
		return err
	}
	s.whereYesOrNo(t, func() string { return "v.drifted AND " + s.hostOnlineSQL(hosts) },
		func() string { return "NOT (v.drifted AND COALESCE(" + s.hostOnlineSQL(hosts) + ", false))" })
	return nil
}

// whereYesOrNo adds the SQL condition yes if the term matches "yes", and no if it matches "no"; if both, one of them
// must hold.
func (s *statementBuilder) whereYesOrNo(t filter.Term, yes, no func() string) {
	parts := []string{"false"}
	matches := func(answer string) bool {
		return slices.ContainsFunc(t.Alternatives, func(m filter.Match) bool { return m.Matches(answer) }) != t.Not
	}
	if matches("yes") {
		parts = append(parts, yes())
	}
	if matches("no") {
		parts = append(parts, no())
	}
	s.addCondition("((" + strings.Join(parts, ") OR (") + "))")
}
