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
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// vmOrders are the sorts that an index supports. The sorts by host and project read the VMs of one host or project
// after the other, each in index order.
var vmOrders = orders[fleet.VMView]{
	"name":    {[]column{textColumn("v.name"), textColumn("v.id")}, func(v fleet.VMView) []string { return []string{v.Name, string(v.ID)} }},
	"created": {[]column{timeColumn("v.created_at"), textColumn("v.id")}, func(v fleet.VMView) []string { return []string{stamp(v.CreatedAt), string(v.ID)} }},
	"cpus":    {[]column{int32Column("v.cpus"), textColumn("v.id")}, func(v fleet.VMView) []string { return []string{strconv.Itoa(v.Spec.CPUs), string(v.ID)} }},
	"memory":  {[]column{int64Column("v.memory_mib"), textColumn("v.id")}, func(v fleet.VMView) []string { return []string{strconv.Itoa(v.Spec.MemoryMiB), string(v.ID)} }},
	"host": {[]column{textColumn("h.name"), textColumn("v.name"), textColumn("v.id")}, func(v fleet.VMView) []string {
		return []string{v.HostName, v.Name, string(v.ID)}
	}},
	"project": {[]column{textColumn("p.name"), textColumn("v.name"), textColumn("v.id")}, func(v fleet.VMView) []string {
		return []string{v.ProjectName, v.Name, string(v.ID)}
	}},
}

// ListVMs returns one page of the VMs that the actor sees. Sorts: name (default), created, cpus, memory, host, project.
func (b *Queries) ListVMs(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.VMView], error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return fleet.Page[fleet.VMView]{}, err
	}
	return b.listVMs(ctx, a, q, new(statement))
}

// ListVMRows works like ListVMs with only the values of a table row: CPUs and memory of the spec; power state, pending
// changes and addresses of the status. VMs that need attention have their full spec and status.
func (b *Queries) ListVMRows(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.VMView], error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return fleet.Page[fleet.VMView]{}, err
	}
	return b.listVMsAs(ctx, a, q, new(statement), vmRows)
}

// ListVMLines works like ListVMRows without CPU load. It allows longer pages, for callers that read a complete list.
func (b *Queries) ListVMLines(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.VMView], error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return fleet.Page[fleet.VMView]{}, err
	}
	return b.listVMsAs(ctx, a, q, new(statement), vmLines)
}

// listVMs works like ListVMs with the conditions already in s.
func (b *Queries) listVMs(ctx context.Context, a fleet.Actor, q fleet.Query, s *statement) (fleet.Page[fleet.VMView], error) {
	return b.listVMsAs(ctx, a, q, s, fullVMs)
}

func (b *Queries) listVMsAs(ctx context.Context, a fleet.Actor, q fleet.Query, s *statement, shape vmShape) (fleet.Page[fleet.VMView], error) {
	all := vmOrders
	if !store.SeesHosts(a) {
		all = maps.Clone(vmOrders)
		delete(all, "host") // its cursors contain host names
	}
	p, terms, err := all.parse(q, "name", withoutHostKey(a, fleet.VMKeys))
	if err != nil {
		return fleet.Page[fleet.VMView]{}, err
	}
	p.limit = min(cmp.Or(max(q.Limit, 0), defaultPage), shape.most)
	s.visible(a, "v.project_id", q.Project)
	for _, t := range terms {
		if err := b.vmTerm(ctx, s, t); err != nil {
			return fleet.Page[fleet.VMView]{}, err
		}
	}
	var sql string
	switch strings.TrimPrefix(p.sort, "-") {
	case "host":
		sql, err = b.groupedVMs(ctx, p, s, shape, len(terms) > 0, "hosts h", "h.id = v.host_id")
	case "project":
		sql, err = b.groupedVMs(ctx, p, s, shape, len(terms) > 0, "projects p", "p.id = v.project_id")
	default:
		tail := p.applyCursor(s)
		sql = shape.columns + vmTables + s.conditions() + tail
	}
	if err != nil {
		return fleet.Page[fleet.VMView]{}, err
	}
	items, err := collect(ctx, b, sql, s, shape.scan())
	return p.pageOf(redactAll(a, items, store.VMFor)), err
}

// maxSortedVMs is the largest number of VMs that are sorted. More VMs are read host by host or project by project.
const maxSortedVMs = 1000

