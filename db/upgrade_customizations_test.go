package db_test

import (
	"os"
	"testing"

	"quantix/db"
	"quantix/internal/testkit"
)

// The upgrade publishes each fleet-wide customization spec to all projects, so that every project keeps it.
func TestUpgradePublishesFleetWideCustomizations(t *testing.T) {
	t.Parallel()
	url := testkit.EmptyDatabaseURL(t)
	before, conn := testkit.Migrator(t, url, os.DirFS("migration"))
	if _, err := before.UpTo(t.Context(), 106); err != nil {
		t.Fatal(err)
	}
	const add = `INSERT INTO customizations (id, project_id, name, description, kind, variables, by_key, sealed, changed_by) `
	for _, sql := range []string{
		`INSERT INTO projects (id, name) VALUES ('red', 'red')`,
		add + `VALUES ('a', NULL, 'a', '', 'cloud-init', '{}', 'x', 'x', 'ann'), ('b', 'red', 'b', '', 'cloud-init', '{}', 'x', 'x', 'ann'),
			('c', NULL, 'c', '', 'cloud-init', '{}', 'x', 'x', 'ann')`,
		`DELETE FROM customizations WHERE id = 'c'`,
	} {
		if _, err := conn.ExecContext(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	if err := db.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		`SELECT string_agg(customization_id || ' ' || COALESCE(project_id, '*'), ', ' ORDER BY customization_id) FROM customization_grants`:                    "a *",
		`SELECT string_agg(object_id || ' ' || action || ' ' || COALESCE(audience::text, '-'), ', ' ORDER BY number) FROM events WHERE type = 'customization'`: `a created -, b created -, c created -, c deleted {""}`,
	} {
		if got := queryText(t, conn, query); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}
