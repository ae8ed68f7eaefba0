package query

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"quantix/internal/control/store"
	"quantix/internal/filter"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// vmSortOrders are the sort orders for which indexes exist. Sorted by host or project, the VMs of one host or project
// after the other are read in index order.
var vmSortOrders = sortOrders[fleet.VMView]{
	"name":    vmsByName,
	"created": vmsByID.withFirstColumn(timeColumn("v.created_at"), func(v fleet.VMView) string { return formatTime(v.CreatedAt) }),
	"cpus":    vmsByID.withFirstColumn(int32Column("v.cpus"), func(v fleet.VMView) string { return strconv.Itoa(v.Spec.CPUs) }),
	"memory":  vmsByID.withFirstColumn(int64Column("v.memory_mib"), func(v fleet.VMView) string { return strconv.Itoa(v.Spec.MemoryMiB) }),
	"host":    vmsByName.withFirstColumn(textColumn("h.name"), func(v fleet.VMView) string { return v.HostName }),
	"project": vmsByName.withFirstColumn(textColumn("p.name"), func(v fleet.VMView) string { return v.ProjectName }),
}

var (
	vmsByID   = sortOrder[fleet.VMView]{[]sortColumn{textColumn("v.id")}, func(v fleet.VMView) []string { return []string{string(v.ID)} }}
	vmsByName = vmsByID.withFirstColumn(textColumn("v.name"), func(v fleet.VMView) string { return v.Name })
)

// ListVMs returns one page of the VMs that the actor sees. Sorts: name (default), created, cpus, memory, host, project.
func (b *Queries) ListVMs(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.VMView], error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return fleet.Page[fleet.VMView]{}, err
	}
	return b.listVMs(ctx, a, q, new(statementBuilder))
}

// ListVMRows works like ListVMs, but returns only the values that a table row shows: CPUs and memory from the spec, and
// power state, pending changes and addresses from the status. VMs that need attention have their complete spec and
// status.
func (b *Queries) ListVMRows(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.VMView], error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return fleet.Page[fleet.VMView]{}, err
	}
	return b.listVMsWithShape(ctx, a, q, new(statementBuilder), vmRowShape)
}

// ListVMsBriefly works like ListVMRows without CPU load. It allows longer pages, for callers that read a complete list.
func (b *Queries) ListVMsBriefly(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.VMView], error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return fleet.Page[fleet.VMView]{}, err
	}
	return b.listVMsWithShape(ctx, a, q, new(statementBuilder), vmLineShape)
}

// listVMs works like ListVMs, with the additional conditions in s.
func (b *Queries) listVMs(ctx context.Context, a fleet.Actor, q fleet.Query, s *statementBuilder) (fleet.Page[fleet.VMView], error) {
	return b.listVMsWithShape(ctx, a, q, s, fullVMShape)
}

func (b *Queries) listVMsWithShape(ctx context.Context, a fleet.Actor, q fleet.Query, s *statementBuilder, shape vmShape) (fleet.Page[fleet.VMView], error) {
	all := vmSortOrders
	if !store.SeesHosts(a) {
		all = maps.Clone(vmSortOrders)
		delete(all, "host") // its cursors contain host names
	}
	p, terms, err := all.parseQuery(q, "name", filterKeys(a, fleet.TypeVM))
	if err != nil {
		return fleet.Page[fleet.VMView]{}, err
	}
	p.limit = min(cmp.Or(max(q.Limit, 0), defaultPageSize), shape.maxVMs)
	s.whereVMVisible(a, q.Project)
	if _, err := b.applyFilter(ctx, s, a, vmFilter, terms); err != nil {
		return fleet.Page[fleet.VMView]{}, err
	}
	var sql string
	switch strings.TrimPrefix(p.sort, "-") {
	case "host":
		sql, err = b.vmsBySortTableQuery(ctx, p, s, shape, len(terms) > 0, sortTable{"hosts h", "h.id = v.host_id"})
	case "project":
		sql, err = b.vmsBySortTableQuery(ctx, p, s, shape, len(terms) > 0, sortTable{"projects p", "p.id = v.project_id"})
	default:
		tail := p.applyCursor(s)
		sql = shape.columns + vmTablesSQL + s.whereClause() + tail
	}
	if err != nil {
		return fleet.Page[fleet.VMView]{}, err
	}
	items, err := collectRows(ctx, b, sql, s, shape.scan())
	page := p.buildPage(redactAll(a, items, store.RedactVM))
	if err == nil {
		err = b.store.HidePools(ctx, a, page.Items)
	}
	return page, err
}

