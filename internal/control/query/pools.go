package query

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/filter"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// poolViews returns pools with their health. It removes storage locations for actors who cannot see hosts.
func (b *Queries) poolViews(ctx context.Context, a fleet.Actor, rows []db.Pool) ([]fleet.PoolView, error) {
	ids, views := make([]fleet.PoolID, len(rows)), make([]fleet.PoolView, len(rows))
	for i, r := range rows {
		ids[i] = r.ID
	}
	if len(ids) == 0 {
		return views, nil
	}
	groups, err := b.poolStatusGroups(ctx, ids...)
	if err != nil {
		return nil, err
	}
	rooms, err := b.sharedCapacities(ctx, rows, groups)
	if err != nil {
		return views, err
	}
	drifted, err := b.driftedHosts(ctx, a, poolColumn, store.ToStrings(ids))
	for i, r := range rows {
		views[i] = poolView(a, r, groups[r.ID], rooms[r.ID])
		views[i].Health.Drifted = drifted[string(r.ID)]
	}
	if err == nil {
		err = b.redactPoolHealth(ctx, a, views)
	}
	if err != nil {
		return views, err
	}
	return views, b.addPoolGrants(ctx, a, views)
}

func poolView(a fleet.Actor, r db.Pool, groups []poolStatusGroup, first fleet.PoolSpace) fleet.PoolView {
	v := fleet.PoolView{Pool: store.PoolFromRow(r), Grants: []fleet.ProjectGrant{}, Health: poolHealth(r.Spec, groups, first), Hosts: []fleet.PoolHost{}}
	if v.DeletedAt != nil {
		v.Health.Severity, v.Health.Summary = fleet.SeverityWarn, poolDeletingText
	}
	if !policy.May(a, policy.InfraSee, "") {
		v.Spec = fleet.PoolSpec{Kind: v.Spec.Kind, Shared: v.Spec.Shared}
	}
	return v
}

// readPoolRows reads the pools (alias p) that s selects.
func (b *Queries) readPoolRows(ctx context.Context, s statementBuilder, tail string) ([]db.Pool, error) {
	return collectRows(ctx, b, "SELECT p.id, p.name, p.spec, p.generation, p.created_at, p.deleted_at FROM pools p"+s.whereClause()+tail, &s,
		func(x pgx.CollectableRow) (r db.Pool, err error) {
			err = x.Scan(&r.ID, &r.Name, &r.Spec, &r.Generation, &r.CreatedAt, &r.DeletedAt)
			return r, err
		})
}

const poolDeletingText = "Being deleted: waiting for its hosts to release it"

var poolsByName = sortOrder[fleet.PoolView]{[]sortColumn{textColumn("p.name"), textColumn("p.id")}, func(v fleet.PoolView) []string {
	return []string{v.Name, string(v.ID)}
}}

var poolSortOrders = sortOrders[fleet.PoolView]{
	"name":    poolsByName,
	"kind":    poolsByName.withFirstColumn(textColumn("p.spec->>'kind'"), func(v fleet.PoolView) string { return string(v.Spec.Kind) }),
	"created": poolsByName.withFirstColumn(timeColumn("p.created_at"), func(v fleet.PoolView) string { return formatTime(v.CreatedAt) }),
}

// poolFilter are the conditions of fleet.PoolKeys, except those on the pool's health, source and capacity: see
// matchesPoolTerms.
var poolFilter = listFilter{
	"name":        lowerTextCondition("p.name"),
	"kind":        exactTextCondition("p.spec->>'kind'"),
	"drift":       driftedOnHost("pool_id", "p.id"),
	"host":        assignedHostCondition("pool_id", "p.id"),
	"description": containsTextCondition("p.spec->>'description'"),
	"created":     dayCondition("p.created_at"),
	"uuid":        lowerTextCondition("p.id"),
}

// ListPools returns one page of pools with their health, without hosts and volumes. Sorts: name, kind, created.
func (b *Queries) ListPools(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.PoolView], error) {
	if err := policy.Check(a, policy.StorageSee, ""); err != nil {
		return fleet.Page[fleet.PoolView]{}, err
	}
	p, terms, err := poolSortOrders.parseQuery(q, "name", filterKeys(a, fleet.TypePool))
	if err != nil {
		return fleet.Page[fleet.PoolView]{}, err
	}
	var s statementBuilder
	s.wherePoolVisible(a, "")
	rest, err := b.applyFilter(ctx, &s, a, poolFilter, terms)
	if err != nil {
		return fleet.Page[fleet.PoolView]{}, err
	}
	return b.readPoolPage(ctx, a, p, s, rest)
}

