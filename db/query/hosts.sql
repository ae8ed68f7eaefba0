-- name: GetHost :one
SELECT sqlc.embed(h), sqlc.embed(cl), s.seen_at, s.looked_at, s.fresh_for, s.load, COALESCE(s.conflict, '')::text AS conflict, now()::timestamptz AS now,
       c.vms::bigint AS vms, c.leaving::bigint AS leaving, c.cpus::bigint AS cpus, c.memory_mib::bigint AS memory_mib,
       COALESCE(d.vms, 0)::bigint AS discovered_vms, COALESCE(d.mib, 0)::bigint AS discovered_mib, COALESCE(d.cpus, 0)::bigint AS discovered_cpus
FROM hosts h JOIN clusters cl ON cl.id = h.cluster_id LEFT JOIN host_sessions s ON s.host_id = h.id LEFT JOIN discovered_usage d ON d.host_id = h.id
CROSS JOIN LATERAL (SELECT count(*) AS vms, count(*) FILTER (WHERE v.deleted_at IS NOT NULL) AS leaving, COALESCE(sum(v.cpus), 0) AS cpus, COALESCE(sum(v.memory_mib), 0) AS memory_mib FROM vms v WHERE v.host_id = h.id AND v.heard <> 'recycled') c
WHERE h.id = @id;

-- name: HostReapplies :one
-- Whether the host's agent can reapply single fields of a VM, pools and networks.
SELECT COALESCE((status->'inventory'->>'reapplies')::boolean, false)::boolean FROM hosts WHERE id = @id;

-- name: LockHost :one
SELECT * FROM hosts WHERE id = @id FOR UPDATE;

-- name: ChangeHost :exec
UPDATE hosts SET spec = @spec, generation = generation + 1 WHERE id = @id;

-- name: HostsWithoutStorageRole :many
SELECT name FROM hosts WHERE id = ANY (@ids::text[]) AND spec->'roles'->>'storage' = 'false' ORDER BY name;

-- name: VMsOnHost :many
-- The first few VMs that prevent the removal of a host.
SELECT name FROM vms WHERE host_id = @host_id AND recycled_at IS NULL ORDER BY deleted_at IS NOT NULL, name LIMIT 4;

-- name: ForgetVMs :exec
-- Deletes VMs whose deletion the host has not confirmed: see RecycledOnHost.
DELETE FROM vms WHERE host_id = @host_id AND deleted_at IS NOT NULL;

-- name: DropHost :exec
DELETE FROM hosts WHERE id = @id;

-- name: ClearConflict :execrows
UPDATE host_sessions SET conflict = '', conflict_at = NULL WHERE host_id = @host_id AND conflict <> '';

