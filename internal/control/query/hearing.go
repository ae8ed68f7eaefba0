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

// phaseTerm asks for derived phases. Column heard is the phase while the host is heard; a host that is not turns all but
// deleting and never-acted-on VMs into unknown. See fleet.VM.Phase, to which a test holds this.
func (b *Queries) phaseTerm(ctx context.Context, s *statement, t fleet.Term) error {
	var wanted []string
	for _, p := range fleet.VMPhases {
		asked := slices.ContainsFunc(t.Any, func(m fleet.Match) bool { return m.Matches(string(p)) })
		if asked != t.Not {
			wanted = append(wanted, string(p))
		}
	}
	hosts, err := b.liveness(ctx)
	if err != nil {
		return err
	}
	parts := []string{"false"}
	if i := slices.Index(wanted, string(fleet.PhaseUnknown)); i >= 0 {
		wanted = slices.Delete(wanted, i, i+1)
		parts = append(parts, s.unknown(hosts))
	}
	if len(wanted) > 0 {
		told := s.online(hosts)
		if slices.ContainsFunc(wanted, func(p string) bool { return slices.Contains(ownPhases, p) }) {
			told += " OR " + unacted
		}
		// The phases stand in the statement itself: PostgreSQL knows how many VMs are in each.
		parts = append(parts, "v.heard IN ('"+strings.Join(wanted, "', '")+"') AND ("+told+")")
	}
	s.and("((" + strings.Join(parts, ") OR (") + "))")
	return nil
}

// ownPhases do not hang on the host, for VMs that it has not acted on.
var ownPhases = []string{string(fleet.PhaseCreating), string(fleet.PhaseDeleting)}

const (
	// acted is true of VMs whose state hangs on what their host says.
	acted = "v.deleted_at IS NULL AND v.status IS NOT NULL AND v.observed_generation > 0"
	// unacted is its contrary, with the phases of which they all are, because an index knows those.
	unacted = "v.heard IN ('creating', 'deleting') AND NOT (" + acted + ")"
)

// liveness is which hosts are believed now: how many are and are not, and which, where these are few. With the very ids PostgreSQL
// knows how many VMs it is about; a condition on all hosts of a fleet would take longer to plan than its page to read. Where there are
// none, a list must not look at each VM to find out that it shows none.
type liveness struct{ online, offline hostsOf }

type hostsOf struct {
	n   int
	ids []string // nil: many
}

// fewHosts is how many hosts a statement names. A page of VMs of more hosts than that is found by looking at VMs in the list's order.
const fewHosts = 200

// livenessSQL reads the ids only where they are few.
var livenessSQL = func() string {
	few := strconv.Itoa(fewHosts)
	ids := func(n, which string) string {
		return "CASE WHEN h." + n + " BETWEEN 1 AND " + few + " THEN ARRAY(SELECT s.host_id FROM host_sessions s WHERE " + which + ") END"
	}
	return "SELECT h.heard, h.silent, " + ids("heard", fresh) + ", " + ids("silent", "NOT "+fresh) + `
		FROM (SELECT count(*) FILTER (WHERE ` + fresh + `) AS heard, count(*) FILTER (WHERE NOT ` + fresh + `) AS silent FROM host_sessions s) h`
}()

// manyHeardSQL is how many hosts are believed, of which it looks at no more than it takes to know that they are many.
var manyHeardSQL = "SELECT count(*) FROM (SELECT 1 FROM host_sessions s WHERE " + fresh + " LIMIT " + strconv.Itoa(fewHosts+1) + ") h"

// liveness asks for it. In a wide fleet the silent hosts are those that are kept: all may have fallen silent since, so whether many are heard is asked.
func (b *Queries) liveness(ctx context.Context) (liveness, error) {
	if whole, ok := b.whole.known(ctx, everything{}); ok {
		heard, err := collect(ctx, b, manyHeardSQL, new(statement), pgx.RowTo[int])
		if err != nil {
			return liveness{}, err
		}
		if heard[0] > fewHosts {
			h := liveness{online: hostsOf{n: heard[0]}, offline: hostsOf{n: len(whole.offline)}}
			if h.offline.n <= fewHosts {
				h.offline.ids = store.Texts(whole.offline)
			}
			return h, nil
		}
	}
	rows, err := collect(ctx, b, livenessSQL, new(statement), func(row pgx.CollectableRow) (h liveness, err error) {
		err = row.Scan(&h.online.n, &h.offline.n, &h.online.ids, &h.offline.ids)
		return h, err
	})
	if err != nil {
		return liveness{}, err
	}
	return rows[0], nil
}

// on is the condition that the VM's host is one of those, as far as it needs to be said beside is.
func (h hostsOf) on(s *statement, is string) string {
	switch {
	case h.n == 0:
		return "false"
	case h.ids == nil:
		return is
	}
	return s.oneOf("v.host_id", h.ids) + " AND " + is
}

// unknown is the condition that the VM's host is silent.
func (s *statement) unknown(h liveness) string { return h.offline.on(s, "NOT "+fresh+" AND "+acted) }

// online is the condition that the VM's host is not silent. That a host has a session is said although fresh says it, for PostgreSQL to
// see that it may begin with the sessions.
func (s *statement) online(h liveness) string {
	const heard = "s.host_id IS NOT NULL AND "
	if h.offline.n == 0 {
		return heard + fresh
	}
	return h.online.on(s, heard+fresh)
}

// attentionTerm asks for the VMs that wait for a person, or for those that do not. See fleet.VM.NeedsAttention, to which a test
// holds this.
func (b *Queries) attentionTerm(ctx context.Context, s *statement, t fleet.Term) error {
	hosts, err := b.liveness(ctx)
	if err != nil {
		return err
	}
	s.yesOrNo(t, func() string { return "v.attention OR " + s.unknown(hosts) },
		func() string { return "NOT v.attention AND (" + s.online(hosts) + " OR " + unacted + ")" })
	return nil
}

// driftTerm asks for the VMs that have drifted, or for those that have not. What a silent host reported of drift is not
// believed, as on pages.
func (b *Queries) driftTerm(ctx context.Context, s *statement, t fleet.Term) error {
	hosts, err := b.liveness(ctx)
	if err != nil {
		return err
	}
	s.yesOrNo(t, func() string { return "v.drifted AND " + s.online(hosts) },
		func() string { return "NOT (v.drifted AND COALESCE(" + s.online(hosts) + ", false))" })
	return nil
}

// yesOrNo adds the condition of each value, "yes" or "no", that the term matches.
func (s *statement) yesOrNo(t fleet.Term, yes, no func() string) {
	parts := []string{"false"}
	asked := func(answer string) bool {
		return slices.ContainsFunc(t.Any, func(m fleet.Match) bool { return m.Matches(answer) }) != t.Not
	}
	if asked("yes") {
		parts = append(parts, yes())
	}
	if asked("no") {
		parts = append(parts, no())
	}
	s.and("((" + strings.Join(parts, ") OR (") + "))")
}
