-- name: MetricObjects :many
-- The VMs among these and the pools that belong to the hosts. A host's values of other VMs and pools are not stored.
SELECT 'vm' AS type, v.id::text AS object_id, v.host_id FROM vms v WHERE v.id = ANY (@vm_ids::text[]) AND v.host_id = ANY (@host_ids::text[])
UNION ALL
SELECT 'pool', a.pool_id, a.host_id FROM assignments a WHERE a.host_id = ANY (@host_ids::text[]) AND a.pool_id IS NOT NULL;

-- name: UseMetricLayout :one
-- The ID of a layout. It is added if the host has not used it yet.
INSERT INTO metric_layouts (host_id, hash, layout) VALUES (@host_id, @hash, @layout)
ON CONFLICT (host_id, hash) DO UPDATE SET used_at = now() RETURNING id;

-- name: AddMetricSamples :exec
-- The commit does not wait for the disk: a crash of PostgreSQL may lose the samples of the last second.
WITH lazy AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))
INSERT INTO metric_samples (host_id, at, seconds, layout_id, sample)
SELECT unnest(@host_ids::text[]), now(), unnest(@seconds::real[]), unnest(@layouts::bigint[]), unnest(@samples::bytea[]) FROM lazy
ON CONFLICT DO NOTHING;

-- name: RefuseMetrics :exec
-- Records why samples of a host were refused. A host that was deleted has no refusal.
INSERT INTO metric_refusals (host_id, reason) SELECT h.id, @reason FROM hosts h WHERE h.id = @host_id
ON CONFLICT (host_id) DO UPDATE SET at = now(), reason = EXCLUDED.reason;

-- name: MetricRefusal :one
-- Why samples of a host were refused within the last hour; empty: they were not.
SELECT COALESCE((SELECT r.reason FROM metric_refusals r WHERE r.host_id = @host_id AND r.at > now() - interval '1 hour'), '')::text AS reason;

-- name: MetricSamples :many
-- The samples of hosts after a time, up to and including another.
SELECT host_id, at, seconds, layout_id, sample FROM metric_samples
WHERE host_id = ANY (@host_ids::text[]) AND at > @from_time AND at <= @to_time ORDER BY host_id, at;

-- name: MetricLayouts :many
SELECT id, layout FROM metric_layouts WHERE id = ANY (@ids::bigint[]);

-- name: NextMetricHost :one
-- The next host after one, by ID, with samples of a time; empty: none.
SELECT COALESCE((SELECT s.host_id FROM metric_samples s WHERE s.host_id > @after AND s.at > @from_time AND s.at <= @to_time ORDER BY s.host_id LIMIT 1), '')::text AS host_id;

-- name: MetricChunksOf :many
-- The chunks of an object that begin in a time, from some hosts, or from all hosts if none is given.
SELECT start, host_id, chunk FROM metric_chunks
WHERE tier = @tier AND type = @type AND object_id = @object_id AND start >= @from_time AND start < @to_time
  AND (COALESCE(cardinality(@host_ids::text[]), 0) = 0 OR host_id = ANY (@host_ids::text[])) ORDER BY start, host_id;

-- name: MetricChunksOfMany :many
-- All chunks of some objects that begin in a time. The objects are the next ones after the type and ID.
WITH objects AS (
    SELECT DISTINCT c.type, c.object_id FROM metric_chunks c
    WHERE c.tier = @tier AND c.start >= @from_time AND c.start < @to_time AND (c.type, c.object_id) > (@after_type::text, @after_id::text)
    ORDER BY c.type, c.object_id LIMIT @max_objects
)
SELECT c.type, c.object_id, c.start, c.host_id, c.chunk FROM objects o JOIN metric_chunks c USING (type, object_id)
WHERE c.tier = @tier AND c.start >= @from_time AND c.start < @to_time ORDER BY c.type, c.object_id, c.host_id, c.start;

-- name: AddMetricChunks :exec
INSERT INTO metric_chunks (tier, type, object_id, start, host_id, chunk)
SELECT @tier, unnest(@types::text[]), unnest(@object_ids::text[]), @start, unnest(@host_ids::text[]), unnest(@chunks::bytea[])
ON CONFLICT DO NOTHING;

-- name: MetricPeriods :many
-- The recorded periods of a tier.
SELECT start, after, complete FROM metric_periods WHERE tier = @tier AND start >= @from_time;

