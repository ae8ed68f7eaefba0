-- name: AddPool :exec
INSERT INTO pools (id, name, spec) VALUES (@id, @name, @spec);

-- name: PoolNames :many
SELECT id, name FROM pools WHERE id = ANY (@ids::text[]);

-- name: LockPool :one
SELECT * FROM pools WHERE id = @id FOR UPDATE;

-- name: PoolsNamed :many
SELECT * FROM pools WHERE name = ANY (@names::text[]);

-- name: DiscoveredPoolsNamed :many
-- Discovered pools of this name, as their hosts last reported them: the given host's first. Only pools of @hosts, unless
-- the list is empty. Hosts with the pool assigned are left out, because their report may be older than the assignment.
SELECT h.id, h.name, p.pool::jsonb AS pool FROM hosts h
CROSS JOIN LATERAL jsonb_array_elements(CASE WHEN jsonb_typeof(h.status->'discoveredPools') = 'array' THEN h.status->'discoveredPools' ELSE '[]' END) AS p (pool)
WHERE p.pool->>'name' = @name::text AND (cardinality(@hosts::text[]) = 0 OR h.id = ANY (@hosts))
  AND NOT EXISTS (SELECT 1 FROM assignments a JOIN pools q ON q.id = a.pool_id WHERE a.host_id = h.id AND q.name = @name)
ORDER BY h.id <> @host_id::text, h.name LIMIT @most;

-- name: MarkPoolDeleted :exec
UPDATE pools SET deleted_at = now(), generation = generation + 1 WHERE id = @id;

-- name: DropPool :exec
DELETE FROM pools WHERE id = @id;

-- name: HostsNamed :many
-- Locks the hosts against deletion while a pool is assigned to them.
SELECT id, name FROM hosts WHERE id = ANY (@ids::text[]) ORDER BY name FOR KEY SHARE;

-- name: PoolNeeded :many
-- The first few VMs with a disk or ISO in the pool, on one host, or on any host if @host is empty.
SELECT (v.name || in_bin(v.recycled_at))::text AS name, v.project_id FROM vms v
WHERE v.host_id = @host::text AND (v.spec @> jsonb_build_object('disks', jsonb_build_array(jsonb_build_object('poolId', @pool_id::text)))
       OR spec_reads(v.spec, @pool_id, ''))
UNION ALL
SELECT (v.name || in_bin(v.recycled_at))::text AS name, v.project_id FROM vms v
WHERE @host = '' AND (v.spec @> jsonb_build_object('disks', jsonb_build_array(jsonb_build_object('poolId', @pool_id)))
       OR spec_reads(v.spec, @pool_id, ''))
LIMIT 4;

-- name: PlacesInUse :many
-- Other pools on these hosts with the same directory, target, Ceph pool or volume group.
SELECT p.name, h.name AS host_name FROM assignments s JOIN pools p ON p.id = s.pool_id JOIN hosts h ON h.id = s.host_id
WHERE s.host_id = ANY (@hosts::text[]) AND p.id <> @pool_id AND COALESCE(NULLIF(p.spec->>'path', ''), p.spec->>'target', p.spec->>'cephPool', p.spec->>'group') = @place::text
LIMIT 1;

-- name: ShareLockPool :one
-- Locks the pool against deletion while it is granted.
SELECT name FROM pools WHERE id = @id FOR KEY SHARE;

-- name: GrantPool :execrows
-- project_id NULL grants to all projects.
INSERT INTO pool_grants (pool_id, project_id, granted_by) VALUES (@pool_id, sqlc.narg(project_id), @granted_by) ON CONFLICT DO NOTHING;

-- name: RevokePool :execrows
DELETE FROM pool_grants WHERE pool_id = @pool_id AND project_id IS NOT DISTINCT FROM sqlc.narg(project_id);

-- name: PoolGrants :many
-- The grants of the pools: all, or only those to these projects and to all projects.
SELECT g.pool_id, COALESCE(g.project_id, '')::text AS project_id, COALESCE(p.name, '')::text AS project, g.granted_by, g.granted_at
FROM pool_grants g LEFT JOIN projects p ON p.id = g.project_id
WHERE g.pool_id = ANY (@pools::text[]) AND (@all_projects::boolean OR g.project_id IS NULL OR g.project_id = ANY (@projects::text[]))
ORDER BY g.pool_id, p.name NULLS FIRST;

-- name: PoolsUnpublished :many
-- The pools among these that are published to none of the projects, or do not exist.
SELECT i.id::text FROM unnest(@ids::text[]) AS i (id)
WHERE NOT EXISTS (SELECT 1 FROM pool_grants g WHERE g.pool_id = i.id AND (g.project_id IS NULL OR g.project_id = ANY (@projects::text[])));

-- name: UnpublishedPoolNamesIn :many
-- Names, the longest first, of pools that occur in one of the texts and are published to none of the projects.
SELECT p.name FROM pools p
WHERE EXISTS (SELECT 1 FROM unnest(@texts::text[]) AS t (text) WHERE position(p.name IN t.text) > 0)
  AND NOT EXISTS (SELECT 1 FROM pool_grants g WHERE g.pool_id = p.id AND (g.project_id IS NULL OR g.project_id = ANY (@projects::text[])))
ORDER BY length(p.name) DESC LIMIT 100;

-- name: CountPools :one
-- The shared and local pools: all, or only those published to one of the projects.
SELECT count(*) FILTER (WHERE (p.spec->>'shared')::boolean)::bigint AS shared, count(*) FILTER (WHERE NOT COALESCE((p.spec->>'shared')::boolean, false))::bigint AS local FROM pools p
WHERE @all_pools::boolean OR EXISTS (SELECT 1 FROM pool_grants g WHERE g.pool_id = p.id AND (g.project_id IS NULL OR g.project_id = ANY (@projects::text[])));

-- name: SetPoolSecret :exec
INSERT INTO pool_secrets (pool_id, by_key, sealed, set_by) VALUES (@pool_id, @by_key, @sealed, @set_by)
ON CONFLICT (pool_id) DO UPDATE SET by_key = excluded.by_key, sealed = excluded.sealed, set_by = excluded.set_by, set_at = now();

-- name: PoolSecretFor :one
-- The secret of a pool, only for a host with the pool assigned.
SELECT s.by_key, s.sealed FROM pool_secrets s JOIN assignments a ON a.pool_id = s.pool_id
WHERE s.pool_id = @pool_id AND a.noun = 'pool' AND a.host_id = @host_id AND a.asked = 'assign';

-- name: PoolSecretSet :one
-- When and by whom the pool's secret was last set.
SELECT set_at, set_by FROM pool_secrets WHERE pool_id = @pool_id;

-- name: RenewPool :exec
-- Makes the pool's hosts set it up again; offline hosts do so when they are online again.
UPDATE pools SET generation = generation + 1 WHERE id = @id;
