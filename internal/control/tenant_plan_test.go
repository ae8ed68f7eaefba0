//go:build ordeal

package control_test

import (
	"testing"

	"quantix/internal/control"
	"quantix/internal/control/query"
	"quantix/internal/fleet"
	"quantix/internal/testkit"
)

// Pages of a tenant with 50 VMs read the tenant's rows, and not those of the whole fleet.
func TestTenantQueriesReadOnlyTheTenantsRows(t *testing.T) {
	t.Parallel()
	url := testkit.DatabaseURL(t)
	r := &queryRecorder{}
	pool := r.openPool(t, url, 1)
	testkit.Seed(t, pool, 100, 30_000)
	testkit.KeepOnline(t, pool)
	const project = "00000000-0000-7000-8000-00000000aaaa"
	for _, sql := range []string{
		`INSERT INTO projects (id, name) VALUES ('` + project + `', 'tenant')`,
		`INSERT INTO projects (id, name) SELECT gen_random_uuid()::text, 'team-' || n FROM generate_series(1, 2000) n`,
		`UPDATE vms SET project_id = '` + project + `' WHERE id IN (SELECT id FROM vms ORDER BY id LIMIT 50)`,
		`INSERT INTO pool_grants (pool_id, project_id, granted_by) SELECT id, '` + project + `', 'ann' FROM pools`,
		`UPDATE assignments SET status = status || '{"state":"failed","error":"no route"}' WHERE noun = 'pool' AND host_id LIKE '%7'`,
		`UPDATE vms SET expires_at = now() + (n.i % 300) * interval '1 day' FROM (SELECT id, row_number() OVER () AS i FROM vms) n WHERE n.id = vms.id`,
		`VACUUM ANALYZE`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	a := fleet.Actor{UserID: "tenant", Name: "tenant", Projects: map[fleet.ProjectID]fleet.Role{project: fleet.RoleMember}}
	c := control.New(pool, control.Options{})
	for name, do := range map[string]func() error{
		"VMs":         func() error { _, err := c.ListVMRows(ctx, a, fleet.Query{}); return err },
		"running VMs": func() error { _, err := c.ListVMRows(ctx, a, fleet.Query{Filter: "state:running"}); return err },
		"search":      func() error { _, err := c.Search(ctx, a, "vm-0", 8); return err },
		"overview":    func() error { _, err := c.Overview(ctx, a); return err },
		// The values of a fleet with more than a thousand VMs are cached.
		"top consumers": func() error { _, err := c.TopConsumers(ctx, a); return err },
		"alarms":        func() error { _, _, err := c.AlarmGroups(ctx, a); return err },
		"expiring":      func() error { _, err := c.ExpiringVMs(ctx, a); return err },
		"usage":         func() error { _, err := c.ProjectUsage(ctx, a, project); return err },
		"pools":         func() error { _, err := c.ListPools(ctx, a, fleet.Query{}); return err },
		"networks":      func() error { _, err := c.ListNetworks(ctx, a, fleet.Query{}); return err },
		"images":        func() error { _, err := c.ListImages(ctx, a, fleet.Query{}); return err },
		"tasks":         func() error { _, err := c.ListTasks(ctx, a, fleet.Query{}); return err },
		"layout": func() error {
			_, err := c.Layout(ctx, a, fleet.Query{Limit: 8}, query.TreeQuery{View: "vms"})
			return err
		},
	} {
		if err := do(); err != nil { // fills caches
			t.Fatalf("%s: %v", name, err)
		}
		if read, plan := r.countBlocksRead(t, pool, do); read > 600 { // the VMs alone have about 10,000 blocks
			t.Errorf("%s: reads %d blocks:\n%s", name, read, plan)
		} else {
			t.Logf("%s: %d blocks", name, read)
		}
	}
}
