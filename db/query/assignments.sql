-- name: Assign :many
-- The hosts that are new to it. On a host that was to release the object this takes the release back.
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
-- The hosts that somebody gave the object to, also those that have yet to release it.
SELECT host_id FROM assignments WHERE noun = @noun AND object_id = @object_id AND asked <> '' ORDER BY host_id;

-- name: FirstAssignedHosts :many
-- The first of the hosts that are to have the object, and are not to release it.
SELECT host_id FROM assignments WHERE noun = @noun AND object_id = @object_id AND asked = 'assign' ORDER BY host_id LIMIT @most;

-- name: AssignmentOn :one
-- One cell of the matrix, without what can be long. NULL: the host has said nothing yet, or was never heard.
SELECT (a.asked = 'assign')::boolean AS assigned, h.name AS host_name, (a.status - '{volumes,leases}'::text[])::jsonb AS status, s.looked_at, now()::timestamptz AS now
FROM assignments a JOIN hosts h ON h.id = a.host_id LEFT JOIN host_sessions s ON s.host_id = a.host_id
WHERE a.noun = @noun AND a.object_id = @object_id AND a.host_id = @host_id AND a.asked <> '';

-- name: ReportAssignments :one
-- What a host says of the objects on it, where that is another thing than before; lost are the networks that it has no more. A pool
-- counts only where it was given to the host; older agents call it by its name. One that is not named is one that the agent did not
-- look for: an assigned pool that the host lacks is reported as such. A network is its kind and name, and counts wherever it is found; where that is
-- the name of one that is defined here and it is another (its UUID says so), it is marked as such, with the words @strange.
WITH said AS MATERIALIZED (
    SELECT 'pool' AS noun, COALESCE(r.pool->>'id', p.id) AS object_id, r.pool->'status' AS status
    FROM jsonb_array_elements(@pools::jsonb) AS r (pool) LEFT JOIN pools p ON r.pool->>'id' IS NULL AND p.name = r.pool->>'name'
    UNION ALL SELECT 'net', n.id, CASE WHEN n.spec IS NULL OR r.net->>'id' = n.id THEN r.net->'status'
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
-- First orders and releases that got lost, on a host that is heard, tried again each five minutes; a release that failed waits twice as long
-- after each failure of the last day, six hours at most: it may be one that cuts the host off while it is tried. And objects that are not
-- active there and of which the agent knows nothing. What failed the agent starts again by itself, and what somebody stopped
-- is theirs to start; so is what a host undid because it cut it off. Of the nouns that there are jobs for: the others must not take their place.
WITH waiting AS MATERIALIZED (
    SELECT j.host_id, j.subject FROM jobs j WHERE j.state = 'failed' AND j.ended_at > now() - interval '1 day' AND j.kind LIKE '%.release'
    GROUP BY j.host_id, j.subject
    HAVING max(j.ended_at) > now() - LEAST(interval '6 hours', interval '5 minutes' * power(2, LEAST(count(*), 10) - 1))
)
SELECT a.noun, a.object_id, a.host_id, (a.asked = 'assign')::boolean AS assigned, o.name, o.generation FROM assignments a
JOIN objects o ON o.noun = a.noun AND o.id = a.object_id JOIN host_sessions s ON s.host_id = a.host_id
WHERE is_fresh(s.looked_at, @fresh::interval) AND a.noun = ANY (@nouns::text[])
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
-- The quarters of an hour in which cells of one object changed, the last one before @since too.
SELECT q.host_id, q.quarter, q.worst, q.last FROM unnest(@hosts::text[]) AS h (id) JOIN cell_quarters q ON q.noun = @noun AND q.object_id = @object_id AND q.host_id = h.id
WHERE q.quarter >= COALESCE((SELECT max(b.quarter) FROM cell_quarters b WHERE b.noun = @noun AND b.object_id = @object_id AND b.host_id = h.id AND b.quarter < @since), @since::timestamptz)
ORDER BY q.host_id, q.quarter;

-- name: HostOfflinePeriods :many
-- When nothing was known of hosts since then, that of now too.
SELECT s.host_id, s.since, s.until FROM host_silences s WHERE s.host_id = ANY (@hosts::text[]) AND s.until > @since::timestamptz
UNION ALL SELECT s.host_id, s.looked_at + @fresh::interval, now() FROM host_sessions s WHERE s.host_id = ANY (@hosts) AND s.looked_at + @fresh < now();