-- name: SetMetricPeriod :exec
INSERT INTO metric_periods (tier, start, after, complete) VALUES (@tier, @start, @after, @complete)
ON CONFLICT (tier, start) DO UPDATE SET after = EXCLUDED.after, complete = EXCLUDED.complete;

-- name: HostsOfVM :many
-- The VM's host, and the hosts that it left after a time.
SELECT v.host_id::text FROM vms v WHERE v.id = @vm_id AND v.host_id IS NOT NULL
UNION
SELECT m.host_id FROM metric_moves m WHERE m.vm_id = @vm_id AND m.at > @from_time;

-- name: KeepMetrics :exec
-- Creates the next partitions and drops what is older than its tier is kept. It waits for writers for at most a second.
WITH patience AS MATERIALIZED (SELECT set_config('lock_timeout', '1s', true))
SELECT keep_metrics(@samples::interval, @hours::interval, @days::interval, @months::interval) FROM patience;

-- name: NewestMetricSamples :many
-- The newest sample of each online host after a time.
SELECT h.id AS host_id, s.layout_id, s.sample FROM hosts h
JOIN host_sessions c ON c.host_id = h.id AND is_fresh(c.looked_at, c.fresh_for)
CROSS JOIN LATERAL (SELECT m.layout_id, m.sample FROM metric_samples m WHERE m.host_id = h.id AND m.at > @from_time ORDER BY m.at DESC LIMIT 1) s;

-- name: ProjectsOfVMs :many
-- The project and the host of each VM.
SELECT id, project_id, host_id FROM vms WHERE deleted_at IS NULL;

-- name: NamesOfVMs :many
-- The names of the VMs among these that an actor with access to some projects sees.
SELECT id, name FROM vms WHERE id = ANY (@ids::text[]) AND deleted_at IS NULL AND (@all_projects::boolean OR project_id = ANY (@projects::text[]));

-- name: HostsOfVMs :many
-- The hosts of the VMs among these that an actor with access to some projects sees.
SELECT id, host_id::text AS host_id FROM vms
WHERE id = ANY (@ids::text[]) AND host_id IS NOT NULL AND deleted_at IS NULL AND (@all_projects::boolean OR project_id = ANY (@projects::text[]));

-- name: NamesOfHosts :many
SELECT id, name FROM hosts WHERE id = ANY (@ids::text[]);

-- name: PoolsToPredict :many
-- Pools on online hosts whose prediction is missing or older than an hour, the oldest ones first. A shared pool is predicted
-- from the values of one host.
SELECT a.pool_id::text AS pool_id, a.host_id FROM (
    SELECT b.pool_id, b.host_id, COALESCE((p.spec->>'shared')::boolean, false) AS shared, row_number() OVER (PARTITION BY b.pool_id ORDER BY b.host_id) AS n
    FROM assignments b JOIN pools p ON p.id = b.pool_id JOIN host_sessions s ON s.host_id = b.host_id
    WHERE b.asked = 'assign' AND p.deleted_at IS NULL AND is_fresh(s.looked_at, s.fresh_for)
) a LEFT JOIN pool_predictions f ON f.pool_id = a.pool_id AND f.host_id = a.host_id
WHERE (a.n = 1 OR NOT a.shared) AND (f.predicted_at IS NULL OR f.predicted_at < now() - interval '1 hour')
ORDER BY f.predicted_at NULLS FIRST, a.pool_id, a.host_id LIMIT @most;

-- name: SetPoolPredictions :exec
-- The zero time: no prediction.
INSERT INTO pool_predictions (pool_id, host_id, full_at, growth, days)
SELECT f.pool_id, f.host_id, NULLIF(f.full_at, '0001-01-01 00:00:00+00'), f.growth, f.days
FROM (SELECT unnest(@pool_ids::text[]) AS pool_id, unnest(@host_ids::text[]) AS host_id, unnest(@full_at::timestamptz[]) AS full_at,
             unnest(@growths::text[]) AS growth, unnest(@days::integer[]) AS days) f
WHERE EXISTS (SELECT 1 FROM pools p WHERE p.id = f.pool_id) AND EXISTS (SELECT 1 FROM hosts h WHERE h.id = f.host_id)
ON CONFLICT (pool_id, host_id) DO UPDATE SET full_at = EXCLUDED.full_at, growth = EXCLUDED.growth, days = EXCLUDED.days, predicted_at = now();

