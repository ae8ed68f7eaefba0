package query

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/filter"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

var hostsByName = sortOrder[fleet.HostView]{[]sortColumn{textColumn("h.name"), textColumn("h.id")}, func(v fleet.HostView) []string {
	return []string{v.Name, string(v.ID)}
}}

var hostSortOrders = sortOrders[fleet.HostView]{
	"name":    hostsByName,
	"created": hostsByName.withFirstColumn(timeColumn("h.created_at"), func(v fleet.HostView) string { return formatTime(v.CreatedAt) }),
	"vms":     hostsByName.withFirstColumn(int64Column("COALESCE(c.vms, 0)"), func(v fleet.HostView) string { return strconv.Itoa(v.VMs) }),
	"cpus":    hostsByName.withFirstColumn(int64Column("COALESCE(c.cpus, 0)"), func(v fleet.HostView) string { return strconv.FormatInt(v.UsedCPUs(), 10) }),
	"memory":  hostsByName.withFirstColumn(int64Column("COALESCE(c.memory, 0)"), func(v fleet.HostView) string { return strconv.FormatInt(v.UsedMiB(), 10) }),
}

// hostHealthSQL is the severity of the host's most serious open condition; none: it has no condition.
const hostHealthSQL = `COALESCE((SELECT o.severity FROM host_conditions o WHERE o.host_id = h.id
	ORDER BY CASE o.severity WHEN 'critical' THEN 0 WHEN 'warning' THEN 1 ELSE 2 END LIMIT 1), 'none')`

// hostFilter are the conditions of fleet.HostKeys.
var hostFilter = listFilter{
	"state":       exactTextCondition("(" + hostPhaseSQL + ")"),
	"name":        lowerTextCondition("h.name"),
	"cluster":     rowNameCondition("h.cluster_id", "clusters"),
	"cordoned":    exactTextCondition("CASE WHEN h.spec->>'schedulable' = 'false' THEN 'yes' ELSE 'no' END"),
	"lifecycle":   exactTextCondition("(" + hostLifecycleSQL + ")"),
	"health":      exactTextCondition("(" + hostHealthSQL + ")"),
	"label":       labelsCondition("h.labels"),
	"vms":         numberCondition("COALESCE(c.vms, 0)", 1),
	"vcpus":       numberCondition("COALESCE(c.cpus, 0)", 1),
	"memory":      numberCondition("COALESCE(c.memory, 0)", mebibyte),
	"hypervisor":  containsTextCondition("h.status->>'hypervisor'"),
	"os":          containsTextCondition("h.status->'inventory'->>'os'"),
	"description": containsTextCondition("h.spec->>'description'"),
	"joined":      dayCondition("h.created_at"),
	"uuid":        lowerTextCondition("h.id"),
}

// usesHostCounters reports whether a sort or a filter term needs the vmUsage of hosts in SQL.
func usesHostCounters(sort string, terms []filter.Term) bool {
	counted := []string{"vms", "vcpus", "cpus", "memory"}
	return slices.Contains(counted, strings.TrimPrefix(sort, "-")) ||
		slices.ContainsFunc(terms, func(t filter.Term) bool { return slices.Contains(counted, t.Key) })
}

// joinHostCounters returns SQL that joins hosts (alias h) with the counters of their VMs (alias c). cpus and memory
// include those of running discovered VMs.
func (s *statementBuilder) joinHostCounters(sums *publishedTotals) string {
	n := len(sums.hosts) + len(sums.discovered)
	ids, vms, cpus, memory := make([]string, 0, n), make([]int64, 0, n), make([]int64, 0, n), make([]int64, 0, n)
	add := func(id fleet.HostID) {
		sum, found := sums.hosts[id], sums.discovered[id]
		ids, vms = append(ids, string(id)), append(vms, int64(sum.vms))
		cpus, memory = append(cpus, int64(sum.cpus)+found.Cpus), append(memory, sum.memoryMiB+found.Mib)
	}
	for id := range sums.hosts {
		add(id)
	}
	for id := range sums.discovered {
		if _, added := sums.hosts[id]; !added {
			add(id)
		}
	}
	return " LEFT JOIN unnest(" + s.addKeyArg(ids) + "::text[], " + s.addKeyArg(vms) + "::bigint[], " + s.addKeyArg(cpus) + "::bigint[], " +
		s.addKeyArg(memory) + "::bigint[]) c(id, vms, cpus, memory) ON c.id = h.id"
}