// maxSortedVMs is the maximum number of VMs that vmsBySortTableQuery lets PostgreSQL sort. If more VMs match, they are read
// host by host or project by project.
const maxSortedVMs = 1000

// sortTable is the table by whose names VMs are sorted: hosts or projects.
type sortTable struct {
	from string // the table with its alias
	on   string // the condition for a group's VMs
}

// vmsBySortTableQuery returns SQL for VMs sorted by the name of their host or project. The SQL reads the rows of outer by
// name, and at most one page of VMs for each, so that it can stop after one page. If few VMs match a filter, that would
// read all rows of outer. The matching VMs are then read first and sorted.
func (b *Queries) vmsBySortTableQuery(ctx context.Context, p pagePosition[fleet.VMView], s *statementBuilder, shape vmShape, filtered bool, outer sortTable) (string, error) {
	if filtered {
		s.planEachTime = true // like the statement of a page
		ids, err := collectRows(ctx, b, "SELECT v.id"+vmTablesSQL+s.whereClause()+" LIMIT "+strconv.Itoa(maxSortedVMs+1), s, pgx.RowTo[string])
		if err != nil {
			return "", err
		}
		if len(ids) <= maxSortedVMs {
			s.addCondition("v.id = ANY (" + s.addArg(ids) + "::text[])")
			tail := p.applyCursor(s)
			return shape.columns + vmTablesSQL + " JOIN " + outer.from + " ON " + outer.on + s.whereClause() + tail, nil
		}
	}
	p.applyCursorToFirstColumn(s)
	tail := p.applyCursor(s)
	s.addCondition(outer.on)
	within := p
	within.columns = p.columns[1:]
	inner := shape.columns + vmTablesSQL + s.whereClause() + " ORDER BY " + within.orderBySQL() + " LIMIT " + strconv.Itoa(p.limit+1)
	return "SELECT v.* FROM " + outer.from + " CROSS JOIN LATERAL (" + inner + ") v" + tail, nil
}

// vmFilter are the conditions of fleet.VMKeys.
var vmFilter = listFilter{
	"state":     func(f filterScope, t filter.Term) error { return f.addPhaseTerm(f, f.statementBuilder, t) },
	"attention": func(f filterScope, t filter.Term) error { return f.addAttentionTerm(f, f.statementBuilder, t) },
	"managed":   managedCondition(true),
	"adopted":   yesNoCondition("v.adoption IS NOT NULL"),
	"drift":     func(f filterScope, t filter.Term) error { return f.addDriftTerm(f, f.statementBuilder, t) },
	"host":      rowNameCondition("v.host_id", "hosts"),
	"cluster":   func(f filterScope, t filter.Term) error { return f.addClusterTerm(f, f.statementBuilder, t) },
	"project":   rowNameCondition("v.project_id", "projects"),
	"name": sqlCondition(func(f filterScope, t filter.Term) string {
		return f.matchTextByTrigrams(t.Not, "v.name", lowerMatches(t.Alternatives))
	}),
	"uuid":        lowerTextCondition("v.id"),
	"label":       sqlCondition(func(f filterScope, t filter.Term) string { return f.vmLabelsSQL(t.Not, t.Alternatives) }),
	"description": containsTextCondition("v.description"),
	"vcpu":        numberCondition("v.cpus", 1),
	"memory":      numberCondition("v.memory_mib", mebibyte),
	"cpu": sqlCondition(func(f filterScope, t filter.Term) string {
		return "v.id IN (" + vmLoadsSQL + f.compareSQL(vmLoadColumn, 1, t.Comparisons) + ")"
	}),
	"created": dayCondition("v.created_at"),
	"pool": func(f filterScope, t filter.Term) error {
		ids, err := f.poolIDsByName(t.Alternatives)
		f.addConditionOrNegation(t.Not, f.specContainsSQL(diskInPoolPattern, ids))
		return err
	},
	"network": func(f filterScope, t filter.Term) error {
		var named statementBuilder
		named.addCondition(named.matchText("lower(n.name)", lowerMatches(t.Alternatives)))
		named.whereNetworkVisible(f.actor)
		ids, err := collectRows(f, f.Queries, "SELECT n.id FROM networks n"+named.whereClause(), &named, pgx.RowTo[string])
		f.addConditionOrNegation(t.Not, f.specContainsSQL(`{"nics":[{"networkId":?}]}`, ids))
		return err
	},
	"mac":     vmWord,
	"address": vmWord,
}

