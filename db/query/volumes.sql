-- name: VolumesNamed :many
-- The named volumes as active hosts report them.
SELECT w.pool_id::text AS pool_id, w.volume::text AS volume, ph.host_id, v.volume::jsonb AS found
FROM (SELECT unnest(@pools::text[]) AS pool_id, unnest(@volumes::text[]) AS volume) w
JOIN assignments ph ON ph.pool_id = w.pool_id AND ph.asked = 'assign' AND ph.status->>'state' = 'active'
CROSS JOIN LATERAL jsonb_path_query_first(ph.status, '$.volumes[*] ? (@.name == $name)', jsonb_build_object('name', w.volume)) AS v (volume)
WHERE v.volume IS NOT NULL;

-- name: VolumeTaken :one
-- Whether a volume of that name is reported in the pool, or is or was a disk of a VM.
SELECT (EXISTS (SELECT 1 FROM assignments ph WHERE ph.pool_id = @pool_id::text
               AND jsonb_path_exists(ph.status, '$.volumes[*] ? (@.name == $name)', jsonb_build_object('name', @volume::text)))
    OR EXISTS (SELECT 1 FROM made_disks m WHERE m.pool_id = @pool_id AND m.volume = @volume)
    OR (SELECT count(*) FROM vms v WHERE v.spec @> jsonb_build_object('disks', jsonb_build_array(jsonb_build_object('poolId', @pool_id, 'volume', @volume)))) > 0)::boolean
AS taken;

-- name: VolumeOwners :many
-- The VMs whose disks the volumes are.
SELECT w.pool_id::text AS pool_id, w.volume::text AS volume, v.id, v.name, v.project_id
FROM (SELECT unnest(@pools::text[]) AS pool_id, unnest(@volumes::text[]) AS volume) w
JOIN vms v ON v.spec @> jsonb_build_object('disks', jsonb_build_array(jsonb_build_object('poolId', w.pool_id, 'volume', w.volume)));

-- name: FoundDisks :many
-- Those of the files that domains use which Quantix did not make, with the pools that they may be of: what a host says of a pool that it
-- has not been given counts for nothing.
SELECT ph.object_id AS pool_id, f.host_id, f.id, f.name, (d #>> '{}')::text AS path
FROM found_vms f CROSS JOIN LATERAL jsonb_path_query(f.status, '$.disks[*].path') AS d JOIN assignments ph ON ph.host_id = f.host_id
WHERE jsonb_path_query_array(f.status, '$.disks[*].path') ?| @paths::text[] AND d #>> '{}' = ANY (@paths::text[]) AND ph.pool_id = ANY (@pools::text[]);

-- name: DomainsNamed :many
-- VMs by the ids of their domains, each on its host: those of Quantix, and those that hosts have besides.
SELECT v.host_id, v.id, v.name, v.project_id, false AS found FROM vms v WHERE v.id = ANY (@ids::text[])
UNION ALL SELECT f.host_id, f.id, f.name, '', true FROM found_vms f WHERE f.id = ANY (@ids::text[]);