// readPoolPage reads pages of pools until enough pools match the filter terms in rest, which cannot be evaluated in
// SQL.
func (b *Queries) readPoolPage(ctx context.Context, a fleet.Actor, p pagePosition[fleet.PoolView], s statementBuilder, rest []filter.Term) (fleet.Page[fleet.PoolView], error) {
	matching := []fleet.PoolView{}
	for at := p; ; {
		part := statementBuilder{where: slices.Clone(s.where), args: slices.Clone(s.args), planEachTime: s.planEachTime, isSearch: s.isSearch}
		tail := at.applyCursor(&part)
		rows, err := b.readPoolRows(ctx, part, tail)
		if err != nil {
			return fleet.Page[fleet.PoolView]{}, err
		}
		views, err := b.poolViews(ctx, a, rows)
		if err != nil {
			return fleet.Page[fleet.PoolView]{}, err
		}
		more := len(views) > p.limit
		if more {
			views = views[:p.limit]
			at.cursor = p.values(views[p.limit-1])
		}
		for _, v := range views {
			if matchesPoolTerms(rest, v) {
				matching = append(matching, v)
			}
		}
		if !more || len(matching) > p.limit {
			return p.buildPage(matching), nil
		}
	}
}

// matchesPoolTerms reports whether a pool matches the filter terms on its health, source and capacity. A pool of
// unknown capacity matches no term on capacity.
func matchesPoolTerms(terms []filter.Term, v fleet.PoolView) bool {
	for _, t := range terms {
		matches := false
		switch capacity, known := v.Health.CapacityBytes, v.Health.CapacityBytes > 0; t.Key {
		case "health":
			matches = matchesSeverity([]filter.Term{t}, v.Health.Severity)
		case "source":
			source := strings.ToLower(v.Spec.Source())
			matches = slices.ContainsFunc(anywhereMatches(t.Alternatives), func(m filter.Match) bool { return m.Matches(source) }) != t.Not
		case "used":
			matches = known && matchesNumber(t, 100*float64(v.Health.UsedBytes)/float64(capacity))
		case "free":
			matches = known && matchesNumber(t, float64(v.Health.AvailableBytes))
		}
		if !matches {
			return false
		}
	}
	return true
}

func matchesNumber(t filter.Term, value float64) bool {
	return slices.ContainsFunc(t.Comparisons, func(c filter.Comparison) bool { return c.Matches(value) }) != t.Not
}

func matchesSeverity(tones []filter.Term, tone fleet.Severity) bool {
	for _, t := range tones {
		if slices.ContainsFunc(t.Alternatives, func(m filter.Match) bool { return m.Matches(string(tone)) }) == t.Not {
			return false
		}
	}
	return true
}

// GetPool returns one pool with the first page of its host statuses, without volumes.
func (b *Queries) GetPool(ctx context.Context, a fleet.Actor, id fleet.PoolID) (fleet.PoolView, error) {
	v, _, err := b.poolMatrixWithoutHistory(ctx, a, id, fleet.Query{})
	return v, err
}

// PoolMatrix works like GetPool, but returns the page of host statuses that q selects, as PoolHosts does. Actors who
// cannot see hosts get an empty page.
func (b *Queries) PoolMatrix(ctx context.Context, a fleet.Actor, id fleet.PoolID, q fleet.Query) (fleet.PoolView, fleet.Page[fleet.PoolHost], error) {
	v, page, err := b.poolMatrixWithoutHistory(ctx, a, id, q)
	if err == nil {
		err = fillHistory(ctx, b, fleet.TypePool, string(id), page.Items, poolHistory)
	}
	return v, page, err
}

