-- name: LockHostSession :one
-- live: the host's agent reported in the last 20 seconds. With a longer report interval, a second agent may replace the
-- first for a moment; the hello of the first then finds the second live.
SELECT h.name, h.key_hash, s.*, COALESCE(s.session IS NOT NULL AND is_fresh(s.seen_at, interval '20 seconds'), false)::boolean AS live
FROM host_sessions s JOIN hosts h ON h.id = s.host_id
WHERE s.host_id = @host_id FOR UPDATE OF s;

-- name: OpenHostSession :one
UPDATE host_sessions
SET session = @session, number = number + 1, instance = @instance, fingerprint = @fingerprint, digest = '', report_seq = 0, powered_off_at = NULL,
    certificate_end = sqlc.narg(certificate_end)::timestamptz
WHERE host_id = @host_id
RETURNING number, now()::timestamptz AS now;

-- name: SetCertificateEnd :exec
UPDATE host_sessions SET certificate_end = @certificate_end::timestamptz WHERE host_id = @host_id;

-- name: NumberAnew :exec
-- Resets report numbers that are beyond the start of the agent's new session, as after a restore from a backup.
-- Otherwise the session's reports would be rejected.
WITH host AS (UPDATE hosts h SET report_seq = 0 WHERE h.id = @host_id AND h.report_seq >= @base),
     vm AS (UPDATE vms v SET report_seq = 0 WHERE v.host_id = @host_id AND v.report_seq >= @base)
UPDATE assignments a SET report_seq = 0 WHERE a.host_id = @host_id AND a.report_seq >= @base;

-- name: FlagConflict :exec
UPDATE host_sessions SET conflict = @conflict, conflict_at = now() WHERE host_id = @host_id;

-- name: AnnounceHost :exec
SELECT pg_notify('quantix', 'host:' || @host_id::text);

-- name: HasHostSession :one
SELECT EXISTS (SELECT 1 FROM host_sessions WHERE host_id = @host_id AND session = @session);

-- name: LockSessionOfHost :one
-- Locks the host's session until the transaction ends. Hello, join and removal of the host wait; heartbeats do not.
SELECT number FROM host_sessions WHERE host_id = @host_id AND session = @session FOR KEY SHARE;

-- name: Heartbeats :many
-- Stores heartbeats of many hosts. A host without a row in the result has another agent session. Rows are locked in one
-- order to avoid deadlocks between batches. A heartbeat counts from the time it was sent; its inventory time counts
-- only if its digest equals the stored one. The end of an offline period is recorded. report_interval is that of the
-- host's spec, 0 if it has none.
WITH beats AS (
    SELECT unnest(@host_ids::text[]) AS host_id, unnest(@sessions::bytea[]) AS session, unnest(@loads::text[])::jsonb AS load,
           unnest(@digests::text[]) AS digest, LEAST(now(), unnest(@sent::timestamptz[])) AS sent,
           make_interval(secs => unnest(@look_ages::float8[])) AS look_age
), mine AS (
    SELECT s.host_id, s.looked_at, s.fresh_for FROM host_sessions s WHERE s.host_id = ANY (@host_ids::text[]) ORDER BY s.host_id FOR NO KEY UPDATE
), told AS (
    UPDATE host_sessions s SET seen_at = LEAST(now(), GREATEST(s.seen_at, b.sent)), load = COALESCE(NULLIF(b.load, 'null'), s.load),
        last_look = CASE WHEN s.digest = b.digest THEN LEAST(now(), GREATEST(s.last_look, b.sent - b.look_age)) ELSE s.last_look END,
        fresh_for = make_interval(secs => 3 * h.report_interval)
    FROM mine m JOIN beats b ON b.host_id = m.host_id JOIN hosts h ON h.id = m.host_id
    WHERE s.host_id = m.host_id AND s.session = b.session
    RETURNING s.host_id, s.session, s.digest, m.looked_at + m.fresh_for AS valid_until, s.looked_at, COALESCE((h.spec->>'reportInterval')::integer, 0) AS report_interval, h.maintenance IS NOT NULL AS maintained
), silent AS (
    INSERT INTO host_silences (host_id, since, until)
    SELECT t.host_id, t.valid_until, t.looked_at FROM told t WHERE t.valid_until < t.looked_at ON CONFLICT DO NOTHING
)
SELECT t.host_id, t.session, t.digest, t.report_interval::integer AS report_interval, t.maintained::boolean AS maintained, now()::timestamptz AS now FROM told t;

-- name: BeginReport :one
-- Accepts a report only if its number belongs to the agent's session and is higher than the last report's number.
-- look_age is the time since the last successful inventory; NULL if there was none. sighted is set if the hypervisor is
-- reachable again. The end of an offline period is recorded. report_interval is that of the host's spec, 0 if it has
-- none.
WITH was AS (SELECT w.host_id, w.blind_since, w.looked_at, w.fresh_for FROM host_sessions w WHERE w.host_id = @host_id FOR NO KEY UPDATE), told AS (
    UPDATE host_sessions s SET seen_at = LEAST(now(), GREATEST(s.seen_at, @sent::timestamptz)), digest = @digest, report_seq = @seq,
        load = COALESCE(@load, s.load), last_look = LEAST(now(), GREATEST(s.last_look, LEAST(now(), @sent) - make_interval(secs => sqlc.narg(look_age)::float8))),
        blind_since = CASE WHEN NOT @connected::boolean THEN COALESCE(s.blind_since, now()) END,
        fresh_for = make_interval(secs => 3 * h.report_interval)
    FROM was JOIN hosts h ON h.id = was.host_id
    WHERE s.host_id = was.host_id AND s.session = @session AND s.number = @seq::bigint >> 32 AND s.report_seq < @seq
    RETURNING s.host_id, was.blind_since, was.looked_at + was.fresh_for AS valid_until, s.looked_at, COALESCE((h.spec->>'reportInterval')::integer, 0) AS report_interval, h.maintenance IS NOT NULL AS maintained
), silent AS (
    INSERT INTO host_silences (host_id, since, until)
    SELECT t.host_id, t.valid_until, t.looked_at FROM told t WHERE t.valid_until < t.looked_at ON CONFLICT DO NOTHING
)
SELECT now()::timestamptz AS now, t.report_interval::integer AS report_interval, t.maintained::boolean AS maintained, (t.blind_since IS NOT NULL AND @connected)::boolean AS sighted FROM told t;

