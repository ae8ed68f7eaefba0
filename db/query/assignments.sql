-- name: Assign :many
-- Returns the newly assigned hosts. A pending release on a host is revoked.
INSERT INTO assignments AS a (noun, object_id, host_id, asked)
SELECT @noun, @object_id, h.id, 'assign' FROM unnest(@hosts::text[]) AS h (id) ORDER BY h.id
ON CONFLICT (noun, object_id, host_id) DO UPDATE SET asked = 'assign' WHERE a.asked <> 'assign'
RETURNING host_id;

-- name: Release :exec
UPDATE assignments SET asked = 'release'
WHERE noun = @noun AND object_id = @object_id AND host_id = ANY (@hosts::text[]) AND asked = 'assign';

-- name: EndRelease :exec
DELETE FROM assignments WHERE noun = @noun AND object_id = @object_id AND host_id = @host_id AND asked = 'release';

-- name: AssignedHosts :many
-- The hosts with an assignment, including those that still have to release the object.
SELECT host_id FROM assignments WHERE noun = @noun AND object_id = @object_id AND asked <> '' ORDER BY host_id;

-- name: FirstAssignedHosts :many
-- The first hosts that have the object assigned and not marked for release.
SELECT host_id FROM assignments WHERE noun = @noun AND object_id = @object_id AND asked = 'assign' ORDER BY host_id LIMIT @most;

-- name: AssignmentOn :one
-- One assignment with its host's report, without volumes and leases. The status is NULL before the first report.
SELECT (a.asked = 'assign')::boolean AS assigned, h.name AS host_name, (a.status - '{volumes,leases}'::text[])::jsonb AS status, a.ignored_drift, s.looked_at, s.fresh_for, now()::timestamptz AS now
FROM assignments a JOIN hosts h ON h.id = a.host_id LEFT JOIN host_sessions s ON s.host_id = a.host_id
WHERE a.noun = @noun AND a.object_id = @object_id AND a.host_id = @host_id AND a.asked <> '';

-- name: SetIgnoredDrift :exec
UPDATE assignments SET ignored_drift = @ignored_drift WHERE noun = @noun AND object_id = @object_id AND host_id = @host_id;

-- name: EndIgnoredDrift :exec
-- Drift in these fields is not ignored any more, on no host of the object.
UPDATE assignments SET ignored_drift = without_ignored(ignored_drift, @fields::text[])
WHERE noun = @noun AND object_id = @object_id AND ignored_drift <> '[]';

-- name: DriftOnOtherHosts :many
-- The drift of the object in these fields on other hosts.
SELECT h.name AS host_name, (d.drift->>'field')::text AS field, (d.drift->>'actual')::text AS actual
FROM assignments a JOIN hosts h ON h.id = a.host_id CROSS JOIN LATERAL jsonb_array_elements(CASE WHEN a.changed THEN a.status->'drift' END) AS d (drift)
WHERE a.noun = @noun AND a.object_id = @object_id AND a.host_id <> @host_id AND a.asked = 'assign' AND a.changed AND d.drift->>'field' = ANY (@fields::text[])
ORDER BY h.name;

-- name: ReportAssignments :one
-- Stores changed reports on the objects of a host. lost is the number of discovered networks that the host no longer
-- has. Reports on objects count only for assigned objects; older agents name a pool instead of its ID. Objects missing
-- in the report were not inventoried: assigned pools that the host lacks are reported as such. Networks are matched by
-- kind and name, assigned or not. A network with the name of a created one but another UUID is marked as foreign, with
-- the error @strange. An adopted network has another UUID on each host.
WITH said AS MATERIALIZED (
    SELECT r.object->>'type' AS noun, COALESCE(r.object->>'id', p.id) AS object_id, r.object->'status' AS status
    FROM jsonb_array_elements(@objects::jsonb) AS r (object)
    LEFT JOIN pools p ON r.object->>'type' = 'pool' AND r.object->>'id' IS NULL AND p.name = r.object->>'name'
    UNION ALL SELECT 'net', n.id, CASE WHEN n.spec IS NULL OR n.spec @> '{"adopted": true}' OR r.net->>'id' = n.id THEN r.net->'status'
        ELSE jsonb_build_object('error', @strange::text) || (r.net->'status') || '{"foreign": true}' END
    FROM jsonb_array_elements(@networks::jsonb) AS r (net) JOIN networks n ON n.kind = r.net->>'kind' AND n.name = r.net->>'name'
), told AS (
    UPDATE assignments a SET status = s.status, report_seq = @seq, reported_at = now() FROM said s
    WHERE a.noun = s.noun AND a.object_id = s.object_id AND a.host_id = @host_id AND a.report_seq < @seq AND a.status IS DISTINCT FROM s.status
), found AS (
    INSERT INTO assignments AS a (noun, object_id, host_id, status, report_seq, reported_at)
    SELECT s.noun, s.object_id, @host_id, s.status, @seq, now() FROM said s
    WHERE s.noun = 'net' AND NOT EXISTS (SELECT 1 FROM assignments h WHERE h.noun = s.noun AND h.object_id = s.object_id AND h.host_id = @host_id)
    ON CONFLICT (noun, object_id, host_id) DO UPDATE SET status = EXCLUDED.status, report_seq = EXCLUDED.report_seq, reported_at = now()
    WHERE a.report_seq < EXCLUDED.report_seq
), lost AS (
    DELETE FROM assignments a
    WHERE a.host_id = @host_id AND a.noun = 'net' AND a.asked = '' AND a.object_id NOT IN (SELECT s.object_id FROM said s WHERE s.noun = 'net')
    RETURNING a.object_id
)
SELECT count(*)::bigint AS lost FROM lost;