var vmWord = sqlCondition(func(f filterScope, t filter.Term) string {
	return f.matchesWordSQL(t.Not, searchWordKinds[t.Key], lowerMatches(t.Alternatives))
})

// vmLoadsSQL is a query for the IDs of VMs by their CPU load, before the condition on vmLoadColumn. vmLoadColumn is the
// percentage that lists show; 100 % is the load of all vCPUs. It reads the meters of each host once, while vmLoadSQL
// would search them for each VM.
const (
	vmLoadsSQL = `SELECT a.id FROM host_meters m CROSS JOIN LATERAL unnest(m.vm_ids, m.cpu_nanos) a(id, nanos)
		CROSS JOIN LATERAL unnest(COALESCE(m.before_ids, m.vm_ids), m.before_cpu) o(id, nanos)
		JOIN vms w ON w.id = a.id AND w.host_id = m.host_id JOIN host_sessions s ON s.host_id = m.host_id
		WHERE o.id = a.id AND a.nanos >= o.nanos AND m.at > now() - 2 * s.fresh_for AND `
	vmLoadColumn = "round((a.nanos - o.nanos) / NULLIF(extract(epoch FROM m.at - m.before_at) * 1e7 * w.cpus, 0))"
)

// diskInPoolPattern is the JSON pattern, for specContainsSQL, of a VM spec with a disk in a pool.
const diskInPoolPattern = `{"disks":[{"poolId":?}]}`

// specContainsSQL returns the condition that a VM's spec contains the JSON pattern with one of the ids in place of "?".
// A GIN index supports it.
func (s *statementBuilder) specContainsSQL(pattern string, ids []string) string {
	parts := []string{"false"}
	for _, id := range ids {
		parts = append(parts, "v.spec @> "+s.addArg(fillJSONPattern(pattern, id))+"::jsonb")
	}
	return "(" + strings.Join(parts, " OR ") + ")"
}

// fillJSONPattern returns the pattern with text, as a JSON string, in place of "?".
func fillJSONPattern(pattern, text string) string {
	value, _ := json.Marshal(text) // strings always marshal
	return strings.Replace(pattern, "?", string(value), 1)
}

// maxClusterHostsRead is the maximum number of hosts whose VMs a filter by cluster reads host by host.
const maxClusterHostsRead = 100

// addClusterTerm adds the condition of a filter term on the cluster of a VM's host. The VMs of few hosts are read host by
// host. If many hosts match, PostgreSQL would read and sort nearly all VMs; the condition then only tests each VM in the
// order of the list.
func (b *Queries) addClusterTerm(ctx context.Context, s *statementBuilder, t filter.Term) error {
	ids, err := b.idsByName(ctx, "clusters", t.Alternatives)
	if err != nil {
		return err
	}
	var of statementBuilder
	of.addConditionOrNegation(t.Not, of.oneOfSQL("h.cluster_id", ids))
	hosts, err := collectRows(ctx, b, "SELECT h.id FROM hosts h"+of.whereClause()+" LIMIT "+strconv.Itoa(maxClusterHostsRead+1), &of, pgx.RowTo[string])
	switch {
	case err != nil:
		return err
	case len(hosts) <= maxClusterHostsRead:
		s.addCondition(s.oneOfSQL("v.host_id", hosts))
	default:
		s.addConditionOrNegation(t.Not, "(SELECT "+s.oneOfSQL("h.cluster_id", ids)+" FROM hosts h WHERE h.id = v.host_id)")
	}
	return nil
}

// idsByName returns the IDs of the hosts or projects whose names match.
func (b *Queries) idsByName(ctx context.Context, table string, any []filter.Match) ([]string, error) {
	var s statementBuilder
	if name, ok := any[0].ExactText(); ok && len(any) == 1 {
		s.addCondition("name = " + s.addKeyArg(strings.ToLower(name)))
	} else {
		s.addCondition(s.matchText("name", lowerMatches(any)))
	}
	return collectRows(ctx, b, "SELECT id FROM "+table+s.whereClause(), &s, pgx.RowTo[string])
}
