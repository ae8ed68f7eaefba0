package browse

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/control/store"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// Names and meters are looked up for the rows of the page alone. As joins they would cost more to plan than to read: which
// table to begin with is never in question.
const (
	vmColumns = `SELECT v.id, v.project_id, v.host_id, v.name, v.labels, v.description, v.spec, v.generation, v.created_at, v.deleted_at,
		v.status, v.observed_generation, v.ordered, v.elsewhere, (SELECT h.name FROM hosts h WHERE h.id = v.host_id) AS host_name,
		(SELECT p.name FROM projects p WHERE p.id = v.project_id) AS project_name, s.looked_at, now(),
		(SELECT m.cpu_percent FROM vm_meters m WHERE m.vm_id = v.id AND m.at > now() - interval '1 minute') AS cpu_percent,
		ARRAY(SELECT n.id || ' ' || n.kind || ' ' || n.name FROM networks n
			WHERE n.id = ANY (ARRAY(SELECT jsonb_path_query(v.spec, '$.nics[*].networkId') #>> '{}'))) AS networks`
	vmTables = ` FROM vms v LEFT JOIN host_sessions s ON s.host_id = v.host_id`
)

// vmOrders are the sorts that an index carries. Hosts and projects are gone through one by one, each in its index's order.
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

// ListVMs returns one page of the VMs that the actor sees. Sorts: name (its own), created, cpus, memory, host, project.
func (b *Browse) ListVMs(ctx context.Context, a fleet.Actor, q fleet.Query) (fleet.Page[fleet.VMView], error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return fleet.Page[fleet.VMView]{}, err
	}
	return b.listVMs(ctx, a, q, new(statement))
}

// listVMs is ListVMs with the conditions that s has already.
func (b *Browse) listVMs(ctx context.Context, a fleet.Actor, q fleet.Query, s *statement) (fleet.Page[fleet.VMView], error) {
	all := vmOrders
	if !store.SeesHosts(a) {
		all = maps.Clone(vmOrders)
		delete(all, "host") // its cursors name hosts
	}
	p, terms, err := all.asked(q, "name", noHosts(a, fleet.VMKeys))
	if err != nil {
		return fleet.Page[fleet.VMView]{}, err
	}
	s.visible(a, "v.project_id", q.Project)
	for _, t := range terms {
		if err := b.vmTerm(ctx, s, t); err != nil {
			return fleet.Page[fleet.VMView]{}, err
		}
	}
	var sql string
	switch strings.TrimPrefix(p.sort, "-") {
	case "host":
		sql = groupedVMs(p, s, "hosts h", "h.id = v.host_id")
	case "project":
		sql = groupedVMs(p, s, "projects p", "p.id = v.project_id")
	default:
		tail := p.apply(s)
		sql = vmColumns + vmTables + s.conditions() + tail
	}
	items, err := collect(ctx, b, sql, s, scanVM)
	return p.cut(each(a, items, store.VMFor)), err
}

// groupedVMs goes through outer in the order of its names and takes no more VMs of each than the page has rows, so that it
// stops early whatever the number of VMs.
func groupedVMs(p paging[fleet.VMView], s *statement, outer, on string) string {
	p.applyFirst(s)
	tail := p.apply(s)
	s.and(on)
	within := p
	within.columns = p.columns[1:]
	inner := vmColumns + vmTables + s.conditions() + " ORDER BY " + within.by() + " LIMIT " + strconv.Itoa(p.limit+1)
	return "SELECT v.* FROM " + outer + " CROSS JOIN LATERAL (" + inner + ") v" + tail
}

func scanVM(row pgx.CollectableRow) (fleet.VMView, error) {
	var r db.VM
	var host, project string
	var seen *time.Time
	var now time.Time
	var load *float64
	var networks []string
	err := row.Scan(&r.ID, &r.ProjectID, &r.HostID, &r.Name, &r.Labels, &r.Description, &r.Spec, &r.Generation, &r.CreatedAt, &r.DeletedAt,
		&r.Status, &r.ObservedGeneration, &r.Ordered, &r.Elsewhere, &host, &project, &seen, &now, &load, &networks)
	store.NameNetworks(r.Spec.NICs, networks)
	v := store.VMView(r, host, project, seen, now)
	if v.Phase == fleet.PhaseRunning || v.Phase == fleet.PhaseNeedsRestart {
		v.CPUPercent = load
	}
	return v, err
}

