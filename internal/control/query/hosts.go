package query

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

var hostSortOrders = sortOrders[fleet.HostView]{
	"name": {[]sortColumn{textColumn("h.name"), textColumn("h.id")}, func(v fleet.HostView) []string { return []string{v.Name, string(v.ID)} }},
	"created": {[]sortColumn{timeColumn("h.created_at"), textColumn("h.id")}, func(v fleet.HostView) []string {
		return []string{formatTime(v.CreatedAt), string(v.ID)}
	}},
}

// hostPhaseSQL is fleet.Host.Phase in SQL, for filters and the tree. It does not read into the host's status, which
// contains the large hardware inventory.
var hostPhaseSQL = "CASE WHEN s.seen_at IS NULL OR h.status IS NULL THEN 'pending' WHEN s.conflict <> '' THEN 'conflict' WHEN NOT " + agentOnlineSQL +
	" THEN 'unknown' WHEN s.blind_since IS NULL AND " + reportsFreshSQL + " THEN 'online' ELSE 'degraded' END"

// ListHosts returns one page of hosts. The usage by their VMs comes from the counters and is up to five seconds old.
// Sorts: name, created.
func (b *Queries) ListHosts(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.HostView], error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return fleet.Page[fleet.HostView]{}, err
	}
	p, terms, err := hostSortOrders.parseQuery(q, "name", fleet.HostKeys)
	if err != nil {
		return fleet.Page[fleet.HostView]{}, err
	}
	var s statementBuilder
	for _, t := range terms {
		switch t.Key {
		case "phase":
			s.addConditionOrNegation(t.Not, s.matchText("("+hostPhaseSQL+")", t.Alternatives))
		case "name":
			s.addConditionOrNegation(t.Not, s.matchText("h.name", lowerMatches(t.Alternatives)))
		case "label":
			s.addConditionOrNegation(t.Not, s.matchLabels("(h.spec->'labels')", t.Alternatives))
		}
	}
	tail := p.applyCursor(&s)
	sums, err := b.currentCounters(ctx)
	if err != nil {
		return fleet.Page[fleet.HostView]{}, err
	}
	items, err := collectRows(ctx, b, `SELECT h.id, h.name, h.spec, h.generation, h.created_at, h.status, s.seen_at, s.looked_at, COALESCE(s.conflict, ''), now()
		FROM hosts h LEFT JOIN host_sessions s ON s.host_id = h.id`+s.whereClause()+tail, &s, func(row pgx.CollectableRow) (fleet.HostView, error) {
		var r db.Host
		var seen, looked *time.Time
		var conflict string
		var now time.Time
		err := row.Scan(&r.ID, &r.Name, &r.Spec, &r.Generation, &r.CreatedAt, &r.Status, &seen, &looked, &conflict, &now)
		v := store.HostView(r, seen, looked, conflict, now)
		sum := sums.hosts[r.ID]
		v.VMs, v.Deleting, v.CommittedCPUs, v.CommittedMiB = sum.vms, sum.deleting, sum.cpus, sum.memoryMiB
		return v, err
	})
	return p.buildPage(items), err
}

// GetHost returns one host.
func (b *Queries) GetHost(ctx context.Context, a fleet.Actor, id fleet.HostID) (fleet.HostView, error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return fleet.HostView{}, err
	}
	if err := store.CheckID(id, "host"); err != nil {
		return fleet.HostView{}, err
	}
	r, err := b.store.GetHost(ctx, id)
	if err != nil {
		return fleet.HostView{}, store.NotFoundError(err, "host")
	}
	v := store.HostViewFromRow(r)
	reserved, err := b.store.ReservedCPU(ctx, string(id))
	for _, sum := range reserved {
		v.ReservedCPU = sum.Percent
	}
	return v, store.UserError(err)
}
