package db_test

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/testkit"
)

// The upgrade makes hosts schedulable and turns their taints into objects with an effect.
func TestUpgradeConvertsTaintsAndFillsHostSpec(t *testing.T) {
	t.Parallel()
	url := testkit.EmptyDatabaseURL(t)
	before, conn := testkit.Migrator(t, url, os.DirFS("migration"))
	if _, err := before.UpTo(t.Context(), 81); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		`INSERT INTO hosts (id, name, spec) VALUES ('a', 'a', '{"labels":{"rack":"4"},"taints":["gpu=a100","maintenance"]}')`,
		`INSERT INTO hosts (id, name, spec) VALUES ('b', 'b', '{}'), ('c', 'c', '{"taints":[]}')`,
	} {
		if _, err := conn.ExecContext(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	if err := db.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), `INSERT INTO hosts (id, name) VALUES ('new', 'new')`); err != nil {
		t.Fatal(err)
	}
	for id, taints := range map[string][]fleet.Taint{
		"a": {{Key: "gpu", Value: "a100", Effect: fleet.NoSchedule}, {Key: "maintenance", Effect: fleet.NoSchedule}}, "b": nil, "c": nil, "new": nil,
	} {
		text := queryText(t, conn, `SELECT spec::text FROM hosts WHERE id = '`+id+`'`)
		var spec fleet.HostSpec
		if err := json.Unmarshal([]byte(text), &spec); err != nil {
			t.Fatal(err)
		}
		if !spec.Schedulable || spec.Roles != fleet.DefaultHostSpec().Roles || !slices.Equal(spec.Taints, taints) {
			t.Errorf("the spec of host %s is %s", id, text)
		}
		if got := queryText(t, conn, `SELECT (spec->>'schedulable') || (spec->'roles'->>'compute') FROM hosts WHERE id = '`+id+`'`); got != "truetrue" {
			t.Errorf("host %s: schedulable and compute are stored as %s", id, got)
		}
	}
}

// The upgrade puts existing hosts into the cluster "default", and hosts that join later too.
func TestUpgradePutsHostsInDefaultCluster(t *testing.T) {
	t.Parallel()
	url := testkit.EmptyDatabaseURL(t)
	before, conn := testkit.Migrator(t, url, os.DirFS("migration"))
	if _, err := before.UpTo(t.Context(), 82); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), `INSERT INTO hosts (id, name) VALUES ('a', 'a')`); err != nil {
		t.Fatal(err)
	}
	if err := db.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), `INSERT INTO hosts (id, name) VALUES ('new', 'new')`); err != nil {
		t.Fatal(err)
	}
	if got := queryText(t, conn, `SELECT string_agg(h.name || ' in ' || cl.name, ', ' ORDER BY h.name) FROM hosts h JOIN clusters cl ON cl.id = h.cluster_id WHERE cl.id = '`+string(fleet.DefaultClusterID)+`'`); got != "a in default, new in default" {
		t.Errorf("hosts and their clusters are %q", got)
	}
	var spec fleet.ClusterSpec
	if err := json.Unmarshal([]byte(queryText(t, conn, `SELECT spec::text FROM clusters`)), &spec); err != nil || spec != (fleet.ClusterSpec{Placement: fleet.PlacementSpread}) {
		t.Errorf("the cluster's spec is %+v, %v", spec, err)
	}
}
