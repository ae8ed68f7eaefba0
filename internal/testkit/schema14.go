package testkit

import (
	"database/sql"
	"io/fs"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // sql's driver "pgx"
	"github.com/pressly/goose/v3"
)

// Migrator returns a goose provider for the migrations in files, for tests that stop at a certain version.
func Migrator(t testing.TB, url string, files fs.FS) (*goose.Provider, *sql.DB) {
	t.Helper()
	conn, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	p, err := goose.NewProvider(goose.DialectPostgres, conn, files)
	if err != nil {
		t.Fatal(err)
	}
	return p, conn
}

// Schema14DatabaseURL returns the DatabaseURL of a database as a portal with schema 14 left it, with the migrations in files up to number
// 14. It has hosts, VMs in all phases, storage, networks, tasks, users and their history. Unlike Seed, its content must
// never change, because such databases exist in production.
func Schema14DatabaseURL(t testing.TB, files fs.FS, hosts, vms int) string {
	t.Helper()
	url := EmptyDatabaseURL(t)
	p, conn := Migrator(t, url, files)
	if _, err := p.UpTo(t.Context(), 14); err != nil {
		t.Fatal(err)
	}
	for _, sql := range schema14 {
		if _, err := conn.ExecContext(t.Context(), seedSQL+sql, hosts, vms); err != nil {
			t.Fatalf("seed schema 14: %v\n%s", err, sql)
		}
	}
	if _, err := conn.ExecContext(t.Context(), "VACUUM ANALYZE"); err != nil {
		t.Fatal(err)
	}
	return url
}