// groupedVMs returns SQL that reads the rows of outer (hosts or projects) by name and takes at most one page of VMs for
// each row, so that it stops early in any fleet. With a filter that few VMs match, it would scan all rows of outer; the
// matching VMs are therefore read first and then sorted.
func (b *Queries) groupedVMs(ctx context.Context, p paging[fleet.VMView], s *statement, shape vmShape, filtered bool, outer, on string) (string, error) {
	if filtered {
		s.planEachTime = true // like the statement of a page
		ids, err := collect(ctx, b, "SELECT v.id"+vmTables+s.conditions()+" LIMIT "+strconv.Itoa(maxSortedVMs+1), s, pgx.RowTo[string])
		if err != nil {
			return "", err
		}
		if len(ids) <= maxSortedVMs {
			s.and("v.id = ANY (" + s.arg(ids) + "::text[])")
			tail := p.applyCursor(s)
			return shape.columns + vmTables + " JOIN " + outer + " ON " + on + s.conditions() + tail, nil
		}
	}
	p.applyFirst(s)
	tail := p.applyCursor(s)
	s.and(on)
	within := p
	within.columns = p.columns[1:]
	inner := shape.columns + vmTables + s.conditions() + " ORDER BY " + within.orderBy() + " LIMIT " + strconv.Itoa(p.limit+1)
	return "SELECT v.* FROM " + outer + " CROSS JOIN LATERAL (" + inner + ") v" + tail, nil
}

// vmTerm adds one term of a VM filter. Names of hosts, projects and pools are resolved to IDs first: with literal IDs
// PostgreSQL estimates the number of VMs and chooses its plan well.
func (b *Queries) vmTerm(ctx context.Context, s *statement, t fleet.Term) error {
	switch t.Key {
	case "phase":
		return b.phaseTerm(ctx, s, t)
	case "attention":
		return b.attentionTerm(ctx, s, t)
	case "drift":
		return b.driftTerm(ctx, s, t)
	case "host", "project":
		ids, err := b.idsByName(ctx, t.Key+"s", t.Alternatives)
		if err == nil {
			s.not(t.Not, s.oneOf("v."+t.Key+"_id", ids))
		}
		return err
	case "pool":
		ids, err := b.idsByName(ctx, "pools", t.Alternatives)
		if err == nil {
			s.not(t.Not, s.specContains(diskPattern, ids))
		}
		return err
	case "name":
		s.not(t.Not, s.trigramText(t.Not, "v.name", lower(t.Alternatives)))
	case "id":
		s.not(t.Not, s.text("v.id", lower(t.Alternatives)))
	case "label":
		s.not(t.Not, s.vmLabels(t.Not, t.Alternatives))
	case "network":
		var named statement
		named.and(named.text("lower(n.name)", lower(t.Alternatives)))
		ids, err := collect(ctx, b, "SELECT n.id FROM networks n"+named.conditions(), &named, pgx.RowTo[string])
		if err != nil {
			return err
		}
		s.not(t.Not, s.specContains(`{"nics":[{"networkId":?}]}`, ids))
	case "mac", "address":
		s.not(t.Not, s.matchesWord(t.Not, wordKinds[t.Key], lower(t.Alternatives)))
	}
	return nil
}

// diskPattern is the JSON pattern of a spec with a disk in a pool.
const diskPattern = `{"disks":[{"poolId":?}]}`

// specContains is the condition that a VM's spec contains the JSON pattern shape, with one of the ids in place of "?".
// A GIN index supports it.
func (s *statement) specContains(shape string, ids []string) string {
	parts := []string{"false"}
	for _, id := range ids {
		parts = append(parts, "v.spec @> "+s.arg(jsonPattern(shape, id))+"::jsonb")
	}
	return "(" + strings.Join(parts, " OR ") + ")"
}

// jsonPattern returns shape with text, as a JSON string, in place of "?".
func jsonPattern(shape, text string) string {
	value, _ := json.Marshal(text) // strings always marshal
	return strings.Replace(shape, "?", string(value), 1)
}

// idsByName returns the IDs of the hosts, projects or pools whose names match.
func (b *Queries) idsByName(ctx context.Context, table string, any []fleet.Match) ([]string, error) {
	var s statement
	if name, ok := any[0].Exact(); ok && len(any) == 1 {
		s.and("name = " + s.key(strings.ToLower(name)))
	} else {
		s.and(s.text("name", lower(any)))
	}
	return collect(ctx, b, "SELECT id FROM "+table+s.conditions(), &s, pgx.RowTo[string])
}
