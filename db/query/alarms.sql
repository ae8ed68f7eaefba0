-- name: AddAlarmRule :exec
INSERT INTO alarm_rules (id, name, spec) VALUES (@id, @name, @spec);

-- name: AddDefaultAlarmRules :exec
-- Adds default rules that were never added. A rule whose name a user has taken is left out.
WITH new AS (
    INSERT INTO alarm_defaults (builtin) SELECT unnest(@builtins::text[]) ON CONFLICT DO NOTHING RETURNING builtin
)
INSERT INTO alarm_rules (id, name, builtin, spec)
SELECT r.id, r.name, r.builtin, r.spec FROM (SELECT unnest(@ids::text[]) AS id, unnest(@names::text[]) AS name, unnest(@builtins::text[]) AS builtin, unnest(@specs::text[])::jsonb AS spec) r
JOIN new ON new.builtin = r.builtin ON CONFLICT DO NOTHING;

-- name: CountAlarmDefaults :one
SELECT count(*)::bigint FROM alarm_defaults WHERE builtin = ANY (@builtins::text[]);

-- name: LockAlarmRuleList :exec
-- Serializes additions, so that each counts the previous ones.
SELECT pg_advisory_xact_lock(hashtextextended('alarm rules', 0));

-- name: CountAlarmRules :one
SELECT count(*)::bigint FROM alarm_rules;

-- name: AllAlarmRules :many
SELECT * FROM alarm_rules ORDER BY name;

-- name: LockAlarmRule :one
SELECT * FROM alarm_rules WHERE id = @id FOR UPDATE;

-- name: ChangeAlarmRule :exec
UPDATE alarm_rules SET name = @name, spec = @spec, generation = generation + 1 WHERE id = @id;

-- name: DeleteAlarmRule :exec
DELETE FROM alarm_rules WHERE id = @id;

-- name: MarkAlarmEvaluation :one
-- The time, and the seconds since the previous evaluation; 0: there was none.
WITH was AS (SELECT at FROM alarm_evaluation), mark AS (
    INSERT INTO alarm_evaluation (at) VALUES (now()) ON CONFLICT (only_row) DO UPDATE SET at = now()
)
SELECT now()::timestamptz AS at, COALESCE(EXTRACT(EPOCH FROM now() - (SELECT was.at FROM was)), 0)::float8 AS seconds;

-- name: OpenAlarms :many
-- The open alarms and pending conditions of all rules. stale: no fresh report of the object exists.
SELECT a.id, a.rule_id, a.subject, a.host_id, a.cause, a.severity, a.text, a.remedy, a.value, a.count, a.since, a.raised_at, a.clear_since,
    (CASE split_part(a.subject, ':', 1)
        WHEN 'vm' THEN EXISTS (SELECT 1 FROM vms v WHERE v.id = split_part(a.subject, ':', 2) AND NOT EXISTS (SELECT 1 FROM host_sessions s WHERE s.host_id = v.host_id AND is_fresh(s.looked_at, s.fresh_for)))
        WHEN 'host' THEN EXISTS (SELECT 1 FROM hosts h WHERE h.id = split_part(a.subject, ':', 2) AND NOT EXISTS (SELECT 1 FROM host_sessions s WHERE s.host_id = h.id AND is_fresh(s.looked_at, s.fresh_for)))
        ELSE EXISTS (SELECT 1 FROM assignments b WHERE b.object_id = split_part(a.subject, ':', 2) AND (a.host_id = '' OR b.host_id = a.host_id))
            AND NOT EXISTS (SELECT 1 FROM assignments b JOIN host_sessions s ON s.host_id = b.host_id
                WHERE b.object_id = split_part(a.subject, ':', 2) AND (a.host_id = '' OR b.host_id = a.host_id) AND is_fresh(s.looked_at, s.fresh_for))
    END)::boolean AS stale
FROM alarms a WHERE a.cleared_at IS NULL ORDER BY a.rule_id, a.id;

-- name: AddAlarms :exec
WITH new AS (
    INSERT INTO alarms (id, rule_id, subject, subject_name, project_id, host_id, cause, severity, text, plain, remedy, value, count, raised_at)
    SELECT f.id, @rule_id, f.subject, f.subject_name, NULLIF(f.project_id, ''), f.host_id, f.cause, f.severity, f.text, f.plain, f.remedy, NULLIF(f.value, 'NaN'), f.count, CASE WHEN f.raised THEN now() END
    FROM (SELECT unnest(@ids::text[]) AS id, unnest(@subjects::text[]) AS subject, unnest(@names::text[]) AS subject_name, unnest(@projects::text[]) AS project_id, unnest(@hosts::text[]) AS host_id, unnest(@causes::text[]) AS cause, unnest(@severities::text[]) AS severity, unnest(@texts::text[]) AS text, unnest(@plain::text[]) AS plain, unnest(@remedies::text[]) AS remedy, unnest(@values::float8[]) AS value, unnest(@counts::bigint[]) AS count, unnest(@raised::boolean[]) AS raised) f
    WHERE f.project_id = '' OR EXISTS (SELECT 1 FROM projects p WHERE p.id = f.project_id)
    ON CONFLICT DO NOTHING RETURNING id, raised_at, text
)
INSERT INTO alarm_events (alarm_id, kind, text) SELECT new.id, 'raised', new.text FROM new WHERE new.raised_at IS NOT NULL ORDER BY new.id;