-- name: Candidates :many
-- The data that placement needs about one host, or about all hosts if @host is empty; only those of the cluster unless
-- @cluster is empty. missing_features are those for @model, or with @use_baseline for the baseline of the host's cluster;
-- NULL if the host supports the model.
SELECT h.id, h.name, h.spec, h.labels, h.maintenance, sqlc.embed(cl), s.seen_at, s.looked_at, s.fresh_for, COALESCE(s.conflict, '')::text AS conflict, now()::timestamptz AS now,
       (h.status IS NOT NULL)::boolean AS reported, COALESCE((h.status->>'connected')::boolean, false)::boolean AS connected,
       COALESCE(h.status->>'error', '')::text AS error,
       COALESCE((h.status->'inventory'->>'memoryBytes')::bigint, 0)::bigint AS memory_bytes,
       COALESCE((h.status->'inventory'->'cpu'->>'threads')::bigint, 0)::bigint AS processors,
       missing_cpu_features(h.status, CASE WHEN @use_baseline::boolean THEN COALESCE(cl.spec->>'cpuModel', '') ELSE @model::text END)::text[] AS missing_features,
       ARRAY(SELECT f #>> '{}' FROM jsonb_path_query(h.status, '$.inventory.firmwares[*] ? (@ != null)') AS f)::text[] AS firmwares,
       ARRAY(SELECT f #>> '{}' FROM jsonb_path_query(h.status, '$.inventory.vmFields[*] ? (@ != null)') AS f)::text[] AS vm_fields,
       COALESCE(h.status->'inventory'->'vmGaps', '[]')::jsonb AS vm_gaps, COALESCE(h.status->'inventory'->'hugePages', '[]')::jsonb AS huge_pages,
       ARRAY(SELECT n.kind || ':' || n.name FROM assignments nh JOIN networks n ON n.id = nh.network_id
             WHERE nh.host_id = h.id AND nh.status->>'active' = 'true' AND (n.spec IS NULL OR n.spec @> '{"adopted": true}' OR nh.asked = 'assign' AND NOT nh.status ? 'foreign'))::text[] AS networks,
       COALESCE((SELECT jsonb_object_agg(ph.pool_id, jsonb_build_object(
                     'assigned', ph.asked = 'assign', 'state', COALESCE(ph.status->>'state', 'pending'), 'error', COALESCE(ph.status->>'error', ''),
                     'capacityBytes', COALESCE((ph.status->>'capacityBytes')::bigint, 0),
                     'freeBytes', COALESCE((ph.status->>'availableBytes')::bigint, 0) - COALESCE((ph.status->>'provisionedBytes')::bigint, 0)))
                 FROM assignments ph WHERE ph.host_id = h.id AND ph.pool_id = ANY (@pools::text[])), '{}')::jsonb AS pools
FROM hosts h JOIN clusters cl ON cl.id = h.cluster_id LEFT JOIN host_sessions s ON s.host_id = h.id
WHERE (@host::text = '' OR h.id = @host) AND (@cluster::text = '' OR h.cluster_id = @cluster)
ORDER BY h.name;

-- name: MigrationSupport :many
-- What the agents of @host and of @sources, or of all hosts if @host is empty, can do in migrations. A host that has not
-- reported yet gets no blame for its agent; its lack of a report is a fault of placement.
SELECT h.id, h.name,
       COALESCE((h.status->'inventory'->>'migratesLive')::boolean, h.status IS NULL)::boolean AS migrates_live,
       COALESCE((h.status->'inventory'->>'receivesFirmware')::boolean, false)::boolean AS receives_firmware,
       COALESCE((h.status->'inventory'->>'receivesDefinitions')::boolean, false)::boolean AS receives_definitions
FROM hosts h WHERE @host::text = '' OR h.id = @host OR h.id = ANY (@sources::text[]);

-- name: CPUModelSets :many
-- The distinct lists of CPU models available to guests, with the number of hosts that report each; null if a host
-- reports none.
SELECT COALESCE(h.status->'inventory'->'cpuModels', 'null')::jsonb AS models, count(*) AS hosts FROM hosts h WHERE h.status IS NOT NULL GROUP BY 1;

-- name: LockHostDevices :exec
-- Serializes assignments of host devices to VMs.
SELECT pg_advisory_xact_lock(hashtextextended('devices of hosts', 0));

-- name: HostDevicesOn :many
-- Host devices of one host, or of all hosts if @host is empty, each with the VM that has it. If several VMs share a
-- device, the first by name is returned. A disk with the same name on two hosts is one disk that both can reach.
SELECT h.id AS host_id, d.device::text AS device, COALESCE(d.iommu, '')::text AS iommu, COALESCE(d.busy, '')::text AS busy, COALESCE(v.name || in_bin(v.recycled_at), '')::text AS vm, COALESCE(v.id, '')::text AS vm_id,
    COALESCE(v.n, 0)::bigint AS vms, COALESCE(d.most, 0)::bigint AS most
FROM hosts h
CROSS JOIN LATERAL jsonb_to_recordset(CASE jsonb_typeof(h.status->'inventory'->'devices') WHEN 'array' THEN h.status->'inventory'->'devices' ELSE '[]' END) AS d (device text, iommu text, busy text, most bigint)
LEFT JOIN LATERAL (SELECT v.id, v.name, v.recycled_at, count(*) OVER () AS n FROM (
    SELECT v.id, v.name, v.recycled_at FROM vms v WHERE v.spec @> jsonb_build_object('hostDevices', jsonb_build_array(CASE WHEN d.device LIKE 'blk/%'
        THEN jsonb_build_object('device', d.device) ELSE jsonb_build_object('hostId', h.id, 'device', d.device) END))
    UNION SELECT v.id, v.name, v.recycled_at FROM device_uses a JOIN vms v ON v.id = a.vm_id WHERE a.host_id = h.id AND a.device = d.device) v
    ORDER BY v.name LIMIT 1) v ON true
WHERE (@host::text = '' OR h.id = @host) AND (d.device = ANY (@devices::text[]) OR @every::boolean);

-- name: DisksToCome :many
-- The space that disks not yet created or grown will need in these pools. A disk without a size is as large as its
-- image.
SELECT v.host_id, (d->>'poolId')::text AS pool_id, sum(GREATEST((d->>'sizeBytes')::bigint, i.capacity_bytes, 0))::bigint AS bytes
FROM vms v, jsonb_array_elements(v.spec->'disks') d LEFT JOIN image_versions i ON i.id = d->>'versionId'
WHERE (v.generation > v.observed_generation OR v.deleted_at IS NOT NULL) AND d->>'poolId' = ANY (@pools::text[]) AND (v.observed_generation = 0
    OR v.deleted_at IS NULL AND NOT EXISTS (SELECT 1 FROM made_disks m WHERE m.pool_id = d->>'poolId' AND m.volume = d->>'volume'))
GROUP BY 1, 2
UNION ALL SELECT v.host_id, (d->>'poolId')::text, sum(GREATEST((d->>'sizeBytes')::bigint - (s->>'sizeBytes')::bigint, 0))::bigint
FROM vms v, jsonb_array_elements(v.spec->'disks') d, jsonb_path_query(v.status, '$.disks[*] ? (@.sizeBytes > 0)') s
WHERE (v.generation > v.observed_generation OR v.deleted_at IS NOT NULL) AND v.observed_generation > 0 AND v.deleted_at IS NULL
  AND d->>'poolId' = ANY (@pools::text[]) AND s->'volume' @> jsonb_build_object('poolId', d->'poolId', 'volume', d->'volume')
GROUP BY 1, 2;

-- name: Committed :many
-- Memory in MiB and vCPUs of each host's VMs, and, in other rows, of the VMs that are migrating to the host and of the
-- running discovered VMs; for one host, or for all hosts if @host is empty.
SELECT host_id, sum(memory_mib)::bigint AS mib, sum(cpus)::bigint AS cpus, 0::bigint AS discovered_mib, 0::bigint AS discovered_cpus FROM vms WHERE host_id = @host::text AND heard <> 'recycled' GROUP BY host_id
UNION ALL SELECT host_id, sum(memory_mib)::bigint, sum(cpus)::bigint, 0, 0 FROM vms WHERE @host = '' AND heard <> 'recycled' GROUP BY host_id
UNION ALL SELECT d.host_id, 0, 0, d.mib, d.cpus FROM discovered_usage d WHERE @host = '' OR d.host_id = @host
UNION ALL SELECT j.args->'migrate'->>'to', sum(v.memory_mib)::bigint, sum(v.cpus)::bigint, 0, 0 FROM jobs j JOIN vms v ON v.id = substr(j.subject, 4)
    WHERE j.kind = 'vm.migrate' AND j.state IN ('queued', 'running') AND j.args->'migrate'->>'to' <> v.host_id AND (@host = '' OR j.args->'migrate'->>'to' = @host) GROUP BY 1;

-- name: HostForStart :one
-- The host's capacity, the memory in MiB and vCPUs of its running VMs but @vm, and those of its running discovered VMs.
-- VMs with a requested start count as running.
SELECT h.name, h.spec, cl.spec AS cluster_spec, COALESCE(h.threads, 0)::bigint AS threads, COALESCE(h.memory_bytes, 0)::bigint AS memory_bytes,
       c.mib::bigint AS mib, c.cpus::bigint AS cpus, COALESCE(d.mib, 0)::bigint AS discovered_mib, COALESCE(d.cpus, 0)::bigint AS discovered_cpus
FROM hosts h JOIN clusters cl ON cl.id = h.cluster_id LEFT JOIN discovered_usage d ON d.host_id = h.id
CROSS JOIN LATERAL (
    SELECT COALESCE(sum(v.memory_mib), 0) AS mib, COALESCE(sum(v.cpus), 0) AS cpus FROM vms v
    WHERE v.host_id = h.id AND v.id <> @vm AND (v.spec->>'power' <> 'stopped' OR COALESCE(v.status->>'power', 'stopped') IN ('running', 'paused'))) c
WHERE h.id = @id;

-- name: ReservedCPU :many
-- Reserved CPU per host, in percent of one processor: of its VMs in any power state, and of VMs migrating to it. For
-- one host, or for all hosts if @host is empty.
SELECT r.host_id::text AS host_id, sum(r.percent)::bigint AS percent FROM (
    SELECT v.host_id, v.cpus * (v.spec->'cpu'->>'reserved')::bigint AS percent FROM vms v WHERE v.spec->'cpu' ? 'reserved' AND v.recycled_at IS NULL
    UNION ALL SELECT j.args->'migrate'->>'to', v.cpus * (v.spec->'cpu'->>'reserved')::bigint FROM jobs j JOIN vms v ON v.id = substr(j.subject, 4)
    WHERE j.kind = 'vm.migrate' AND j.state IN ('queued', 'running') AND v.spec->'cpu' ? 'reserved' AND j.args->'migrate'->>'to' <> v.host_id
) r WHERE @host::text = '' OR r.host_id = @host GROUP BY 1;

-- name: LockMemory :exec
-- Serializes reservations of a host's memory and processors.
SELECT pg_advisory_xact_lock(hashtextextended('memory ' || @host::text, 0));
