package query

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"quantix/internal/control/store"
	"quantix/internal/fleet"
)

// addPhaseTerm adds the condition for derived phases. For a VM on an online host, the phase is the one stored in the
// VM's row. For a VM on an offline host, the phase is unknown, unless the VM is being deleted or was never observed. A
// test keeps the condition equal to fleet.VM.Phase.
func (b *Queries) addPhaseTerm(ctx context.Context, s *statementBuilder, t fleet.FilterTerm) error {
	var wanted []string
	for _, p := range fleet.VMPhases {
		matches := slices.ContainsFunc(t.Alternatives, func(m fleet.FilterMatch) bool { return m.Matches(string(p)) })
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
	if len(wanted) > 0 {
		condition := s.hostOnlineSQL(hosts)
		if slices.ContainsFunc(wanted, func(p string) bool { return slices.Contains(unobservedPhases, p) }) {
			condition += " OR " + unobservedSQL
		}
		// The phases are literals: PostgreSQL then estimates the rows from its statistics.
		parts = append(parts, "v.heard IN ('"+strings.Join(wanted, "', '")+"') AND ("+condition+")")
	}
	s.addCondition("((" + strings.Join(parts, ") OR (") + "))")
	return nil
}

// unobservedPhases do not depend on the host's liveness for VMs without an observed generation.
var unobservedPhases = []string{string(fleet.PhaseCreating), string(fleet.PhaseDeleting)}

const (
	// observedSQL is true of VMs whose phase depends on the host's reports.
	observedSQL = "v.deleted_at IS NULL AND v.status IS NOT NULL AND v.observed_generation > 0"
	// unobservedSQL is the negation of observedSQL. It names the two phases of such VMs because an index covers them.
	unobservedSQL = "v.heard IN ('creating', 'deleting') AND NOT (" + observedSQL + ")"
)

// hostLiveness counts the online and offline hosts, and lists their IDs if they are few. With literal IDs PostgreSQL
// estimates rows well; planning a condition on every host would take longer than reading the page. If no host is
// online, or none is offline, the condition is constant and PostgreSQL scans no VM.
type hostLiveness struct{ online, offline hostSet }

type hostSet struct {
	size int
	ids  []string // nil if there are more than maxHostsInSQL
}

// maxHostsInSQL is the maximum number of hosts named in a statement. For more hosts, PostgreSQL scans the VMs in list
// order.
const maxHostsInSQL = 200

// livenessSQL reads the host IDs only if they are few.
var livenessSQL = func() string {
	few := strconv.Itoa(maxHostsInSQL)
	ids := func(n, which string) string {
		return "CASE WHEN h." + n + " BETWEEN 1 AND " + few + " THEN ARRAY(SELECT s.host_id FROM host_sessions s WHERE " + which + ") END"
	}
	return "SELECT h.online, h.offline, " + ids("online", reportsFreshSQL) + ", " + ids("offline", "NOT "+reportsFreshSQL) + `
		FROM (SELECT count(*) FILTER (WHERE ` + reportsFreshSQL + `) AS online, count(*) FILTER (WHERE NOT ` + reportsFreshSQL + `) AS offline FROM host_sessions s) h`
}()

// manyOnlineSQL counts the online hosts, but stops as soon as there are more than maxHostsInSQL.
var manyOnlineSQL = "SELECT count(*) FROM (SELECT 1 FROM host_sessions s WHERE " + reportsFreshSQL + " LIMIT " + strconv.Itoa(maxHostsInSQL+1) + ") h"

// readHostLiveness reads the liveness of hosts. In a large fleet the offline hosts come from the cache. The number of
// online hosts is always read, because all hosts may have gone offline since the cache was filled.
func (b *Queries) readHostLiveness(ctx context.Context) (hostLiveness, error) {
	if totals, ok := b.fleetTotals.lookUpTotal(ctx, fleetKey{}); ok {
		online, err := collectRows(ctx, b, manyOnlineSQL, new(statementBuilder), pgx.RowTo[int])
		if err != nil {
			return hostLiveness{}, err
		}
		if online[0] > maxHostsInSQL {
			h := hostLiveness{online: hostSet{size: online[0]}, offline: hostSet{size: len(totals.offline)}}
			if h.offline.size <= maxHostsInSQL {
				h.offline.ids = store.ToStrings(totals.offline)
			}
			return h, nil
		}
	}
	rows, err := collectRows(ctx, b, livenessSQL, new(statementBuilder), func(row pgx.CollectableRow) (h hostLiveness, err error) {
		err = row.Scan(&h.online.size, &h.offline.size, &h.online.ids, &h.offline.ids)
		return h, err
	})
	if err != nil {
		return hostLiveness{}, err
	}
	return rows[0], nil
}

// inSetSQL returns the condition that the VM's host is in the set. The parameter is has the condition on the host's
// agent session that defines the set; the IDs of a small set only narrow that condition.
func (h hostSet) inSetSQL(s *statementBuilder, is string) string {
	switch {
	case h.size == 0:
		return "false"
	case h.ids == nil:
		return is
	}
	return s.oneOfSQL("v.host_id", h.ids) + " AND " + is
}

// hostOfflineSQL is the condition that the VM's host is offline and the VM's phase therefore unknown.
func (s *statementBuilder) hostOfflineSQL(h hostLiveness) string {
	return h.offline.inSetSQL(s, "NOT "+reportsFreshSQL+" AND "+observedSQL)
}

// hostOnlineSQL is the condition that the VM's host is online. The explicit check that the host has an agent session is
// redundant, but lets PostgreSQL read the small table of agent sessions first.
func (s *statementBuilder) hostOnlineSQL(h hostLiveness) string {
	const hasSession = "s.host_id IS NOT NULL AND "
	if h.offline.size == 0 {
		return hasSession + reportsFreshSQL
	}
	return h.online.inSetSQL(s, hasSession+reportsFreshSQL)
}

// addAttentionTerm adds the condition for VMs that need attention, or for those that do not. A test keeps it equal to
// fleet.VM.NeedsAttention.
func (b *Queries) addAttentionTerm(ctx context.Context, s *statementBuilder, t fleet.FilterTerm) error {
	hosts, err := b.readHostLiveness(ctx)
	if err != nil {
		return err
	}
	s.whereYesOrNo(t, func() string { return "v.attention OR " + s.hostOfflineSQL(hosts) },
		func() string { return "NOT v.attention AND (" + s.hostOnlineSQL(hosts) + " OR " + unobservedSQL + ")" })
	return nil
}

// addDriftTerm adds the condition for VMs that have drifted, or for those that have not. Drift reported by an offline
// host does not count, as on pages.
func (b *Queries) addDriftTerm(ctx context.Context, s *statementBuilder, t fleet.FilterTerm) error {
	hosts, err := b.readHostLiveness(ctx)
	if err != nil {
		return err
	}
	s.whereYesOrNo(t, func() string { return "v.drifted AND " + s.hostOnlineSQL(hosts) },
		func() string { return "NOT (v.drifted AND COALESCE(" + s.hostOnlineSQL(hosts) + ", false))" })
	return nil
}

// whereYesOrNo adds the condition for each of "yes" and "no" that the term matches.
func (s *statementBuilder) whereYesOrNo(t fleet.FilterTerm, yes, no func() string) {
	parts := []string{"false"}
	matches := func(answer string) bool {
		return slices.ContainsFunc(t.Alternatives, func(m fleet.FilterMatch) bool { return m.Matches(answer) }) != t.Not
	}
	if matches("yes") {
		parts = append(parts, yes())
	}
	if matches("no") {
		parts = append(parts, no())
	}
	s.addCondition("((" + strings.Join(parts, ") OR (") + "))")
}
