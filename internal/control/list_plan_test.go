//go:build ordeal

package control_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"quantix/db"
	"quantix/internal/control"
	"quantix/internal/control/query"
	"quantix/internal/fleet"
	"quantix/internal/testkit"
)

// PostgreSQL keeps plans of prepared statements as long as the connection. A plan made for empty tables must be fast
// for full tables. A statement that is planned each time must be fast even before the next ANALYZE.
func TestListQueryPlannedOnEmptyTableStaysFast(t *testing.T) {
	t.Parallel()
	url := testkit.DatabaseURL(t)
	admin, err := db.Open(t.Context(), url, 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(admin.Close)
	r := &queryRecorder{}
	pool := r.openPool(t, url, 1) // one connection, so that plans made first are used later
	c := control.New(pool, control.Options{})
	for _, table := range []string{"vms", "vm_words", "host_meters", "tasks", "hosts", "host_sessions", "projects", "users", "networks"} {
		// Switch autovacuum off, because it would invalidate the plans.
		for _, sql := range []string{`ALTER TABLE ` + table + ` SET (autovacuum_enabled = off)`, `ANALYZE ` + table} {
			if _, err := admin.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
	}
	vms := func(a fleet.Actor, q fleet.Query) func() error {
		return func() error { _, err := c.ListVMs(t.Context(), a, q); return err }
	}
	rows := func(q fleet.Query) func() error {
		return func() error { _, err := c.ListVMRows(t.Context(), chief, q); return err }
	}
	tasks := func(a fleet.Actor, filter string) func() error {
		return func() error { _, err := c.ListTasks(t.Context(), a, fleet.Query{Filter: filter}); return err }
	}
	hosts := func(filter string) func() error {
		return func() error { _, err := c.ListHosts(t.Context(), chief, fleet.Query{Filter: filter}); return err }
	}
	search := func(text string) func() error {
		return func() error { _, err := c.Search(t.Context(), chief, text, 4); return err }
	}
	around := func(a fleet.Actor, view, filter string) func() error {
		return func() error {
			_, err := c.Layout(t.Context(), a, fleet.Query{Filter: filter, Limit: 8}, query.TreeQuery{View: view})
			return err
		}
	}
	tenant := fleet.Actor{UserID: "tenant", Name: "tenant", Projects: map[fleet.ProjectID]fleet.Role{"00000000-0000-7000-8000-000000001001": fleet.RoleMember}}
	lists := map[string]func() error{
		"VMs":                       vms(chief, fleet.Query{}),
		"VMs of a tenant":           vms(tenant, fleet.Query{}),
		"VMs by memory":             rows(fleet.Query{Sort: "-memory"}),
		"VMs by age":                rows(fleet.Query{Sort: "-created"}),
		"VMs by host":               rows(fleet.Query{Sort: "host"}),
		"VMs by project":            rows(fleet.Query{Sort: "-project"}),
		"VMs that run":              rows(fleet.Query{Filter: "state:running"}),
		"VMs that run, by host":     rows(fleet.Query{Filter: "state:running", Sort: "host"}),
		"VMs that nobody hears of":  rows(fleet.Query{Filter: "state:unknown"}),
		"VMs in need":               rows(fleet.Query{Filter: "attention:yes"}),
		"VMs of a label, by host":   rows(fleet.Query{Filter: "label:rare=yes", Sort: "host"}),
		"VMs of a label's start":    rows(fleet.Query{Filter: "label:rare=y*", Sort: "host"}),
		"VMs of a label and a host": rows(fleet.Query{Filter: "label:none=yes host:host-007"}),
		"VMs of part of a name":     rows(fleet.Query{Filter: "name:*nothing*"}),
		"VMs of a name's end":       rows(fleet.Query{Filter: "name:*00777"}),
		"VMs of an address's end":   rows(fleet.Query{Filter: "address:*.7.77"}),
		"VMs of an address":         rows(fleet.Query{Filter: "address:10.0.1.1"}),
		"VMs of a MAC's end":        rows(fleet.Query{Filter: "mac:*:0b:4d"}),
		"VMs with many vCPUs":       rows(fleet.Query{Filter: "vcpu>1000"}),
		"VMs with much memory":      rows(fleet.Query{Filter: "memory>=900T", Sort: "host"}),
		"VMs of a cluster":          rows(fleet.Query{Filter: "cluster:default"}),
		"VMs of no cluster":         rows(fleet.Query{Filter: "cluster:nothing"}),
		"hosts of a cluster":        hosts("cluster:default"),
		"hosts of no cluster":       hosts("cluster:nothing"),
		"VMs of a day":              rows(fleet.Query{Filter: "created:2020-01-01"}),
		"tasks":                     tasks(chief, ""),
		"tasks of a tenant":         tasks(tenant, ""),
		"tasks of nobody":           tasks(chief, "who:nobody"),
		"tasks of no part of name":  tasks(chief, "who:*nobody*"),
		"tasks of a kind":           tasks(chief, "kind:vm.reset"),
		"tasks that failed":         tasks(chief, "state:failed"),
		"one's own tasks":           tasks(chief, "who:me"),
		"what stands around a page": around(chief, "hosts", ""),
		"and around one's own":      around(chief, "hosts", "who:me"),
		"and around a tenant's":     around(tenant, "vms", ""),
		"networks on hosts": func() error {
			_, err := c.NetworkGrid(t.Context(), chief, fleet.Query{}, fleet.Query{Limit: 24})
			return err
		},
		"search of part of a name": search("nothing"),
		"search of an address":     search("10.0.1.1"),
	}
	for name, do := range lists {
		for range 6 { // PostgreSQL chooses a generic plan after five executions
			if err := do(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	const bulkOrder = 30_000
	testkit.SeedWithoutAnalyze(t, admin, 300, bulkOrder)
	testkit.KeepOnline(t, admin)
	for _, sql := range []string{
		`UPDATE vms SET labels = '{"rare": "yes"}' WHERE name = 'vm-000777'`,
		`SET session_replication_role = replica`, // no notifications needed
		`INSERT INTO tasks (id, host_id, project_id, kind, subject, subject_name, generation, state, created_by, listed, parent_id)
			SELECT 'task-' || lpad(n::text, 7, '0'), v.host_id, v.project_id, 'vm.start', 'vm:' || v.id, v.name, 1, 'done', 'user-' || n % 20, n % 3 <> 0,
				CASE WHEN n % 3 = 0 THEN 'task-' || lpad((n - 1)::text, 7, '0') END
			FROM vms v, generate_series(1, 60000) n WHERE v.name = 'vm-' || lpad((n % 30000 + 1)::text, 6, '0')`,
		`RESET session_replication_role`,
	} {
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for name, do := range lists {
		if err := do(); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if read, plan := r.countBlocksRead(t, pool, do); read > 7000 { // of about 15,000 blocks
			t.Errorf("%s: reads %d blocks:\n%s", name, read, plan)
		}
	}
	var kept []string
	if err := pool.QueryRow(t.Context(), `SELECT array_agg(statement) FROM pg_prepared_statements WHERE generic_plans > 0 AND statement ~ '^(SELECT|WITH).* FROM (tasks|vms)'`).Scan(&kept); err != nil || kept != nil {
		t.Errorf("cached plans exist for %q, %v", kept, err)
	}
}

// countBlocksRead calls do, explains do's statements on the pool's only connection with the plans kept there, and
// returns the number of 8 KiB blocks that PostgreSQL read.
func (r *queryRecorder) countBlocksRead(t *testing.T, pool *pgxpool.Pool, do func() error) (blocks int, plans string) {
	t.Helper()
	var all []string
	for _, q := range r.statementsOnTable(t, "SELECT", do) {
		// The batch sets plan_cache_mode for its following statements. Set the same mode for their EXPLAIN.
		if strings.HasPrefix(q.SQL, "SELECT set_config('plan_cache_mode'") {
			if _, err := pool.Exec(t.Context(), "SET plan_cache_mode = force_custom_plan"); err != nil {
				t.Fatal(err)
			}
			defer func() { _, _ = pool.Exec(context.Background(), "RESET plan_cache_mode") }()
			continue
		}
		sql := q.SQL
		args := slices.DeleteFunc(slices.Clone(q.Args), func(a any) bool { _, mode := a.(pgx.QueryExecMode); return mode })
		if len(args) == len(q.Args) {
			var prepared string
			err := pool.QueryRow(t.Context(), `SELECT name FROM pg_prepared_statements WHERE statement = $1`, q.SQL).Scan(&prepared)
			if err != nil && !errors.Is(err, pgx.ErrNoRows) {
				t.Fatal(err)
			}
			if err == nil {
				sql = `EXECUTE "` + prepared + `"`
				if len(args) > 0 {
					sql += " (" + strings.Join(sqlPlaceholders(len(args)), ", ") + ")"
				}
			}
		}
		read, plan := explainBlocks(t, pool, sql, args...)
		blocks += read
		all = append(all, sql, plan)
	}
	return blocks, strings.Join(all, "\n")
}

func sqlPlaceholders(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = "$" + strconv.Itoa(i+1)
	}
	return out
}

// explainBlocks runs a statement and returns the blocks read and the plan.
func explainBlocks(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) (blocks int, plan string) {
	t.Helper()
	if strings.HasPrefix(sql, "EXECUTE") {
		args = append([]any{pgx.QueryExecModeSimpleProtocol}, args...) // arguments are inlined into the text
	}
	if err := pool.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+sql, args...).Scan(&plan); err != nil {
		t.Fatalf("%v: %s", err, sql)
	}
	return blocksInPlan(t, plan), plan
}
