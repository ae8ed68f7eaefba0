package testkit

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Seed fills a database with online hosts (see KeepOnline) and VMs. The VMs are distributed over the hosts, ten
// projects, phases, labels (env, tier), two shared pools and one network. Running VMs have a meter that stays fresh for
// an hour. The names are host-001…, project-0…9, vm-000001…, ssd and hdd, default. The IDs contain numbers:
// 00000000-0000-7000-8000-<twelve digits>, with projects from 1000 and pools from 2000.
func Seed(t testing.TB, pool *pgxpool.Pool, hosts, vms int) {
	t.Helper()
	seedDatabase(t, pool, hosts, vms, "VACUUM ANALYZE")
}

// SeedWithoutAnalyze is Seed without ANALYZE, so that PostgreSQL keeps planning for empty tables.
func SeedWithoutAnalyze(t testing.TB, pool *pgxpool.Pool, hosts, vms int) {
	t.Helper()
	seedDatabase(t, pool, hosts, vms)
}

func seedDatabase(t testing.TB, pool *pgxpool.Pool, hosts, vms int, after ...string) {
	t.Helper()
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatalf("seed: %v", err)
	}
	defer conn.Release()
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
			t.Fatalf("seed: %v", err)
		}
	}
	exec("SET statement_timeout = 0")
	for _, sql := range seeds {
		exec(sql, hosts, vms)
	}
	for _, sql := range after {
		exec(sql)
	}
	exec("RESET statement_timeout")
}

// seedSQL is the start of each statement, so that every statement uses both parameters.
const seedSQL = "WITH n AS (SELECT $1::integer AS hosts, $2::integer AS vms) "

var seeds = []string{
	seedSQL + `INSERT INTO projects (id, name) SELECT '00000000-0000-7000-8000-' || lpad((1000 + i)::text, 12, '0'), 'project-' || i FROM n, generate_series(0, 9) i`,
	seedSQL + `INSERT INTO hosts (id, name, spec, status)
		SELECT '00000000-0000-7000-8000-' || lpad(i::text, 12, '0'), 'host-' || lpad(i::text, greatest(3, length(i::text)), '0'), jsonb_build_object('labels', jsonb_build_object('rack', 'r' || i % 8)),
			'{"agentVersion":"0","hypervisor":"libvirt 9.0.0","connected":true,"inventory":{"hostname":"h","cpu":{"threads":128},"memoryBytes":8796093022208,"firmwares":["bios","uefi"],"accelerators":["kvm"]}}'
		FROM n, generate_series(1, n.hosts) i`,
	seedSQL + `INSERT INTO pools (id, name, spec)
		SELECT '00000000-0000-7000-8000-' || lpad((2000 + i)::text, 12, '0'), name, jsonb_build_object('kind', 'dir', 'path', '/srv/' || name, 'shared', true)
		FROM n, unnest(ARRAY['ssd', 'hdd']) WITH ORDINALITY AS p (name, i)`,
	seedSQL + `INSERT INTO assignments (noun, object_id, host_id, asked, status, observed_generation, reported_at)
		SELECT 'pool', p.id, h.id, 'assign', '{"state":"active","capacityBytes":1099511627776,"usedBytes":0,"availableBytes":1099511627776,"mountPath":"/srv","volumes":[{"name":"debian.qcow2","path":"/srv/debian.qcow2","format":"qcow2","capacityBytes":2147483648,"allocBytes":0}]}', 1, now()
		FROM n, pools p, hosts h`,
	seedSQL + `INSERT INTO networks (id, name, kind) SELECT '00000000-0000-7000-8000-000000003000', 'default', 'libvirt' FROM n`,
	seedSQL + `INSERT INTO assignments (noun, object_id, host_id, status) SELECT 'net', '00000000-0000-7000-8000-000000003000', h.id, '{"active":true}' FROM n, hosts h`,
	seedSQL + `INSERT INTO pool_grants (pool_id, granted_by) SELECT p.id, 'seed' FROM n, pools p`,
	seedSQL + `INSERT INTO network_grants (network_id) SELECT w.id FROM n, networks w`,
	seedSQL + `INSERT INTO vms (id, project_id, host_id, name, labels, spec, created_at, status, observed_generation)
		SELECT '00000000-0000-7000-8000-' || lpad((1000000 + i)::text, 12, '0'),
			'00000000-0000-7000-8000-' || lpad((1000 + i % 10)::text, 12, '0'),
			'00000000-0000-7000-8000-' || lpad((1 + i % n.hosts)::text, 12, '0'),
			'vm-' || lpad(i::text, 6, '0'),
			jsonb_build_object('env', (ARRAY['prod', 'stage', 'test'])[1 + i % 3], 'tier', 't' || i % 7),
			jsonb_build_object('power', 'running', 'cpus', 1 + i % 8, 'memoryMiB', 512 * (1 + i % 16), 'firmware', 'bios',
				'disks', jsonb_build_array(jsonb_build_object('poolId', '00000000-0000-7000-8000-' || lpad((2001 + i % 2)::text, 12, '0'), 'volume', 'vm-' || i || '-1.qcow2', 'sizeBytes', 10737418240)),
				'nics', jsonb_build_array(jsonb_build_object('networkId', '00000000-0000-7000-8000-000000003000', 'mac', '52:54:00:' || lpad(to_hex(i / 65536), 2, '0') || ':' || lpad(to_hex(i / 256 % 256), 2, '0') || ':' || lpad(to_hex(i % 256), 2, '0')))),
			now() - i * interval '1 second',
			jsonb_build_object('power', CASE WHEN i % 1000 = 0 THEN 'crashed' WHEN i % 10 < 7 THEN 'running' ELSE 'stopped' END, 'cpus', 1 + i % 8, 'memoryMiB', 512 * (1 + i % 16),
				'disks', jsonb_build_array(jsonb_build_object('target', 'vda', 'path', '/srv/vm-' || i || '-1.qcow2', 'sizeBytes', 10737418240, 'allocBytes', 1073741824)),
				'nics', jsonb_build_array(jsonb_build_object('mac', '52:54:00:' || lpad(to_hex(i / 65536), 2, '0') || ':' || lpad(to_hex(i / 256 % 256), 2, '0') || ':' || lpad(to_hex(i % 256), 2, '0'), 'source', 'network default', 'addresses', jsonb_build_array('10.' || i / 65536 || '.' || i / 256 % 256 || '.' || i % 256)))),
			1
		FROM n, generate_series(1, n.vms) i`,
	seedSQL + `INSERT INTO host_meters (host_id, at, vm_ids, cpu_nanos, memory_bytes, read_bytes, write_bytes, receive_bytes, send_bytes, before_at, before_cpu)
		SELECT v.host_id, now() + interval '1 hour', array_agg(v.id), array_agg(v.cpus * 70000000::bigint), array_agg(v.memory_mib * 1048576::bigint),
			array_agg(0), array_agg(0), array_agg(0), array_agg(0), now() + interval '59 minutes 59 seconds', array_agg(0::bigint)
		FROM n, vms v WHERE v.heard = 'running' GROUP BY v.host_id`,
	seedSQL + `INSERT INTO host_sessions (host_id, seen_at) SELECT id, now() FROM n, hosts`,
}