-- name: UpdateAlarms :exec
WITH changed AS (
    UPDATE alarms a SET severity = f.severity, text = f.text, remedy = f.remedy, value = NULLIF(f.value, 'NaN'), count = f.count,
        since = f.since, raised_at = NULLIF(f.raised_at, '0001-01-01 00:00:00+00'), clear_since = NULLIF(f.clear_since, '0001-01-01 00:00:00+00')
    FROM (SELECT unnest(@ids::text[]) AS id, unnest(@severities::text[]) AS severity, unnest(@texts::text[]) AS text, unnest(@remedies::text[]) AS remedy, unnest(@values::float8[]) AS value, unnest(@counts::bigint[]) AS count, unnest(@since::timestamptz[]) AS since, unnest(@raised_at::timestamptz[]) AS raised_at, unnest(@clear_since::timestamptz[]) AS clear_since, unnest(@kinds::text[]) AS kind) f
    WHERE a.id = f.id AND a.cleared_at IS NULL RETURNING a.id, f.kind, a.text
)
INSERT INTO alarm_events (alarm_id, kind, text) SELECT c.id, c.kind, c.text FROM changed c WHERE c.kind <> '' ORDER BY c.id;

-- name: ClearAlarms :exec
WITH cleared AS (
    UPDATE alarms SET cleared_at = now() WHERE id = ANY (@ids::text[]) AND cleared_at IS NULL RETURNING id
)
INSERT INTO alarm_events (alarm_id, kind) SELECT id, 'cleared' FROM cleared ORDER BY id;

-- name: ForgetAlarms :exec
DELETE FROM alarms WHERE id = ANY (@ids::text[]) AND raised_at IS NULL;

-- name: FindAlarms :many
-- The open alarms of a group that the actor may see, or one alarm; locked.
SELECT id FROM alarms WHERE cleared_at IS NULL AND raised_at IS NOT NULL
  AND (id = @id::text OR rule_id = @rule_id::text AND (cause = @cause::text OR plain = @cause))
  AND (@all_projects::boolean OR project_id = ANY (@projects::text[]))
ORDER BY id FOR UPDATE;

-- name: AcknowledgeAlarms :exec
WITH changed AS (
    UPDATE alarms SET acknowledged_at = now(), acknowledged_by = @actor, note = @note WHERE id = ANY (@ids::text[]) RETURNING id
)
INSERT INTO alarm_events (alarm_id, kind, actor, text) SELECT id, 'acknowledged', @actor, @note FROM changed ORDER BY id;

-- name: SilenceAlarms :exec
-- until NULL: ends the silence.
WITH changed AS (
    UPDATE alarms SET silenced_until = sqlc.narg(until)::timestamptz WHERE id = ANY (@ids::text[]) RETURNING id
)
INSERT INTO alarm_events (alarm_id, kind, actor, text)
SELECT id, CASE WHEN sqlc.narg(until)::timestamptz IS NULL THEN 'unsilenced' ELSE 'silenced' END, @actor, @text FROM changed ORDER BY id;

-- name: AlarmEvents :many
SELECT * FROM alarm_events WHERE alarm_id = @alarm_id ORDER BY id DESC LIMIT 200;

-- name: SweepAlarms :execrows
-- Deletes alarms that were cleared long ago.
DELETE FROM alarms WHERE id IN (SELECT a.id FROM alarms a WHERE a.cleared_at < now() - @age::interval ORDER BY a.cleared_at LIMIT @most);

-- name: FailedTaskGroups :many
-- Failures of the last hour per object and kind, unless a later task of the kind on the object has succeeded.
SELECT t.subject, t.kind, (array_agg(t.subject_name ORDER BY t.ended_at DESC))[1]::text AS name, (array_agg(t.error ORDER BY t.ended_at DESC))[1]::text AS error,
    (array_agg(t.state ORDER BY t.ended_at DESC))[1]::text AS state, (array_agg(COALESCE(t.project_id, '') ORDER BY t.ended_at DESC))[1]::text AS project, count(*)::bigint AS failures,
    (array_agg(COALESCE(h.name, '') ORDER BY t.ended_at DESC))[1]::text AS host