-- name: PoolGrowth :one
-- The prediction of the host where a pool will be full first, and the number of hosts with predictions. Of a shared pool it
-- is the newest prediction of any host. Without a prediction there is no row.
SELECT f.growth, f.full_at, f.days, f.predicted_at, h.name AS host_name, (count(*) OVER ())::int AS hosts, COALESCE((p.spec->>'shared')::boolean, false)::boolean AS shared,
       (f.predicted_at > now() - interval '3 hours' AND COALESCE(is_fresh(s.looked_at, s.fresh_for), false))::boolean AS fresh
FROM pool_predictions f JOIN pools p ON p.id = f.pool_id JOIN hosts h ON h.id = f.host_id
JOIN assignments a ON a.pool_id = f.pool_id AND a.host_id = f.host_id AND a.asked = 'assign'
LEFT JOIN host_sessions s ON s.host_id = f.host_id
WHERE f.pool_id = @pool_id AND f.growth <> ''
ORDER BY CASE WHEN (p.spec->>'shared')::boolean THEN f.predicted_at END DESC NULLS LAST, f.full_at NULLS LAST,
         array_position(ARRAY['slowly', 'not', 'few', 'stale'], f.growth), f.predicted_at DESC LIMIT 1;

-- name: NewestSumTime :one
-- The time of the newest sample of the sums over hosts, at least a minute ago, and the time now.
SELECT COALESCE(max(s.at), now() - interval '1 minute')::timestamptz AS newest, now()::timestamptz AS now
FROM metric_samples s WHERE s.host_id = @host_id AND s.at > now() - interval '1 minute';

-- name: NewestHostSamples :many
-- All hosts, and of online hosts the start of the newest sample after a time, which has the values of the host.
SELECT h.cluster_id, h.threads, COALESCE(s.layout_id, 0)::bigint AS layout_id, COALESCE(s.start, '')::bytea AS start
FROM hosts h LEFT JOIN host_sessions c ON c.host_id = h.id AND is_fresh(c.looked_at, c.fresh_for)
LEFT JOIN LATERAL (
    SELECT m.layout_id, substring(m.sample FOR @most_bytes::int) AS start FROM metric_samples m
    WHERE m.host_id = c.host_id AND m.at > @from_time ORDER BY m.at DESC LIMIT 1
) s ON true;

-- name: RecentSamples :many
-- The newest sample of some hosts in each slot of a time. Slots have a length, and are given by their starts.
SELECT h.host_id::text AS host_id, n.begins::timestamptz AS begins, s.layout_id, substring(s.sample FOR @most_bytes::integer)::bytea AS sample
FROM (SELECT unnest(@host_ids::text[]) AS host_id) h CROSS JOIN (SELECT unnest(@starts::timestamptz[]) AS begins) n
CROSS JOIN LATERAL (
    SELECT m.layout_id, m.sample FROM metric_samples m WHERE m.host_id = h.host_id AND m.at > n.begins AND m.at <= n.begins + @length::interval ORDER BY m.at DESC LIMIT 1
) s;

-- name: ExposedHosts :many
-- All hosts, for Prometheus. online: a fresh report exists.
SELECT h.id, h.name, cl.name AS cluster, COALESCE(h.status->>'agentVersion', '')::text AS agent_version, h.maintained <> '' AS in_maintenance,
       COALESCE(is_fresh(s.looked_at, s.fresh_for), false)::boolean AS online
FROM hosts h JOIN clusters cl ON cl.id = h.cluster_id LEFT JOIN host_sessions s ON s.host_id = h.id ORDER BY h.name;

-- name: ExposedVMs :many
-- All VMs, for Prometheus.
SELECT v.id, v.name, v.project_id, v.host_id, v.cpus, COALESCE(v.status->>'power', '')::text AS power FROM vms v WHERE v.deleted_at IS NULL ORDER BY v.id;

-- name: ExposedProjects :many
SELECT id, name FROM projects;

-- name: ExposedPools :many
SELECT id, name, COALESCE(spec->>'kind', '')::text AS kind, COALESCE((spec->>'shared')::boolean, false)::boolean AS shared FROM pools WHERE deleted_at IS NULL ORDER BY name;

-- name: CountOpenAlarms :many
-- Open alarms without silenced ones, by severity.
SELECT severity, count(*) AS n FROM alarms WHERE cleared_at IS NULL AND raised_at IS NOT NULL AND NOT COALESCE(silenced_until > now(), false) GROUP BY severity;

-- name: CountOpenTasks :many
SELECT state, count(*) AS n FROM tasks WHERE state IN ('queued', 'running') GROUP BY state;