// hostPhaseSQL is fleet.Host.Phase in SQL, for filters and the tree. It uses only columns, not the host's status JSON,
// which contains the large hardware inventory.
var hostPhaseSQL = "CASE WHEN s.seen_at IS NULL OR h.status IS NULL THEN 'pending' WHEN s.conflict <> '' THEN 'conflict' WHEN NOT " + agentOnlineSQL +
	" THEN 'unknown' WHEN s.blind_since IS NULL AND " + reportsFreshSQL + " THEN 'online' ELSE 'degraded' END"

// hostLifecycleSQL is fleet.Host.Lifecycle in SQL.
var hostLifecycleSQL = "CASE WHEN h.maintenance IS NULL THEN CASE " + hostPhaseSQL + " WHEN 'pending' THEN 'pending' WHEN 'online' THEN 'ready' ELSE 'notReady' END" +
	" WHEN NOT h.maintenance ? 'enteredAt' THEN 'draining' WHEN " + hostPhaseSQL + " = 'unknown' THEN 'offline' ELSE 'maintenance' END"

// ListHosts returns one page of hosts. The number, CPUs and memory of their VMs come from the counters and are up to
// five seconds old. Sorts: name, created, vms, cpus, memory.
func (b *Queries) ListHosts(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.HostView], error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return fleet.Page[fleet.HostView]{}, err
	}
	p, terms, err := hostSortOrders.parseQuery(q, "name", fleet.HostKeys)
	if err != nil {
		return fleet.Page[fleet.HostView]{}, err
	}
	var s statementBuilder
	if _, err := b.applyFilter(ctx, &s, a, hostFilter, terms); err != nil {
		return fleet.Page[fleet.HostView]{}, err
	}
	tail := p.applyCursor(&s)
	sums, err := b.currentCounters(ctx)
	if err != nil {
		return fleet.Page[fleet.HostView]{}, err
	}
	tables := "FROM hosts h JOIN clusters cl ON cl.id = h.cluster_id LEFT JOIN host_sessions s ON s.host_id = h.id"
	if usesHostCounters(p.sort, terms) {
		tables += s.joinHostCounters(sums)
	}
	items, err := collectRows(ctx, b, `SELECT h.id, h.name, h.spec, h.generation, h.created_at, h.status, h.maintenance, h.has_bmc, cl.id, cl.name, cl.spec, s.seen_at, s.looked_at, s.fresh_for, COALESCE(s.conflict, ''), now()
		`+tables+s.whereClause()+tail, &s, func(row pgx.CollectableRow) (fleet.HostView, error) {
		var r db.Host
		var cluster db.Cluster
		var seen, looked *time.Time
		var freshFor *time.Duration
		var conflict string
		var now time.Time
		err := row.Scan(&r.ID, &r.Name, &r.Spec, &r.Generation, &r.CreatedAt, &r.Status, &r.Maintenance, &r.HasBmc, &cluster.ID, &cluster.Name, &cluster.Spec, &seen, &looked, &freshFor, &conflict, &now)
		v := store.HostView(r, cluster, fleet.NewReportTime(seen, freshFor), fleet.NewReportTime(looked, freshFor), conflict, now)
		sum, found := sums.hosts[r.ID], sums.discovered[r.ID]
		v.DiscoveredVMs, v.DiscoveredCPUs, v.DiscoveredMiB = int(found.Vms), found.Cpus, found.Mib
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

// HostDevicesOf returns the host devices assigned to VMs, by device name. It requires permission to see the
// infrastructure.
func (b *Queries) HostDevicesOf(ctx context.Context, a fleet.Actor, id fleet.HostID) (map[string]fleet.NamedVM, error) {
	if err := policy.Check(a, policy.InfraSee, ""); err != nil {
		return nil, err
	}
	if err := store.CheckID(id, "host"); err != nil {
		return nil, err
	}
	rows, err := b.store.HostDevicesOn(ctx, db.HostDevicesOnParams{Host: string(id), Every: true})
	out := map[string]fleet.NamedVM{}
	for _, r := range rows {
		if r.VM != "" {
			out[r.Device] = fleet.NamedVM{ID: fleet.VMID(r.VMID), Name: r.VM}
		}
	}
	return out, err
}
