package query

import (
	"context"
	"strconv"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/console"
	"quantix/internal/control/store"
	"quantix/internal/filter"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

var consolesByTime = sortOrder[console.Session]{[]sortColumn{timeColumn("cs.opened_at"), textColumn("cs.id")}, func(v console.Session) []string {
	return []string{formatTime(v.OpenedAt), string(v.ID)}
}}

// consoleFilter are the conditions of fleet.ConsoleKeys.
var consoleFilter = listFilter{
	"open":    yesNoCondition("cs.ended_at IS NULL"),
	"vm":      containsTextCondition("cs.vm_name"),
	"project": lowerTextCondition("lower(p.name)"),
	"who": sqlCondition(func(f filterScope, t filter.Term) string {
		return f.createdBySQL(f.actor, "cs.user_id", "cs.user_name", t.Alternatives)
	}),
	"opened": dayCondition("cs.opened_at"),
	"uuid": sqlCondition(func(f filterScope, t filter.Term) string {
		ids := lowerMatches(t.Alternatives)
		return f.matchText("cs.id", ids) + " OR " + f.matchText("cs.uuid", ids)
	}),
}

var consoleList = list[console.Session]{
	name: "console session", see: policy.VMSee, sort: "-opened", keys: fleet.ConsoleKeys, filter: consoleFilter, id: "cs.id", read: (*Queries).readConsoleSessions,
	restrict: func(s *statementBuilder, a fleet.Actor, project fleet.ProjectID) {
		if project != "" || !policy.May(a, policy.InfraSee, "") {
			s.whereProjectVisible(a, "cs.project_id", project)
		}
	},
	orders: sortOrders[console.Session]{"opened": consolesByTime},
}

func (b *Queries) readConsoleSessions(ctx context.Context, a fleet.Actor, s *statementBuilder, tail string) ([]console.Session, error) {
	sql := `SELECT cs.id, cs.kind, cs.uuid, cs.vm_name, COALESCE(cs.host_id, ''), COALESCE(cs.project_id, ''), COALESCE(p.name, ''),
		COALESCE(cs.user_id, ''), cs.user_name, cs.address, cs.opened_at, cs.ended_at, cs.ended_by, cs.end_reason, cs.keyboard, cs.asked_at, cs.sent, cs.shown
		FROM console_sessions cs LEFT JOIN projects p ON p.id = cs.project_id` + s.whereClause() + tail
	seesAddresses := policy.May(a, policy.InfraSee, "")
	return collectRows(ctx, b, sql, s, func(row pgx.CollectableRow) (v console.Session, err error) {
		err = row.Scan(&v.ID, &v.Kind, &v.VMID, &v.VMName, &v.HostID, &v.ProjectID, &v.ProjectName,
			&v.UserID, &v.UserName, &v.Address, &v.OpenedAt, &v.EndedAt, &v.EndedBy, &v.EndReason, &v.Keyboard, &v.AskedAt, &v.SentBytes, &v.ShownBytes)
		if !seesAddresses && (a.UserID == "" || v.UserID != a.UserID) {
			v.Address = ""
		}
		return v, err
	})
}

// ListConsoleSessions returns one page of the sessions of consoles of VMs that the actor sees. Sorts: opened.
func (b *Queries) ListConsoleSessions(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[console.Session], error) {
	return consoleList.readPage(ctx, b, a, q)
}

// maxConsoleViewers is the maximum number of sessions that OpenConsoleSessions returns.
const maxConsoleViewers = 50

// OpenConsoleSessions returns the open sessions of a VM's console, the oldest first.
func (b *Queries) OpenConsoleSessions(ctx context.Context, a fleet.Actor, vm fleet.VMID) ([]console.Session, error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return nil, err
	}
	if err := store.CheckID(vm, "VM"); err != nil {
		return nil, err
	}
	if !policy.SeesAllProjects(a) {
		seen, err := b.store.VMsSeen(ctx, db.VMsSeenParams{Ids: []string{string(vm)}, Projects: store.VisibleProjects(a)})
		if err != nil || len(seen) == 0 {
			return nil, store.FirstErrorOf(store.UserError(err), func() error { return store.NotFoundError(pgx.ErrNoRows, "VM") })
		}
	}
	return b.openConsoleSessions(ctx, a, fleet.SubjectVM(vm))
}

// OpenDiscoveredConsoleSessions works like OpenConsoleSessions, for a VM that Quantix does not manage.
func (b *Queries) OpenDiscoveredConsoleSessions(ctx context.Context, a fleet.Actor, host fleet.HostID, vm fleet.VMID) ([]console.Session, error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return nil, err
	}
	return b.openConsoleSessions(ctx, a, fleet.SubjectDiscoveredVM(host, vm))
}

func (b *Queries) openConsoleSessions(ctx context.Context, a fleet.Actor, of fleet.Subject) ([]console.Session, error) {
	var s statementBuilder
	consoleList.restrict(&s, a, "")
	s.addCondition("cs.subject = " + s.addKeyArg(string(of)))
	s.addCondition("cs.ended_at IS NULL")
	return b.readConsoleSessions(ctx, a, &s, " ORDER BY cs.opened_at LIMIT "+strconv.Itoa(maxConsoleViewers))
}

// GetConsoleSession returns one session of a console that the actor may see.
func (b *Queries) GetConsoleSession(ctx context.Context, a fleet.Actor, id fleet.PairID) (console.Session, error) {
	return consoleList.readOne(ctx, b, a, string(id))
}
