//go:build ordeal

package control_test

import (
	"strings"
	"testing"

	"quantix/db"
	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/testkit"
)

// Lists, their filter and the dashboard find the drift of pools and networks by index, not among all assignments.
func TestDriftOnHostsIsReadByIndex(t *testing.T) {
	t.Parallel()
	url := testkit.DatabaseURL(t)
	pool, err := db.Open(t.Context(), url, 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	testkit.Seed(t, pool, 3000, 100)
	testkit.KeepOnline(t, pool)
	for _, sql := range []string{
		`UPDATE assignments SET status = status || '{"drift":[{"field":"path","applied":"/srv/a","actual":"/srv/b"}]}'
			WHERE noun = 'pool' AND host_id = '00000000-0000-7000-8000-000000000007'`,
		`ANALYZE assignments`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for name, do := range map[string]func(*control.Control) error{
		"the list of pools": func(c *control.Control) error { _, err := c.ListPools(t.Context(), chief, fleet.Query{}); return err },
		"pools with drift": func(c *control.Control) error {
			_, err := c.ListPools(t.Context(), chief, fleet.Query{Filter: "drift:yes"})
			return err
		},
		"networks with drift": func(c *control.Control) error {
			_, err := c.ListNetworks(t.Context(), chief, fleet.Query{Filter: "drift:yes"})
			return err
		},
		"the dashboard": func(c *control.Control) error { _, err := c.Overview(t.Context(), chief); return err },
	} {
		c, r := recordedControl(t, url) // without cached totals
		plan := r.explainStatements(t, pool, "a.changed", func() error { return do(c) })
		if !strings.Contains(plan, "assignments_changed") || strings.Contains(plan, "Seq Scan on assignments a ") {
			t.Errorf("%s does not go by assignments_changed:\n%s", name, plan)
		}
	}
}
