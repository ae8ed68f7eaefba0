package control_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/testkit"
)

// walkPages pages through a list to its end and back to its start. It checks that both directions give the same pages,
// and returns the rows' keys.
func walkPages[T any](t *testing.T, get func(context.Context, fleet.Actor, fleet.Query) (fleet.Page[T], error), q fleet.Query, key func(T) string) []string {
	t.Helper()
	read := func(q fleet.Query) (fleet.Page[T], []string) {
		t.Helper()
		page, err := get(t.Context(), chief, q)
		if err != nil {
			t.Fatalf("%+v: %v", q, err)
		}
		rows := make([]string, len(page.Items))
		for i, item := range page.Items {
			rows[i] = key(item)
		}
		return page, rows
	}
	page, rows := read(q)
	if page.Prev != "" {
		t.Errorf("%+v: the first page has a previous page", q)
	}
	forward, all := [][]string{rows}, rows
	for page.Next != "" {
		q.After = page.Next
		if page, rows = read(q); page.Prev == "" {
			t.Errorf("%+v: no previous page of page %d", q, len(forward)+1)
		}
		forward, all = append(forward, rows), append(slices.Clone(all), rows...)
	}
	back := [][]string{rows}
	for q.After = ""; page.Prev != ""; {
		q.Before = page.Prev
		if page, rows = read(q); page.Next == "" {
			t.Errorf("%+v: no next page of a previous page", q)
		}
		back = append(back, rows)
	}
	slices.Reverse(back)
	if fmt.Sprint(forward) != fmt.Sprint(back) {
		t.Errorf("%+v: there\n%v\nand back\n%v", q, forward, back)
	}
	if len(forward) < 3 {
		t.Errorf("%+v: only %d pages", q, len(forward))
	}
	return all
}

