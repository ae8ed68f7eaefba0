//go:build ordeal

package control_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"quantix/internal/control"
	"quantix/internal/fleet"
	"quantix/internal/testkit"
)

// A query for the previous page reads the index backwards. It sorts nothing and reads no more rows than the page has.
func TestPreviousPageReadsIndexBackwards(t *testing.T) {
	t.Parallel()
	url := testkit.DatabaseURL(t)
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	var trace queryTracer
	config.ConnConfig.Tracer, config.MaxConns = &trace, 1
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	testkit.Seed(t, pool, 20, 20_000)
	testkit.KeepOnline(t, pool)
	c := control.New(pool, control.Options{})
	for _, test := range []struct{ sort, filter, scan string }{
		{"name", "", "Index Scan Backward using vms_by_name"},
		{"-name", "", "Index Scan using vms_by_name"},
		{"created", "", "Index Scan Backward using vms_by_created"},
		{"-memory", "", "Index Scan using vms_by_memory"},
		{"cpus", "", "Index Scan Backward using vms_by_cpus"},
		{"host", "", "Index Scan Backward using vms_by_host"},
		{"-host", "", "Index Scan using vms_by_host"},
		{"name", "host:host-007", "Index Scan Backward using vms_by_host"},
	} {
		q := fleet.Query{Sort: test.sort, Filter: test.filter}
		for range 4 { // to the middle of the list
			page, err := c.ListVMs(t.Context(), chief, q)
			if err != nil {
				t.Fatal(err)
			}
			q.After = page.Next
		}
		page, err := c.ListVMs(t.Context(), chief, q)
		if err != nil || page.Prev == "" {
			t.Fatalf("%+v: %q %v", q, page.Prev, err)
		}
		q.After, q.Before = "", page.Prev
		if _, err := c.ListVMs(t.Context(), chief, q); err != nil {
			t.Fatal(err)
		}
		plan := explainTraced(t, pool, trace.queries[len(trace.queries)-1])
		if !strings.Contains(plan, test.scan) || strings.Contains(plan, "Sort Key: v.") || strings.Contains(plan, "Seq Scan on vms") {
			t.Errorf("a page back by %s of %q lacks %q:\n%s", test.sort, test.filter, test.scan, plan)
		}
	}
}