// poolMatrixWithoutHistory works like PoolMatrix, without the 24-hour history.
func (b *Queries) poolMatrixWithoutHistory(ctx context.Context, a fleet.Actor, id fleet.PoolID, q fleet.Query) (fleet.PoolView, fleet.Page[fleet.PoolHost], error) {
	var page fleet.Page[fleet.PoolHost]
	r, err := b.readPoolRow(ctx, a, id)
	if err != nil {
		return fleet.PoolView{}, page, err
	}
	groups, err := b.poolStatusGroups(ctx, id)
	if err != nil {
		return fleet.PoolView{}, page, err
	}
	rooms, err := b.sharedCapacities(ctx, []db.Pool{r}, groups)
	if err != nil {
		return fleet.PoolView{}, page, err
	}
	views := []fleet.PoolView{poolView(a, r, groups[id], rooms[id])}
	if err := b.redactPoolHealth(ctx, a, views); err != nil {
		return fleet.PoolView{}, page, err
	}
	if err := b.addPoolGrants(ctx, a, views); err != nil {
		return fleet.PoolView{}, page, err
	}
	v := views[0]
	if !store.SeesHosts(a) {
		page.Items = []fleet.PoolHost{}
		return v, page, nil
	}
	drifted, err := b.driftedHosts(ctx, a, poolColumn, []string{string(id)})
	if err != nil {
		return v, page, err
	}
	v.Health.Drifted = drifted[string(id)]
	first, err := b.poolStatuses.statusPage(ctx, id, groups[id], fleet.Query{Limit: q.Limit})
	if err == nil {
		err = b.fillPoolImpact(ctx, id, first.Items)
	}
	if err != nil {
		return v, page, err
	}
	v.Hosts = first.Items
	if q.Filter == "" && q.After == "" && q.Before == "" {
		return v, first, nil
	}
	if page, err = b.poolStatuses.statusPage(ctx, id, groups[id], q); err == nil {
		err = b.fillPoolImpact(ctx, id, page.Items)
	}
	return v, page, err
}

// readPoolRow reads one pool that the actor may see.
func (b *Queries) readPoolRow(ctx context.Context, a fleet.Actor, id fleet.PoolID) (db.Pool, error) {
	if err := policy.Check(a, policy.StorageSee, ""); err != nil {
		return db.Pool{}, err
	}
	if err := store.CheckID(id, "pool"); err != nil {
		return db.Pool{}, err
	}
	var s statementBuilder
	s.addCondition("p.id = " + s.addKeyArg(string(id)))
	s.wherePoolVisible(a, "")
	rows, err := b.readPoolRows(ctx, s, "")
	if err == nil && len(rows) == 0 {
		err = store.NotFoundError(pgx.ErrNoRows, "pool")
	}
	if err != nil {
		return db.Pool{}, err
	}
	return rows[0], nil
}

// PoolsOnHost lists the pools of one host by name, each with only that host's status.
func (b *Queries) PoolsOnHost(ctx context.Context, a fleet.Actor, host fleet.HostID) ([]fleet.PoolView, error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return nil, err
	}
	if err := store.CheckID(host, "host"); err != nil {
		return nil, err
	}
	var s, of statementBuilder
	s.addCondition("p.id IN (SELECT x.pool_id FROM assignments x WHERE x.host_id = " + s.addKeyArg(string(host)) + ")")
	rows, err := b.readPoolRows(ctx, s, " ORDER BY p.name, p.id")
	if err != nil {
		return nil, err
	}
	of.addCondition("a.pool_id IS NOT NULL AND a.host_id = " + of.addKeyArg(string(host)))
	statuses, err := b.readPoolStatuses(ctx, of)
	views := make([]fleet.PoolView, len(rows))
	for i, r := range rows {
		views[i] = fleet.PoolView{Pool: store.PoolFromRow(r), Grants: []fleet.ProjectGrant{}, Hosts: slices.DeleteFunc(slices.Clone(statuses), func(h fleet.PoolHost) bool { return h.PoolID != r.ID })}
	}
	if err != nil {
		return views, err
	}
	return views, b.addPoolGrants(ctx, a, views)
}

// PoolNames returns the names of pools by ID, without those that do not exist or that the actor may not see.
func (b *Queries) PoolNames(ctx context.Context, a fleet.Actor, ids []fleet.PoolID) (map[fleet.PoolID]string, error) {
	if err := policy.Check(a, policy.StorageSee, ""); err != nil {
		return nil, err
	}
	var s statementBuilder
	s.addCondition("p.id = ANY (" + s.addKeyArg(store.ToStrings(ids)) + "::text[])")
	s.wherePoolVisible(a, "")
	rows, err := b.readPoolRows(ctx, s, "")
	names := make(map[fleet.PoolID]string, len(rows))
	for _, r := range rows {
		names[r.ID] = r.Name
	}
	return names, err
}

