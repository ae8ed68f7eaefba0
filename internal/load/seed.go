package load

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"quantix/internal/fleet"
)

// seedVMs writes the VMs directly into the portal's database, as if their hosts had created them long ago. Use it for
// fleets that are too large to create through the API, in portals without other objects: seedVMs checks no rules,
// creates no tasks and writes no audit entries.
func (r *loadRun) seedVMs(ctx context.Context) error {
	return r.withDatabase(ctx, func(conn *pgx.Conn) error {
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			rows, err := tx.Query(ctx, seedSQL, r.created.project, r.created.hosts, r.created.pools, r.o.VMs, r.name)
			if err != nil {
				return err
			}
			vms, err := pgx.CollectRows(rows, pgx.RowToStructByPos[seededVM])
			// The hosts need the VMs before the transaction commits: if a report lacks a VM of the portal, the VM
			// counts as missing.
			for _, v := range vms {
				r.byHost[v.Host].host.addVM(fleet.VM{Meta: fleet.Meta{ID: v.ID, Name: v.Name, ObservedGeneration: 1}, Spec: v.Spec, Status: &v.Status})
			}
			return err
		})
		if err == nil {
			_, err = conn.Exec(ctx, "ANALYZE vms")
		}
		return err
	})
}

type seededVM struct {
	ID     fleet.VMID
	Host   fleet.HostID
	Name   string
	Spec   fleet.VMSpec
	Status fleet.VMStatus
}

// seedPools assigns the pools to hosts, as if the hosts had started them long ago.
func (r *loadRun) seedPools(ctx context.Context, hosts []fleet.HostID) error {
	return r.withDatabase(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, seedPoolsSQL, r.created.pools, hosts)
		return err
	})
}

const seedPoolsSQL = `
	INSERT INTO assignments (noun, object_id, host_id, asked, status, observed_generation, reported_at)
	SELECT 'pool', p.id, h.id, 'assign', jsonb_build_object('state', 'active', 'capacityBytes', 1125899906842624, 'availableBytes', 1125899906842624, 'mountPath', p.spec->'path'), 1, now()
	FROM pools p, unnest($2::text[]) h (id) WHERE p.id = ANY ($1::text[])`

// deleteSeeded deletes the VMs that seedVMs wrote.
func (r *loadRun) deleteSeeded(ctx context.Context) error {
	return r.withDatabase(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "DELETE FROM vms WHERE project_id = $1", r.created.project)
		return err
	})
}

func (r *loadRun) withDatabase(ctx context.Context, do func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, r.o.Database)
	if err != nil {
		return fmt.Errorf("connect to the portal's database: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return do(conn)
}

const seedSQL = `
	INSERT INTO vms (id, project_id, host_id, name, labels, spec, status, observed_generation)
	SELECT gen_random_uuid()::text, $1, ($2::text[])[1 + i % cardinality($2::text[])], $5 || '-' || lpad((i + 1)::text, 6, '0'),
		jsonb_build_object('env', (ARRAY['prod', 'stage', 'test'])[1 + i % 3], 'tier', 't' || i % 7),
		jsonb_build_object('power', 'running', 'cpus', 1 + i % 8, 'memoryMiB', 512 * (1 + i % 16), 'firmware', 'bios',
			'disks', CASE WHEN pool IS NULL THEN '[]'::jsonb ELSE jsonb_build_array(jsonb_build_object('poolId', pool, 'volume', 'v' || i || '-1.qcow2', 'sizeBytes', 10737418240)) END,
			'nics', jsonb_build_array(jsonb_build_object('networkId', n.id, 'mac', mac))),
		jsonb_build_object('power', 'running', 'cpus', 1 + i % 8, 'memoryMiB', 512 * (1 + i % 16), 'accelerator', 'kvm',
			'disks', CASE WHEN pool IS NULL THEN '[]'::jsonb ELSE jsonb_build_array(jsonb_build_object('target', 'vda', 'path', '/srv/v' || i || '-1.qcow2', 'sizeBytes', 10737418240, 'allocBytes', 1073741824,
				'volume', jsonb_build_object('poolId', pool, 'volume', 'v' || i || '-1.qcow2'))) END,
			'nics', jsonb_build_array(jsonb_build_object('mac', mac, 'source', 'network default', 'addresses', jsonb_build_array('10.' || i / 65536 || '.' || i / 256 % 256 || '.' || i % 256)))),
		1
	FROM (SELECT id FROM networks WHERE kind = 'libvirt' AND name = 'default') n,
		(SELECT i, ($3::text[])[1 + i % NULLIF(cardinality($3::text[]), 0)] AS pool, '52:54:00:' || lpad(to_hex(i / 65536), 2, '0') || ':' || lpad(to_hex(i / 256 % 256), 2, '0') || ':' || lpad(to_hex(i % 256), 2, '0') AS mac
		 FROM generate_series(0, $4::integer - 1) i) rows
	RETURNING id, host_id, name, spec, status`