-- name: ReportHost :exec
-- Stores the host's status. The freshness limit follows the settings of the agent in it.
WITH told AS (
    UPDATE hosts SET status = @status, report_seq = @seq
    WHERE id = @host_id AND report_seq < @seq AND status IS DISTINCT FROM @status
    RETURNING id, report_interval
)
UPDATE host_sessions s SET fresh_for = make_interval(secs => 3 * t.report_interval) FROM told t
WHERE s.host_id = t.id AND s.fresh_for <> make_interval(secs => 3 * t.report_interval);

-- name: ReportVMs :exec
UPDATE vms v
SET status = r.status, report_seq = @seq,
    observed_generation = GREATEST(v.observed_generation, LEAST(r.generation, v.generation))
FROM jsonb_to_recordset(@vms::jsonb) AS r (id text, generation bigint, status jsonb)
WHERE v.id = r.id AND v.host_id = @host_id AND v.report_seq < @seq
  AND (v.status IS DISTINCT FROM r.status OR v.observed_generation < LEAST(r.generation, v.generation));

-- name: VMsUnrecorded :many
-- VMs whose domain has a spec that the restored database does not know: a later generation, or another spec of the same
-- generation. VMs with an open job are omitted. VMs whose job failed or has just ended are omitted for five minutes.
SELECT v.id, v.project_id, v.name, v.generation
FROM jsonb_to_recordset(@vms::jsonb) AS r (id text, stamped bigint, "specHash" text) JOIN vms v ON v.id = r.id
WHERE v.host_id = @host_id AND v.report_seq <= @seq AND v.deleted_at IS NULL AND (v.elsewhere @> '[{"alarm": true}]') IS NOT TRUE
  AND (r.stamped > v.generation OR r.stamped = v.generation AND r."specHash" <> spec_hash(v.name, v.spec))
  AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.host_id = v.host_id AND j.subject = 'vm:' || v.id AND j.task_id IS NOT NULL
                  AND (j.state IN ('queued', 'running') OR j.ended_at > now() - interval '5 minutes' AND (j.state <> 'done'
                       OR j.kind = 'vm.apply' AND EXISTS (SELECT 1 FROM tasks t WHERE t.id = j.task_id AND t.user_id IS NULL AND t.created_by = 'Quantix'))));

-- name: ReportAbsentVMs :exec
-- A VM that is missing in a full report is absent on the host.
UPDATE vms SET status = jsonb_build_object('power', 'absent', 'cpus', 0, 'memoryMiB', 0), report_seq = @seq
WHERE host_id = @host_id AND report_seq < @seq AND observed_generation > 0 AND id <> ALL (@ids::text[])
  AND status->>'power' IS DISTINCT FROM 'absent';

-- name: DropDiscoveredVMs :exec
DELETE FROM found_vms WHERE host_id = @host_id AND id <> ALL (@ids::text[]);

-- name: ReportDiscoveredVMs :exec
INSERT INTO found_vms (host_id, id, name, status)
SELECT @host_id, r.id, r.name, r.status FROM jsonb_to_recordset(@found::jsonb) AS r (id text, name text, status jsonb)
ON CONFLICT (host_id, id) DO UPDATE SET name = EXCLUDED.name, status = EXCLUDED.status
WHERE found_vms.name <> EXCLUDED.name OR found_vms.status <> EXCLUDED.status;

-- name: ReportMeters :exec
-- Stores the meter values of running VMs: one row per host, with parallel arrays. The row also keeps the previous CPU
-- times, so that queries can compute the load since then.
INSERT INTO host_meters AS m (host_id, at, vm_ids, cpu_nanos, memory_bytes, read_bytes, write_bytes, receive_bytes, send_bytes)
SELECT r.host_id, now(), array_agg(r.vm_id), array_agg(r.cpu), array_agg(r.memory), array_agg(r.read), array_agg(r.write), array_agg(r.receive), array_agg(r.send)
FROM (SELECT unnest(@host_ids::text[]) AS host_id, unnest(@vm_ids::text[]) AS vm_id, unnest(@cpu_nanos::bigint[]) AS cpu, unnest(@memory_bytes::bigint[]) AS memory,
             unnest(@read_bytes::bigint[]) AS read, unnest(@write_bytes::bigint[]) AS write, unnest(@receive_bytes::bigint[]) AS receive,
             unnest(@send_bytes::bigint[]) AS send) r
GROUP BY r.host_id ORDER BY r.host_id
ON CONFLICT (host_id) DO UPDATE SET at = now(), vm_ids = EXCLUDED.vm_ids, cpu_nanos = EXCLUDED.cpu_nanos, memory_bytes = EXCLUDED.memory_bytes,
    read_bytes = EXCLUDED.read_bytes, write_bytes = EXCLUDED.write_bytes, receive_bytes = EXCLUDED.receive_bytes, send_bytes = EXCLUDED.send_bytes,
    before_at = m.at, before_ids = NULLIF(m.vm_ids, EXCLUDED.vm_ids), before_cpu = m.cpu_nanos;
