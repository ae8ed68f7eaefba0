//go:build ordeal

package db_test

import (
	"context"
	"reflect"
	"slices"
	"testing"
	"time"

	"quantix/db"
	"quantix/internal/testkit"
)

// PostgreSQL keeps a statement's plan as long as its connection. A plan made for empty tables must also be fast for
// full tables.
func TestCachedQueryPlansStayFastAfterTablesFill(t *testing.T) {
	t.Parallel()
	url := testkit.DatabaseURL(t)
	full, err := db.Open(t.Context(), url, 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(full.Close)
	mustRun(t, full, `DO $$ DECLARE t text; BEGIN
		FOR t IN SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace LOOP EXECUTE format('ALTER TABLE %I SET (autovacuum_enabled = off)', t); END LOOP;
	END $$`)
	mustRun(t, full, `VACUUM ANALYZE`)
	earlyPool, err := db.Open(t.Context(), url, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(earlyPool.Close)
	mustRun(t, earlyPool, `SET plan_cache_mode = force_generic_plan`)
	var all []plannedStatement
	for m := range reflect.TypeFor[*db.Queries]().Methods() {
		if m.Type.NumIn() > 1 && m.Type.In(1) == reflect.TypeFor[context.Context]() {
			all = append(all, planStatement(t, earlyPool, m))
		}
	}
	if len(all) < 200 {
		t.Fatalf("found only %d statements", len(all))
	}
	fillTables(t, full)
	testkit.KeepOnline(t, full)
	probe := all[slices.IndexFunc(all, func(p plannedStatement) bool { return p.name == "GetVM" })]
	for late := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if read, _, err := probe.explain(t, earlyPool, false); err != nil || read <= maxBlocksByIndex {
			break
		}
		if time.Now().After(late) {
			t.Fatal("plans were not renewed within a minute")
		}
	}
	for _, p := range all {
		for _, tenant := range []bool{false, true} {
			if p.hasArgument("AllProjects") || !tenant {
				p.checkPlan(t, earlyPool, tenant)
			}
		}
	}
}
