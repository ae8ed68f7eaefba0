//go:build ordeal

package control_test

import (
	"strings"
	"testing"

	"quantix/db"
	"quantix/internal/control/query"
	"quantix/internal/fleet"
	"quantix/internal/testkit"
)

// Queries of the search and of every page must use indexes instead of scanning all VMs or tasks.
func TestPageAndSearchQueriesUseIndexes(t *testing.T) {
	t.Parallel()
	url := testkit.DatabaseURL(t)
	pool, err := db.Open(t.Context(), url, 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	testkit.Seed(t, pool, 20, 20_000)
	testkit.KeepOnline(t, pool)
	for _, sql := range []string{
		`INSERT INTO users (id, name, role, password_hash) VALUES ('chief', 'chief', 'admin', ''), ('idle', 'idle', 'viewer', '')`,
		`INSERT INTO tasks (id, host_id, project_id, kind, subject, subject_name, generation, state, created_by, user_id, steps, parent_id, listed)
			SELECT 'task-' || lpad((n + 20000 * x)::text, 6, '0'), v.host_id, v.project_id, 'vm.start', 'vm:' || v.id, v.name, 1, 'done', 'chief', 'chief',
				CASE WHEN n % 500 = 1 THEN '{"done": 499}'::jsonb END, CASE WHEN n % 500 <> 1 THEN 'task-' || lpad((n + 20000 * x - (n - 1) % 500)::text, 6, '0') END, n % 500 = 1
			FROM vms v, generate_series(1, 20000) n, generate_series(0, 4) x WHERE v.name = 'vm-' || lpad(n::text, 6, '0')`,
		`ANALYZE tasks`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	c, r := recordedControl(t, url)
	idle := fleet.Actor{UserID: "idle", Name: "idle", Role: fleet.RoleViewer}
	search := func(text string) func() error {
		return func() error { _, err := c.Search(t.Context(), chief, text, 4); return err }
	}
	vms := func(filter string) func() error {
		return func() error { _, err := c.ListVMs(t.Context(), chief, fleet.Query{Filter: filter}); return err }
	}
	tenant := fleet.Actor{UserID: "tenant", Name: "tenant", Projects: map[fleet.ProjectID]fleet.Role{"00000000-0000-7000-8000-000000001001": fleet.RoleMember}}
	tasks := func(a fleet.Actor, filter string) func() error {
		return func() error {
			_, err := c.ListTasks(t.Context(), a, fleet.Query{Filter: filter, Limit: 100})
			return err
		}
	}
	for name, x := range map[string]struct {
		table, index string
		do           func() error
	}{
		"beginning of an IP address":      {"vms v", "vm_words_by_word", search("10.0.1")},
		"whole IP address":                {"vms v", "vm_words_by_word", search("10.0.1.1")},
		"beginning of a MAC":              {"vms v", "vm_words_by_word", search("52:54:00:00:1")},
		"beginning of a label's value":    {"vms v", "vm_words_by_word", search("env=pr")},
		"an address that nobody has":      {"vms v", "vm_words_by_word", search("fe80::5")},
		"filter by address":               {"vms v", "vm_words_by_word", vms("address:10.0.17.1")},
		"filter by its beginning":         {"vms v", "vm_words_by_word", vms("address:10.0.17.*")},
		"filter by the beginning of MACs": {"vms v", "vm_words_by_word", vms("mac:52:54:00:00:1a:*")},
		"filter by a rare label":          {"vms v", "vm_words_by_word", vms("label:env=x*")},
		"filter by an address's end":      {"vms v", "vm_words_by_piece", vms("address:*.17.77")},
		"filter by the end of a MAC":      {"vms v", "vm_words_by_piece", vms("mac:*:1a:2b")},
		"filter by part of a name":        {"vms v", "vms_by_piece", vms("name:*0777*")},
		"a word":                          {"vms v", "vms_by_piece", vms("nothing")},
		"search of part of a name":        {"pieces_of", "vms_by_piece", search("0777")},
		"completion of an address": {"vms v", "vm_words_by_word", func() error {
			_, err := c.Complete(t.Context(), chief, "vms", "address:10.0.1")
			return err
		}},
		"VMs that need attention":         {"vms v", "vms_in_need", vms("attention:yes")},
		"VMs that have drifted":           {"vms v", "vms_by_drift", vms("drift:yes")},
		"the dashboard's list":            {"NOT v.drifted", "vms_in_trouble", func() error { _, err := c.Overview(t.Context(), chief); return err }},
		"all tasks":                       {"tasks t", "tasks_on_top", tasks(chief, "")},
		"tasks that failed":               {"tasks t", "tasks_failed", tasks(chief, "state:failed")},
		"tasks of a tenant":               {"tasks t", "tasks_by_project", tasks(tenant, "")},
		"parts of a task":                 {"tasks t", "tasks_by_parent", tasks(chief, "parent:task-000001")},
		"parts of a task of a tenant":     {"tasks t", "tasks_by_parent", tasks(tenant, "parent:task-000001")},
		"tasks of a name that nobody has": {"tasks t", "tasks_by_creator", tasks(chief, "who:nobody")},
		"tasks of part of a name":         {"tasks t", "tasks_by_creator", tasks(chief, "who:*body*")},
		"tasks of a kind that never was":  {"tasks t", "tasks_by_kind", tasks(chief, "kind:vm.reset")},
		"what runs":                       {"tasks t", "tasks_open", func() error { _, err := c.RunningTasks(t.Context(), chief); return err }},
		"tasks of who has none": {"tasks t", "tasks_by_user", func() error {
			_, err := c.ListTasks(t.Context(), idle, fleet.Query{Filter: "who:me", Limit: 8})
			return err
		}},
	} {
		plan := r.explainStatements(t, pool, x.table, x.do)
		if !strings.Contains(plan, x.index) || strings.Contains(plan, "Seq Scan on vms") || strings.Contains(plan, "Seq Scan on vm_words") || strings.Contains(plan, "Seq Scan on tasks") {
			t.Errorf("%s does not go by %s:\n%s", name, x.index, plan)
		}
	}
}

// A list reads only one page of VMs, however many hosts are offline, even if no row matches.
func TestListsReadOnePageWhenHostsAreOffline(t *testing.T) {
	t.Parallel()
	url := testkit.DatabaseURL(t)
	pool, err := db.Open(t.Context(), url, 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	const vms, hosts = 20_000, 600 // more hosts than a statement names by ID
	testkit.Seed(t, pool, hosts, vms)
	testkit.KeepOnline(t, pool)
	c, r := recordedControl(t, url)
	for _, some := range []struct{ heard, where string }{
		{"all", "true"},
		{"no", "false"},
		{"one", "host_id = (SELECT min(id) FROM hosts)"},
		{"all but one", "host_id <> (SELECT min(id) FROM hosts)"},
		{"half of the", "right(host_id, 1) < '5'"},
		{"the last", "host_id > '00000000-0000-7000-8000-000000000350'"},
	} {
		_, err := pool.Exec(t.Context(), `UPDATE host_sessions SET seen_at = now() - CASE WHEN `+some.where+` THEN interval '0' ELSE interval '1 hour' END`)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pool.Exec(t.Context(), `ANALYZE host_sessions`); err != nil {
			t.Fatal(err)
		}
		for _, q := range []fleet.Query{
			{},
			{Filter: "attention:yes"},
			{Filter: "attention:no"},
			{Filter: "drift:yes"},
			{Filter: "drift:no"},
			{Filter: "state:running"},
			{Filter: "state:unknown"},
			{Filter: "-state:unknown"},
			{Filter: "-state:running"},
			{Filter: "state:running,unknown"},
			{Filter: "state:creating"},
			{Filter: "state:crashed"},
			{Filter: "state:running", Sort: "-created"},
			{Filter: "attention:no", Sort: "-memory"},
			{Filter: "state:running", Sort: "host"},
		} {
			rows, plans := r.countVisitedRows(t, pool, func() error { _, err := c.ListVMs(t.Context(), chief, q); return err })
			if rows > vms/5 {
				t.Errorf("with %s hosts online, %q by %q looks at %d rows:\n%s", some.heard, q.Filter, q.Sort, rows, plans)
			}
			for _, asked := range r.statementsOnTable(t, "SELECT", func() error { _, err := c.ListVMs(t.Context(), chief, q); return err }) {
				for _, arg := range asked.Args {
					if ids, ok := arg.([]string); ok && len(ids) > hosts/2 && !strings.Contains(asked.SQL, "v.id = ANY") {
						t.Errorf("with %s hosts online, %q names %d of them: that is planned for each", some.heard, q.Filter, len(ids))
					}
				}
			}
		}
		// The filter and its negation together list all VMs.
		var unknown int
		if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM vms JOIN host_sessions USING (host_id) WHERE looked_at < now() - interval '30 seconds'`).Scan(&unknown); err != nil {
			t.Fatal(err)
		}
		for filter, want := range map[string]int{"state:unknown": unknown, "-state:unknown": vms - unknown} {
			got, err := query.ReadAllPages(t.Context(), chief, fleet.Query{Filter: filter}, c.ListVMsBriefly)
			if err != nil || len(got) != want {
				t.Errorf("with %s hosts online, %s lists %d VMs, want %d, %v", some.heard, filter, len(got), want, err)
			}
		}
	}
}