FROM tasks t LEFT JOIN hosts h ON h.id = t.host_id
WHERE t.state IN ('failed', 'unknown') AND t.ended_at > now() - interval '1 hour' AND t.host_id IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM tasks o WHERE o.subject = t.subject AND o.kind = t.kind AND o.state = 'done' AND o.ended_at >= t.ended_at)
GROUP BY t.subject, t.kind ORDER BY t.subject, t.kind LIMIT 10000;

-- name: DriftedAlarmObjects :many
-- VMs, pools and networks whose definition on the host differs from the spec.
SELECT ('vm:' || v.id)::text AS subject, v.name, v.project_id::text AS project, ''::text AS host, h.name AS host_name, h.cluster_id::text AS cluster, v.labels
FROM (SELECT d.* FROM vms d WHERE d.drifted AND d.deleted_at IS NULL ORDER BY d.name, d.id LIMIT 20000) v
JOIN hosts h ON h.id = v.host_id JOIN host_sessions s ON s.host_id = h.id WHERE is_fresh(s.looked_at, s.fresh_for)
UNION ALL
SELECT a.noun || ':' || a.object_id, COALESCE(p.name, n.name, ''), '', a.host_id, h.name, h.cluster_id, '{}'
FROM assignments a JOIN hosts h ON h.id = a.host_id JOIN host_sessions s ON s.host_id = h.id LEFT JOIN pools p ON p.id = a.pool_id LEFT JOIN networks n ON n.id = a.network_id
WHERE a.changed AND a.drifted AND a.asked = 'assign' AND (a.pool_id IS NOT NULL OR a.network_id IS NOT NULL) AND is_fresh(s.looked_at, s.fresh_for)
LIMIT 20000;

-- name: AlarmSampleObjects :many
-- The names and scopes of VMs, hosts and pools whose metrics are compared with thresholds.
SELECT ('vm:' || v.id)::text AS subject, v.name, v.project_id::text AS project, v.host_id::text AS host, h.name AS host_name, h.cluster_id::text AS cluster, v.labels, false AS shared
FROM vms v JOIN hosts h ON h.id = v.host_id WHERE v.id = ANY (@vms::text[]) AND v.deleted_at IS NULL
UNION ALL
SELECT 'host:' || h.id, h.name, '', h.id, h.name, h.cluster_id, h.labels, false FROM hosts h WHERE h.id = ANY (@hosts::text[])
UNION ALL
SELECT 'pool:' || p.id, p.name, '', a.host_id, h.name, h.cluster_id, '{}', COALESCE((p.spec->>'shared')::boolean, false)
FROM pools p JOIN assignments a ON a.pool_id = p.id JOIN hosts h ON h.id = a.host_id WHERE p.id = ANY (@pools::text[]);

-- name: HostCertificates :many
-- The remaining time of the certificates of hosts: of an online host until its end, of an offline one until the end of the
-- time in which it can be renewed. An offline host has no value until the portal has recorded its certificate.
SELECT h.id, h.name, h.cluster_id::text AS cluster, h.labels, is_fresh(s.seen_at, s.fresh_for)::boolean AS online,
    (EXTRACT(EPOCH FROM s.certificate_end - now()) / 3600)::float8 AS hours
FROM hosts h JOIN host_sessions s ON s.host_id = h.id
WHERE s.seen_at IS NOT NULL AND s.certificate_end IS NOT NULL AND s.certificate_end < now() + interval '30 days' ORDER BY h.name LIMIT 20000;

-- name: PredictedPools :many
-- Pools on hosts that are predicted to become full, with the days until then. A shared pool has its newest prediction.
SELECT p.id::text AS id, p.name, f.host_id::text AS host_id, COALESCE((p.spec->>'shared')::boolean, false)::boolean AS shared,
    GREATEST(0, EXTRACT(EPOCH FROM f.full_at - now()) / 86400)::float8 AS days,
    ARRAY(SELECT DISTINCT o.cluster_id FROM assignments b JOIN hosts o ON o.id = b.host_id
        WHERE b.pool_id = p.id AND b.asked = 'assign' AND (b.host_id = f.host_id OR COALESCE((p.spec->>'shared')::boolean, false)))::text[] AS clusters
FROM pool_predictions f JOIN pools p ON p.id = f.pool_id JOIN assignments a ON a.pool_id = f.pool_id AND a.host_id = f.host_id JOIN host_sessions s ON s.host_id = f.host_id
WHERE f.full_at IS NOT NULL AND a.asked = 'assign' AND p.deleted_at IS NULL AND is_fresh(s.looked_at, s.fresh_for)
  AND NOT (COALESCE((p.spec->>'shared')::boolean, false) AND EXISTS (SELECT 1 FROM pool_predictions n WHERE n.pool_id = f.pool_id AND n.predicted_at > f.predicted_at))
ORDER BY p.name, f.host_id LIMIT 20000;