var schema14 = []string{
	`INSERT INTO users (id, name, role, password_hash) SELECT 'u' || i, 'user-' || i, (ARRAY['admin', 'operator', 'viewer', ''])[1 + i % 4], 'x' FROM n, generate_series(1, 20) i`,
	`INSERT INTO projects (id, name) SELECT 'p' || i, 'project-' || i FROM n, generate_series(0, 9) i`,
	`INSERT INTO project_members (project_id, user_id, role) SELECT 'p' || i % 10, 'u' || i, 'member' FROM n, generate_series(1, 20) i`,
	`INSERT INTO hosts (id, name, spec, status, report_seq) SELECT 'h' || i, 'host-' || i, '{"labels":{"rack":"r1"}}',
		'{"agentVersion":"1.0","hypervisor":"libvirt 9.0.0","connected":true,"inventory":{"hostname":"h","cpu":{"threads":64},"memoryBytes":549755813888,"firmwares":["bios"],"accelerators":["kvm"]}}', (1::bigint << 32) + 7
		FROM n, generate_series(1, n.hosts) i`,
	`INSERT INTO host_sessions (host_id, session, number, report_seq, digest, seen_at, last_look) SELECT h.id, 'x', 1, (1::bigint << 32) + 7, 'd', now(), now() FROM n, hosts h`,
	`INSERT INTO pools (id, name, spec) SELECT 'pool' || i, 'pool-' || i, jsonb_build_object('kind', 'dir', 'path', '/srv/pool-' || i, 'shared', i = 1) FROM n, generate_series(1, 4) i`,
	`INSERT INTO pool_hosts (pool_id, host_id, assigned, status, observed_generation, report_seq, reported_at)
		SELECT p.id, h.id, p.id <> 'pool4' OR h.id <> 'h1', '{"state":"active","capacityBytes":1099511627776,"usedBytes":0,"availableBytes":1099511627776,"volumes":[{"name":"debian.qcow2","path":"/srv/debian.qcow2","format":"qcow2","capacityBytes":2147483648}]}', 1, (1::bigint << 32) + 7, now()
		FROM n, pools p, hosts h`,
	`INSERT INTO published_images (pool_id, volume, format, capacity_bytes, published_by) SELECT 'pool1', 'debian.qcow2', 'qcow2', 2147483648, 'user-1' FROM n`,
	`INSERT INTO networks (id, name, kind) SELECT k.id, k.name, k.kind FROM n, (VALUES ('n1', 'default', 'libvirt'), ('n2', 'br0', 'bridge'), ('n3', 'lab', 'libvirt')) AS k (id, name, kind)`,
	`INSERT INTO network_hosts (network_id, host_id, status, report_seq) SELECT k.id, h.id, '{"active":true,"forward":"nat"}', (1::bigint << 32) + 7 FROM n, networks k, hosts h WHERE k.id <> 'n3' OR h.id = 'h1'`,
	`INSERT INTO network_grants (network_id, project_id) SELECT 'n2', 'p1' FROM n`,
	// Of each 100 VMs, 70 run (2 of them with a change for their next boot), 20 are off, and one each is new, paused,
	// crashed, missing, failed, faulty, deleted, and with a pending change.
	`INSERT INTO vms (id, project_id, host_id, name, labels, spec, generation, created_at, deleted_at, status, observed_generation, report_seq)
		SELECT 'vm' || i, 'p' || i % 10, 'h' || 1 + i % n.hosts, 'vm-' || lpad(i::text, 6, '0'), jsonb_build_object('env', (ARRAY['prod', 'stage', 'test'])[1 + i % 3]),
			jsonb_build_object('power', CASE WHEN i % 100 < 72 THEN 'running' ELSE 'stopped' END, 'cpus', 1 + i % 8, 'memoryMiB', 512 * (1 + i % 16), 'firmware', 'bios',
				'disks', jsonb_build_array(jsonb_build_object('poolId', 'pool' || 1 + i % 4, 'volume', 'vm-' || i || '.qcow2', 'sizeBytes', 10737418240)),
				'nics', jsonb_build_array(jsonb_build_object(CASE WHEN i % 5 = 0 THEN 'bridge' ELSE 'network' END, CASE WHEN i % 5 = 0 THEN 'br0' ELSE 'default' END, 'mac', m.mac))),
			1 + (i % 100 = 92)::integer, now() - i * interval '1 second', CASE WHEN i % 100 = 93 THEN now() END,
			CASE WHEN i % 100 <> 94 THEN jsonb_build_object('power', CASE WHEN i % 100 < 70 THEN 'running' WHEN i % 100 = 95 THEN 'paused' WHEN i % 100 = 96 THEN 'crashed'
					WHEN i % 100 IN (97, 98) THEN 'absent' ELSE 'stopped' END, 'cpus', 1 + i % 8, 'memoryMiB', 512 * (1 + i % 16),
				'disks', jsonb_build_array(jsonb_build_object('target', 'vda', 'path', '/srv/vm-' || i || '.qcow2', 'sizeBytes', 10737418240, 'allocBytes', 1073741824,
					'volume', jsonb_build_object('poolId', 'pool' || 1 + i % 4, 'volume', 'vm-' || i || '.qcow2'))),
				'nics', jsonb_build_array(jsonb_build_object('mac', m.mac, 'source', 'network default', 'addresses', jsonb_build_array('10.' || i / 65536 || '.' || i / 256 % 256 || '.' || i % 256))))
				|| CASE WHEN i % 100 < 2 THEN '{"nextBoot":["cpus"]}'::jsonb WHEN i % 100 = 98 THEN '{"error":"no space","errorOf":"vm.apply"}'
					WHEN i % 100 = 99 THEN '{"faults":[{"code":"disk","text":"Disk 1 is not there."}]}' ELSE '{}' END END,
			(i % 100 <> 94)::integer, CASE WHEN i % 100 <> 94 THEN (1::bigint << 32) + 7 ELSE 0 END
		FROM n, generate_series(1, n.vms) i,
			LATERAL (SELECT '52:54:00:' || lpad(to_hex(i / 65536), 2, '0') || ':' || lpad(to_hex(i / 256 % 256), 2, '0') || ':' || lpad(to_hex(i % 256), 2, '0') AS mac) m`,
	`INSERT INTO vm_meters (vm_id, at, meter, cpu_percent) SELECT v.id, now(), '{"cpuNanos":0}', 7 FROM n, vms v WHERE v.heard = 'running'`,
	`INSERT INTO found_vms (host_id, id, name, status) SELECT h.id, 'found-' || h.id, 'legacy', '{"power":"running"}' FROM n, hosts h`,
	// Every VM has a creation job, one in ten also a start job, and one in a hundred a failed start. Some jobs are
	// queued or running.
	`INSERT INTO jobs (id, host_id, project_id, kind, subject, subject_name, generation, state, epoch, attempt, progress, error, created_by, user_id, created_at, started_at, ended_at)
		SELECT 'j' || lpad(o.kind, 10, '0') || v.id, v.host_id, v.project_id, o.kind, 'vm:' || v.id, v.name, 1, o.state, 1, 1, 100, CASE WHEN o.state = 'failed' THEN 'no firmware' ELSE '' END,
			'user-1', 'u1', now() - interval '1 hour', now() - interval '1 hour', now() - interval '1 hour'
		FROM n, vms v, LATERAL (SELECT substr(v.id, 3)::integer AS i) k,
			LATERAL (SELECT 'vm.apply' AS kind, 'done' AS state UNION ALL SELECT 'vm.start', CASE WHEN k.i % 100 = 0 THEN 'failed' ELSE 'done' END WHERE k.i % 10 = 0) o`,
	`INSERT INTO jobs (id, host_id, project_id, kind, subject, subject_name, generation, state, epoch, attempt, lease_until, created_by)
		SELECT 'k' || v.id, v.host_id, v.project_id, o.kind, 'vm:' || v.id, v.name, v.generation, o.state, 2, 1, CASE WHEN o.state = 'running' THEN now() + interval '1 hour' END, 'user-2'
		FROM n, vms v, LATERAL (SELECT substr(v.id, 3)::integer AS i) k,
			LATERAL (SELECT CASE WHEN k.i % 100 = 94 THEN 'vm.apply' WHEN k.i % 100 = 93 THEN 'vm.delete' WHEN k.i % 1000 = 80 THEN 'vm.start' END AS kind,
				CASE WHEN k.i % 1000 = 80 THEN 'running' ELSE 'queued' END AS state) o WHERE o.kind IS NOT NULL`,
	`INSERT INTO jobs (id, host_id, kind, subject, subject_name, generation, state, epoch, created_by, ended_at)
		SELECT 'l' || ph.pool_id || ph.host_id, ph.host_id, 'pool.apply', 'pool:' || ph.pool_id, ph.pool_id, 1, 'done', 1, 'user-1', now() FROM n, pool_hosts ph`,
	`INSERT INTO jobs (id, host_id, project_id, kind, subject, subject_name, generation, state, epoch, created_by, user_id, ended_at)
		SELECT 'c' || v.id, v.host_id, v.project_id, 'console.open', 'vm:' || v.id, v.name, 1, 'done', 1, 'user-3', 'u3', now() FROM n, vms v WHERE v.heard = 'running' AND substr(v.id, 3)::integer % 50 = 7`,
	`INSERT INTO bulk_actions (id, user_id, action, results) SELECT 'b1', 'u1', 'start', jsonb_agg(jsonb_build_object('vm', v.id, 'name', v.name, 'task', 'jvm.start' || v.id))
		FROM n, LATERAL (SELECT * FROM vms ORDER BY id LIMIT 50) v`,
	`INSERT INTO audit (actor, user_id, action, subject, name) SELECT 'user-1', 'u1', 'vm.create', 'vm:' || v.id, v.name FROM n, vms v`,
}