func TestPagingForwardAndBackwardHasNoGapOrOverlap(t *testing.T) {
	t.Parallel()
	pool := testkit.DB(t)
	testkit.Seed(t, pool, 5, 60)
	testkit.KeepOnline(t, pool)
	for _, sql := range []string{
		`UPDATE vms SET name = 'twin' WHERE name <= 'vm-000010'`, // one per project
		`UPDATE vms SET created_at = now() WHERE name > 'vm-000040'`,
		`INSERT INTO found_vms (host_id, id, name, status) SELECT h.id, '00000000-0000-7000-9000-00000000000' || i, 'old', '{"power":"running"}' FROM hosts h, generate_series(1, 2) i`,
		`INSERT INTO pools (id, name, spec) SELECT 'pool ' || i, 'pool-' || i, jsonb_build_object('kind', 'dir', 'path', '/srv', 'shared', i % 2 = 0) FROM generate_series(1, 8) i`,
		`INSERT INTO networks (id, name, kind) SELECT 'net ' || i, 'net-' || i / 2, CASE i % 2 WHEN 0 THEN 'bridge' ELSE 'libvirt' END FROM generate_series(1, 8) i`,
		`INSERT INTO assignments (noun, object_id, host_id, status) SELECT 'net', n.id, h.id, '{}' FROM networks n, hosts h ON CONFLICT DO NOTHING`,
		`INSERT INTO tasks (id, host_id, kind, subject, subject_name, created_by) SELECT lpad(i::text, 3, '0'), (SELECT min(id) FROM hosts), 'pool.apply', 'pool:' || i, '', 'x'
			FROM generate_series(1, 11) i`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	c := control.New(pool, control.Options{})
	ordered := func(name string, rows []string, desc bool, want int) {
		t.Helper()
		if desc {
			slices.Reverse(rows)
		}
		if unique := slices.Compact(slices.Sorted(slices.Values(rows))); len(rows) != want || len(unique) != want || !slices.IsSorted(rows) {
			t.Errorf("%s: %d rows, %d of them different, in order: %v", name, len(rows), len(unique), slices.IsSorted(rows))
		}
	}
	stamp := func(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000000") }
	for key, of := range map[string]func(fleet.VMView) string{
		"name": func(v fleet.VMView) string { return v.Name }, "created": func(v fleet.VMView) string { return stamp(v.CreatedAt) },
		"host": func(v fleet.VMView) string { return v.HostName + v.Name }, "project": func(v fleet.VMView) string { return v.ProjectName + v.Name },
		"cpus": func(v fleet.VMView) string { return fmt.Sprintf("%09d", v.Spec.CPUs) }, "memory": func(v fleet.VMView) string { return fmt.Sprintf("%09d", v.Spec.MemoryMiB) },
	} {
		for _, sort := range []string{key, "-" + key} {
			q, row := fleet.Query{Sort: sort, Limit: 7}, func(v fleet.VMView) string { return of(v) + " " + string(v.ID) }
			ordered("VMs by "+sort, walkPages(t, c.ListVMs, q, row), sort[0] == '-', 60)
			q.Filter, q.Limit = "label:env=prod", 6
			ordered("some VMs by "+sort, walkPages(t, c.ListVMs, q, row), sort[0] == '-', 20)
		}
	}
	for _, desc := range []bool{false, true} {
		by := func(key string) fleet.Query {
			if desc {
				key = "-" + key
			}
			return fleet.Query{Sort: key, Limit: 2}
		}
		for _, key := range []string{"name", "created"} {
			ordered("hosts by "+key, walkPages(t, c.ListHosts, by(key), func(h fleet.HostView) string { return h.Name }), desc, 5)
		}
		poolName := func(v fleet.PoolView) string { return v.Name }
		ordered("pools", walkPages(t, c.ListPools, by("name"), poolName), desc, 10)
		warned := by("name")
		warned.Filter = "-health:ok" // health is not evaluated by PostgreSQL
		ordered("pools with a tone", walkPages(t, c.ListPools, warned, poolName), desc, 8)
		ordered("networks", walkPages(t, c.ListNetworks, by("name"), func(n fleet.NetworkView) string { return n.Name + string(n.ID) }), desc, 9)
		ordered("found VMs", walkPages(t, c.ListDiscoveredVMs, by("name"), func(f fleet.DiscoveredVM) string { return f.Name + string(f.ID) + string(f.HostID) }), desc, 10)
		ordered("tasks", walkPages(t, c.ListTasks, by("created"), func(j fleet.Task) string { return string(j.ID) }), desc, 11)
	}
}

// The previous page is read anew: it contains rows added, and lacks rows removed, since the current page was read.
func TestPreviousPageShowsCurrentRows(t *testing.T) {
	s := newProjectFixture(t)
	for _, name := range []string{"b", "c", "d", "e", "f"} {
		s.createVM(name, fleet.Stopped)
	}
	fetch := func(q fleet.Query) (fleet.Page[fleet.VMView], string) {
		t.Helper()
		q.Limit = 2
		page, err := s.ListVMs(t.Context(), chief, q)
		if err != nil {
			t.Fatal(err)
		}
		var names strings.Builder
		for _, v := range page.Items {
			names.WriteString(v.Name)
		}
		return page, names.String()
	}
	first, _ := fetch(fleet.Query{})
	second, names := fetch(fleet.Query{After: first.Next})
	if names != "de" {
		t.Fatalf("the second page is %s", names)
	}
	s.execSQL(`DELETE FROM vms WHERE name = 'b'`)
	short, names := fetch(fleet.Query{Before: second.Prev})
	if names != "c" || short.Prev != "" {
		t.Errorf("with a row less, the page back is %s; before it: %q", names, short.Prev)
	}
	if _, names = fetch(fleet.Query{After: short.Next}); names != "de" {
		t.Errorf("on from there: %s", names)
	}
	s.createVM("a", fleet.Stopped)
	s.createVM("b", fleet.Stopped)
	later, names := fetch(fleet.Query{Before: second.Prev})
	if names != "bc" || later.Prev == "" {
		t.Errorf("with a row more, the page back is %s; before it: %q", names, later.Prev)
	}
	s.execSQL(`DELETE FROM vms WHERE name < 'd'`)
	if none, names := fetch(fleet.Query{Before: second.Prev}); names != "" || none.Prev != "" || none.Next != "" || none.Items == nil {
		t.Errorf("with no row left: %+v", none)
	}
}

// queryTracer records the statements of a connection.
type queryTracer struct{ queries []pgx.TraceQueryStartData }

func (s *queryTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	s.queries = append(s.queries, data)
	return ctx
}

func (s *queryTracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// explainTraced returns the plan of a statement for its actual arguments.
func explainTraced(t *testing.T, pool *pgxpool.Pool, asked pgx.TraceQueryStartData) string {
	t.Helper()
	rows, err := pool.Query(t.Context(), "EXPLAIN "+asked.SQL, asked.Args...)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}