-- name: DriftedAssignments :many
-- Assignments and releases on online hosts whose job was lost; they are retried every five minutes. After failures
-- within the last day, a release waits twice as long each time, up to six hours, because a failing release may
-- disconnect the host. Inactive objects without a record at the agent are included. Excluded are failed objects, which
-- the agent restarts, objects stopped by others, and changes that the host rolled back after it lost its connection.
-- Only resource types with job kinds are selected, so that others do not use up the limit.
WITH waiting AS MATERIALIZED (
    SELECT j.host_id, j.subject FROM jobs j WHERE j.state = 'failed' AND j.ended_at > now() - interval '1 day' AND j.kind LIKE '%.release'
    GROUP BY j.host_id, j.subject
    HAVING max(j.ended_at) > now() - LEAST(interval '6 hours', interval '5 minutes' * power(2, LEAST(count(*), 10) - 1))
)
SELECT a.noun, a.object_id, a.host_id, (a.asked = 'assign')::boolean AS assigned, o.name, o.generation FROM assignments a
JOIN objects o ON o.noun = a.noun AND o.id = a.object_id JOIN host_sessions s ON s.host_id = a.host_id
WHERE is_fresh(s.looked_at, s.fresh_for) AND a.noun = ANY (@nouns::text[])
  AND (a.asked = 'release' OR a.asked = 'assign' AND (a.observed_generation < o.generation OR a.said = 'inactive' AND NOT a.by_others AND NOT (a.noun = 'net' AND a.status ? 'rolledBack')))
  AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.host_id = a.host_id AND j.subject = a.noun || ':' || a.object_id
                  AND (j.state IN ('queued', 'running') OR j.ended_at > now() - interval '5 minutes'))
  AND (a.asked = 'assign' OR (a.host_id, a.noun || ':' || a.object_id) NOT IN (SELECT w.host_id, w.subject FROM waiting w))
LIMIT 500;

-- name: AssignedPools :many
SELECT sqlc.embed(p), array_agg(a.host_id)::text[] AS hosts FROM assignments a JOIN pools p ON p.id = a.pool_id WHERE a.asked = 'assign' GROUP BY p.id ORDER BY p.name;

-- name: AssignedNetworks :many
SELECT sqlc.embed(n), array_agg(a.host_id)::text[] AS hosts FROM assignments a JOIN networks n ON n.id = a.network_id WHERE a.asked = 'assign' GROUP BY n.id ORDER BY n.name;

-- name: StatusQuarters :many
-- The quarters of an hour with a changed status of one object, and the last such quarter before @since.
SELECT q.host_id, q.quarter, q.worst, q.last FROM unnest(@hosts::text[]) AS h (id) JOIN cell_quarters q ON q.noun = @noun AND q.object_id = @object_id AND q.host_id = h.id
WHERE q.quarter >= COALESCE((SELECT max(b.quarter) FROM cell_quarters b WHERE b.noun = @noun AND b.object_id = @object_id AND b.host_id = h.id AND b.quarter < @since), @since::timestamptz)
ORDER BY q.host_id, q.quarter;

-- name: HostOfflinePeriods :many
-- Offline periods of hosts after @since, including a current one.
SELECT s.host_id, s.since, s.until FROM host_silences s WHERE s.host_id = ANY (@hosts::text[]) AND s.until > @since::timestamptz
UNION ALL SELECT s.host_id, s.looked_at + s.fresh_for, now() FROM host_sessions s WHERE s.host_id = ANY (@hosts) AND s.looked_at + s.fresh_for < now();
