-- name: VolumesNamed :many
-- The volumes, given by pool and name, as reported by hosts with the pool active.
SELECT w.pool_id::text AS pool_id, w.volume::text AS volume, ph.host_id, v.volume::jsonb AS found
FROM (SELECT unnest(@pools::text[]) AS pool_id, unnest(@volumes::text[]) AS volume) w
JOIN assignments ph ON ph.pool_id = w.pool_id AND ph.asked = 'assign' AND ph.status->>'state' = 'active'
CROSS JOIN LATERAL jsonb_path_query_first(ph.status, '$.volumes[*] ? (@.name == $name)', jsonb_build_object('name', w.volume)) AS v (volume)
WHERE v.volume IS NOT NULL;

-- name: VolumeNameReserved :one
-- Whether the pool has or has had a volume of that name: a reported one, one being created, or a VM's disk.
SELECT (EXISTS (SELECT 1 FROM assignments ph WHERE ph.pool_id = @pool_id::text
               AND jsonb_path_exists(ph.status, '$.volumes[*] ? (@.name == $name)', jsonb_build_object('name', @volume::text)))
    OR EXISTS (SELECT 1 FROM volume_work w WHERE w.subject = 'volume:' || @pool_id || '/' || @volume)
    OR EXISTS (SELECT 1 FROM made_disks m WHERE m.pool_id = @pool_id AND m.volume = @volume)
    OR EXISTS (SELECT 1 FROM moves_in(@pool_id) m WHERE m.volume = @volume)
    OR (SELECT count(*) FROM vms v WHERE v.spec @> jsonb_build_object('disks', jsonb_build_array(jsonb_build_object('poolId', @pool_id, 'volume', @volume)))) > 0)::boolean
AS taken;

-- name: VolumeOwners :many
-- The VMs that have the volumes as disks, with their hosts: in a local pool, each host has its own volumes.
SELECT w.pool_id::text AS pool_id, w.volume::text AS volume, v.id, (v.name || in_bin(v.recycled_at))::text AS name, v.project_id, v.host_id,
       (v.spec @> jsonb_build_object('disks', jsonb_build_array(jsonb_build_object('poolId', w.pool_id, 'volume', w.volume, 'shareable', true))))::boolean AS shares
FROM (SELECT unnest(@pools::text[]) AS pool_id, unnest(@volumes::text[]) AS volume) w
JOIN vms v ON v.spec @> jsonb_build_object('disks', jsonb_build_array(jsonb_build_object('poolId', w.pool_id, 'volume', w.volume)));

-- name: VolumeSharers :many
-- The VMs that have the volume as a disk. shares is set if the VM allows sharing.
SELECT v.id, (v.name || in_bin(v.recycled_at))::text AS name, v.host_id,
       (v.spec @> jsonb_build_object('disks', jsonb_build_array(jsonb_build_object('poolId', @pool_id::text, 'volume', @volume::text, 'shareable', true))))::boolean AS shares
FROM vms v WHERE v.spec @> jsonb_build_object('disks', jsonb_build_array(jsonb_build_object('poolId', @pool_id, 'volume', @volume)))
ORDER BY shares, v.name LIMIT 256;

-- name: DiscoveredDisks :many
-- Files used by unmanaged VMs, with the pools that may contain them. Only pools assigned to the VM's host count.
SELECT ph.object_id AS pool_id, f.host_id, f.id, f.name, (d #>> '{}')::text AS path
FROM found_vms f CROSS JOIN LATERAL jsonb_path_query(f.status, '$.disks[*].path') AS d JOIN assignments ph ON ph.host_id = f.host_id
WHERE jsonb_path_query_array(f.status, '$.disks[*].path') ?| @paths::text[] AND d #>> '{}' = ANY (@paths::text[]) AND ph.pool_id = ANY (@pools::text[]);

-- name: DomainsNamed :many
-- Managed and unmanaged VMs, by the IDs of their domains on each host.
SELECT v.host_id, v.id, (v.name || in_bin(v.recycled_at))::text AS name, v.project_id, false AS found FROM vms v WHERE v.id = ANY (@ids::text[])
UNION ALL SELECT f.host_id, f.id, f.name, '', true FROM found_vms f WHERE f.id = ANY (@ids::text[]);

-- name: VolumeInUse :one
-- The uses of a volume according to VM specs and images.
SELECT volume_held(@pool_id::text, @volume::text, @host::text)::json;

-- name: VolumesAtWork :many
-- The open jobs on volumes of a pool, with the source volume of each.
SELECT w.subject, w.kind, w.host_id, w.state, COALESCE(w.args->'volume'->>'source', '')::text AS source FROM volume_work w WHERE w.pool_id = @pool_id::text
UNION ALL SELECT 'volume:' || @pool_id || '/' || m.volume, 'vm.disk.move', m.host_id, m.state, '' FROM moves_in(@pool_id) m;

-- name: VolumesToCome :many
-- The space that open jobs on volumes of these pools will need, by host.
SELECT w.host_id, w.pool_id::text AS pool_id, sum(COALESCE((w.args->'volume'->>'takesBytes')::bigint, 0))::bigint AS bytes
FROM volume_work w WHERE w.pool_id = ANY (@pools::text[])
GROUP BY 1, 2
UNION ALL SELECT m.host_id, p.id, m.takes FROM unnest(@pools::text[]) AS p (id) CROSS JOIN LATERAL moves_in(p.id) m WHERE m.takes > 0;

-- name: DrivesWith :many
-- VMs with the volumes in their drives, one per volume.
SELECT DISTINCT ON (w.pool_id, w.volume) w.pool_id::text AS pool_id, w.volume::text AS volume, v.id, (v.name || in_bin(v.recycled_at))::text AS name
FROM (SELECT unnest(@pools::text[]) AS pool_id, unnest(@volumes::text[]) AS volume) w
JOIN vms v ON spec_reads(v.spec, w.pool_id, w.volume) ORDER BY w.pool_id, w.volume, v.name;

-- name: DomainsOn :many
-- Works like DomainsNamed, without VMs that are reported as off.
SELECT v.id, (v.name || in_bin(v.recycled_at))::text AS name FROM vms v WHERE v.id = ANY (@ids::text[]) AND COALESCE(v.status->>'power', 'absent') NOT IN ('stopped', 'crashed', 'absent')
UNION ALL SELECT f.id, f.name FROM found_vms f WHERE f.id = ANY (@ids::text[]) AND COALESCE(f.status->>'power', '') NOT IN ('stopped', 'crashed');

-- name: VolumeNameInUse :one
-- Works like VolumeNameReserved, limited to one host's files in a local pool.
SELECT (EXISTS (SELECT 1 FROM assignments ph WHERE ph.pool_id = @pool_id::text AND (@host::text = '' OR ph.host_id = @host)
               AND jsonb_path_exists(ph.status, '$.volumes[*] ? (@.name == $name)', jsonb_build_object('name', @volume::text)))
    OR EXISTS (SELECT 1 FROM volume_work w WHERE w.subject = 'volume:' || @pool_id || '/' || @volume AND (@host = '' OR w.host_id = @host))
    OR EXISTS (SELECT 1 FROM moves_in(@pool_id) m WHERE m.volume = @volume)
    OR EXISTS (SELECT 1 FROM made_disks m WHERE m.pool_id = @pool_id AND m.volume = @volume)
    OR (SELECT count(*) FROM vms v WHERE v.spec @> jsonb_build_object('disks', jsonb_build_array(jsonb_build_object('poolId', @pool_id, 'volume', @volume)))) > 0)::boolean
AS taken;