// vmTerm adds one term of a VM filter. Names of hosts, projects and pools become ids first: with the very ids PostgreSQL
// knows how many VMs it is about, and chooses its plan by that.
func (b *Browse) vmTerm(ctx context.Context, s *statement, t fleet.Term) error {
	switch t.Key {
	case "phase":
		return b.phaseTerm(ctx, s, t)
	case "attention":
		return b.attentionTerm(ctx, s, t)
	case "host", "project":
		ids, err := b.named(ctx, t.Key+"s", t.Any)
		if err == nil {
			s.not(t.Not, s.oneOf("v."+t.Key+"_id", ids))
		}
		return err
	case "pool":
		ids, err := b.named(ctx, "pools", t.Any)
		if err == nil {
			s.not(t.Not, s.holds(holdsDisk, ids))
		}
		return err
	case "name":
		s.not(t.Not, s.text("v.name", lower(t.Any)))
	case "id":
		s.not(t.Not, s.text("v.id", lower(t.Any)))
	case "label":
		s.not(t.Not, s.vmLabels(t.Any))
	case "network":
		var named statement
		named.and(named.text("lower(n.name)", lower(t.Any)))
		ids, err := collect(ctx, b, "SELECT n.id FROM networks n"+named.conditions(), &named, pgx.RowTo[string])
		if err != nil {
			return err
		}
		s.not(t.Not, s.holds(`{"nics":[{"networkId":?}]}`, ids))
	case "mac", "address":
		s.not(t.Not, s.words(wordKinds[t.Key], lower(t.Any)))
	}
	return nil
}

// holdsDisk is the shape of a spec with a disk in a pool.
const holdsDisk = `{"disks":[{"poolId":?}]}`

// holds is the condition that a VM's spec has one of the ids in the place of "?" in shape, which an index finds.
func (s *statement) holds(shape string, ids []string) string {
	parts := []string{"false"}
	for _, id := range ids {
		parts = append(parts, "v.spec @> "+s.arg(document(shape, id))+"::jsonb")
	}
	return "(" + strings.Join(parts, " OR ") + ")"
}

// document is the JSON text of shape with text in the place of "?".
func document(shape, text string) string {
	value, _ := json.Marshal(text) // strings always marshal
	return strings.Replace(shape, "?", string(value), 1)
}

// named lists the ids of the hosts, projects or pools whose names fit.
func (b *Browse) named(ctx context.Context, table string, any []fleet.Match) ([]string, error) {
	var s statement
	if name, ok := any[0].Exact(); ok && len(any) == 1 {
		s.and("name = " + s.key(strings.ToLower(name)))
	} else {
		s.and(s.text("name", lower(any)))
	}
	return collect(ctx, b, "SELECT id FROM "+table+s.conditions(), &s, pgx.RowTo[string])
}

// phaseTerm asks for derived phases. Column heard is the phase while the host is heard; a host that is not turns all but
// deleting and never-acted-on VMs into unknown. See fleet.VM.Phase, to which a test holds this.
func (b *Browse) phaseTerm(ctx context.Context, s *statement, t fleet.Term) error {
	var wanted []string
	for _, p := range fleet.VMPhases {
		asked := slices.ContainsFunc(t.Any, func(m fleet.Match) bool { return m.Matches(string(p)) })
		if asked != t.Not {
			wanted = append(wanted, string(p))
		}
	}
	hosts, err := b.hearing(ctx)
	if err != nil {
		return err
	}
	parts := []string{"false"}
	if i := slices.Index(wanted, string(fleet.PhaseUnknown)); i >= 0 {
		wanted = slices.Delete(wanted, i, i+1)
		parts = append(parts, s.unknown(hosts))
	}
	if len(wanted) > 0 {
		told := s.heard(hosts)
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

// hearing is which hosts are believed now. With the very ids PostgreSQL knows how many VMs it is about, also where there are no
// such hosts at all: a list must not look at each VM to find out that it shows none.
type hearing struct{ heard, silent []string }

func (b *Browse) hearing(ctx context.Context) (hearing, error) {
	type host struct {
		ID    string
		Heard bool
	}
	out := hearing{[]string{}, []string{}}
	rows, err := collect(ctx, b, "SELECT s.host_id, "+fresh+" FROM host_sessions s ORDER BY s.host_id", new(statement), pgx.RowToStructByPos[host])
	for _, h := range rows {
		if h.Heard {
			out.heard = append(out.heard, h.ID)
		} else {
			out.silent = append(out.silent, h.ID)
		}
	}
	return out, err
}

// unknown is the condition that the VM's host is silent.
func (s *statement) unknown(h hearing) string {
	return s.oneOf("v.host_id", h.silent) + " AND NOT " + fresh + " AND " + acted
}

// heard is the condition that the VM's host is not silent.
func (s *statement) heard(h hearing) string {
	if len(h.silent) == 0 {
		return fresh
	}
	return s.oneOf("v.host_id", h.heard) + " AND " + fresh
}

// attentionTerm asks for the VMs that wait for a person, or for those that do not. See fleet.VM.NeedsAttention, to which a test
// holds this.
func (b *Browse) attentionTerm(ctx context.Context, s *statement, t fleet.Term) error {
	hosts, err := b.hearing(ctx)
	if err != nil {
		return err
	}
	parts := []string{"false"}
	for _, need := range []bool{true, false} {
		asked := slices.ContainsFunc(t.Any, func(m fleet.Match) bool { return m.Matches("no") != need })
		switch {
		case asked == t.Not:
		case need:
			parts = append(parts, "v.attention OR "+s.unknown(hosts))
		default:
			parts = append(parts, "NOT v.attention AND ("+s.heard(hosts)+" OR "+unacted+")")
		}
	}
	s.and("((" + strings.Join(parts, ") OR (") + "))")
	return nil
}