// PoolVMs works like ListVMs for the VMs with a disk in the pool.
func (b *Queries) PoolVMs(ctx context.Context, a fleet.Actor, id fleet.PoolID, q fleet.Query) (fleet.Page[fleet.VMView], error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return fleet.Page[fleet.VMView]{}, err
	}
	if _, err := b.readPoolRow(ctx, a, id); err != nil {
		return fleet.Page[fleet.VMView]{}, err
	}
	var s statementBuilder
	s.addCondition(s.specContainsSQL(diskInPoolPattern, []string{string(id)}))
	return b.listVMs(ctx, a, q, &s)
}

// PoolCounts holds the numbers of a pool's volumes and VMs.
type PoolCounts struct {
	Volumes int // 0 unless the actor sees all projects
	VMs     int // visible VMs with a disk in the pool; MaxCountedVMs means at least MaxCountedVMs
}

// MaxCountedVMs is the number of VMs at which PoolCounts stops counting.
const MaxCountedVMs = 1000

// PoolCounts counts the volumes that hosts report for a pool, and the VMs with a disk in the pool. For a shared pool it
// returns the largest number of volumes that a host reports.
func (b *Queries) PoolCounts(ctx context.Context, a fleet.Actor, id fleet.PoolID) (PoolCounts, error) {
	var out PoolCounts
	r, err := b.readPoolRow(ctx, a, id)
	if err != nil {
		return out, err
	}
	if policy.SeesAllProjects(a) {
		groups, err := b.poolStatusGroups(ctx, id)
		if err != nil {
			return out, err
		}
		for _, g := range groups[id] {
			if r.Spec.Shared {
				out.Volumes = max(out.Volumes, int(g.mostVolumes))
			} else {
				out.Volumes += int(g.volumes)
			}
		}
	}
	var s statementBuilder
	s.addCondition(s.specContainsSQL(diskInPoolPattern, []string{string(id)}))
	s.whereVMVisible(a, "")
	count, err := collectRows(ctx, b, "SELECT count(*) FROM (SELECT 1 FROM vms v"+s.whereClause()+" LIMIT "+strconv.Itoa(MaxCountedVMs)+") x", &s, pgx.RowTo[int])
	if err == nil {
		out.VMs = count[0]
	}
	return out, err
}

// storageTotalSQL adds up the capacity and used space of active pools on online hosts, each file system once. The space
// of a shared pool is the one that its first suitable host by name reports. If no file system is reported, a shared
// pool counts once per source on a storage server, or else per pool. A local pool then counts once per host.
var storageTotalSQL = `WITH shared AS MATERIALIZED (
		SELECT COALESCE(f.file_system, CASE WHEN p.spec->>'path' = '' THEN (p.spec - '{description,user,initiator}'::text[])::text ELSE p.id END) AS place,
			f.capacity_bytes, f.used_bytes
		FROM pools p CROSS JOIN LATERAL (SELECT a.file_system, a.capacity_bytes, a.used_bytes FROM hosts h
			JOIN assignments a ON a.noun = 'pool' AND a.object_id = p.id AND a.host_id = h.id JOIN host_sessions s ON s.host_id = h.id
			WHERE a.said = 'active' AND ` + reportsFreshSQL + ` ORDER BY h.name LIMIT 1) f
		WHERE p.spec->>'shared' = 'true'
	), local AS (
		SELECT COALESCE(a.file_system, a.object_id || ' ' || a.host_id) AS place, a.capacity_bytes, a.used_bytes
		FROM assignments a JOIN pools p ON p.id = a.pool_id JOIN host_sessions s ON s.host_id = a.host_id
		WHERE a.said = 'active' AND ` + reportsFreshSQL + ` AND p.spec->>'shared' IS DISTINCT FROM 'true'
	)
	SELECT ` + saturatingSumSQL("x.capacity_bytes") + `, ` + saturatingSumSQL("x.used_bytes") + ` FROM (
		SELECT max(capacity_bytes) AS capacity_bytes, max(used_bytes) AS used_bytes FROM (SELECT * FROM shared UNION ALL SELECT * FROM local) c GROUP BY place
	) x`

func (b *Queries) storageTotal(ctx context.Context) (fleet.PoolSpace, error) {
	rows, err := collectRows(ctx, b, storageTotalSQL, new(statementBuilder), func(row pgx.CollectableRow) (r fleet.PoolSpace, err error) {
		err = row.Scan(&r.CapacityBytes, &r.UsedBytes)
		return r, err
	})
	if err != nil {
		return fleet.PoolSpace{}, err
	}
	return rows[0], nil
}
