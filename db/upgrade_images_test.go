package db_test

import (
	"os"
	"testing"

	"quantix/db"
	"quantix/internal/testkit"
)

// The upgrade from schema 31 turns published volumes into images with one version, their files into copies, and their
// projects into grants.
func TestUpgradeTurnsPublishedVolumesIntoImages(t *testing.T) {
	t.Parallel()
	// The older database has published debian.qcow2 of the shared pool1 to all projects.
	url := testkit.Schema14DatabaseURL(t, os.DirFS("migration"), 3, 20)
	p, conn := testkit.Migrator(t, url, os.DirFS("migration"))
	if _, err := p.UpTo(t.Context(), 31); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		// In the local pool2, hosts h1 and h2 have equal files named golden.raw, and host h3 has a different file with
		// that name.
		`INSERT INTO published_images (pool_id, host_id, volume, format, capacity_bytes, published_by, published_at) VALUES
			('pool2', 'h1', 'golden.raw', 'raw', 1048576, 'ann', '2026-01-02'), ('pool2', 'h2', 'golden.raw', 'raw', 1048576, 'bob', '2026-01-01'), ('pool2', 'h3', 'golden.raw', 'raw', 2097152, 'ann', '2026-01-03')`,
		// In pool3, debian.qcow2 is published to two projects, and tools.iso to all projects. pool1 also has a
		// debian.qcow2.
		`INSERT INTO published_images (pool_id, volume, project_id, format, capacity_bytes, published_by, published_at) VALUES
			('pool3', 'debian.qcow2', 'p1', 'qcow2', 4294967296, 'ann', '2027-01-01'), ('pool3', 'debian.qcow2', 'p2', 'qcow2', 4294967296, 'ann', '2027-01-02'), ('pool3', 'tools.iso', NULL, 'iso', 4096, 'ann', '2026-01-01')`,
		// A VM has a disk cloned from a published volume.
		`UPDATE vms SET spec = jsonb_set(spec, '{disks}', '[{"poolId":"pool1","volume":"web-1.qcow2","sizeBytes":0,"image":{"poolId":"pool1","volume":"debian.qcow2"}}]') WHERE id = 'vm1'`,
	} {
		if _, err := conn.ExecContext(t.Context(), sql); err != nil {
			t.Fatalf("%v\n%s", err, sql)
		}
	}
	before := queryText(t, conn, `SELECT md5(string_agg(id || spec, ',' ORDER BY id)) FROM vms`)
	if err := db.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		`SELECT string_agg(name || ' by ' || created_by || COALESCE(' of ' || project_id, ''), ', ' ORDER BY name, created_by) FROM images`:                                                                                          "debian.qcow2 by user-1, debian.qcow2 (2) by ann, golden.raw by ann, golden.raw (2) by ann, tools.iso by ann",
		`SELECT string_agg(concat_ws(' ', i.name, v.number, v.format, v.capacity_bytes, NULLIF(v.sha256, ''), v.start_id), ', ' ORDER BY i.name) FROM image_versions v JOIN images i ON i.id = v.image_id`:                           "debian.qcow2 1 qcow2 2147483648, debian.qcow2 (2) 1 qcow2 4294967296, golden.raw 1 raw 1048576, golden.raw (2) 1 raw 2097152, tools.iso 1 iso 4096",
		`SELECT string_agg(concat_ws(' ', i.name, c.pool_id, c.host_id, c.volume, c.added_by), ', ' ORDER BY i.name, c.host_id) FROM image_copies c JOIN image_versions v ON v.id = c.version_id JOIN images i ON i.id = v.image_id`: "debian.qcow2 pool1 debian.qcow2 user-1, debian.qcow2 (2) pool3 debian.qcow2 ann, golden.raw pool2 h1 golden.raw ann, golden.raw pool2 h2 golden.raw bob, golden.raw (2) pool2 h3 golden.raw ann, tools.iso pool3 tools.iso ann",
		`SELECT string_agg(concat_ws(' ', i.name, COALESCE(g.project_id, 'all'), g.granted_by), ', ' ORDER BY i.name, g.project_id) FROM image_grants g JOIN images i ON i.id = g.image_id`:                                          "debian.qcow2 all user-1, debian.qcow2 (2) p1 ann, debian.qcow2 (2) p2 ann, golden.raw all bob, golden.raw (2) all ann, tools.iso all ann",
		`SELECT volume_held('pool1', 'debian.qcow2', 'h1')->>'image'`:    "debian.qcow2",
		`SELECT volume_held('pool2', 'golden.raw', 'h3')->>'image'`:      "golden.raw (2)",
		`SELECT COALESCE(to_regclass('published_images')::text, 'gone')`: "gone",
		`SELECT count(*)::text FROM start_images WHERE changed_by = ''`:  "7",
		`SELECT md5(string_agg(id || spec, ',' ORDER BY id)) FROM vms`:   before,
	} {
		if got := queryText(t, conn, query); got != want {
			t.Errorf("%s:\n%s\nwant %s", query, got, want)
		}
	}
}
