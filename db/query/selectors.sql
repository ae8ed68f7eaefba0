-- name: SelectorOf :one
-- The selector of an object; empty if it has none.
SELECT COALESCE(s.selector, '')::text AS selector FROM objects o LEFT JOIN selectors s ON s.noun = o.noun AND s.object_id = o.id
WHERE o.noun = @noun::text AND o.id = @object_id::text;

-- name: SetSelector :exec
INSERT INTO selectors AS s (noun, object_id, selector, pairs, keys) VALUES (@noun, @object_id, @selector, @pairs, @keys)
ON CONFLICT (noun, object_id) DO UPDATE SET selector = EXCLUDED.selector, pairs = EXCLUDED.pairs, keys = EXCLUDED.keys;

-- name: DropSelector :exec
DELETE FROM selectors WHERE noun = @noun AND object_id = @object_id;

-- name: IncludeAllHosts :exec
-- A new selector clears the exclusions that were made for the previous one.
DELETE FROM left_out WHERE noun = @noun AND object_id = @object_id;

-- name: IncludeHosts :exec
DELETE FROM left_out WHERE noun = @noun AND object_id = @object_id AND host_id = ANY (@hosts::text[]);

-- name: ExcludeReleasedHosts :exec
-- Excludes a host from which a user released the object although its labels match.
INSERT INTO left_out (noun, object_id, host_id, why)
SELECT s.noun, s.object_id, h.id, '' FROM selectors s JOIN hosts h ON h.labels @> s.pairs AND h.labels ?& s.keys
WHERE s.noun = @noun AND s.object_id = @object_id AND h.id = @host_id::text
ON CONFLICT (noun, object_id, host_id) DO UPDATE SET why = '';

-- name: ExcludeHosts :exec
-- Excludes hosts that cannot have the object, with the reasons. Unchanged rows are not written.
INSERT INTO left_out AS l (noun, object_id, host_id, why)
SELECT @noun, @object_id, x.host, x.why FROM (SELECT unnest(@hosts::text[]) AS host, unnest(@whys::text[]) AS why) x ORDER BY x.host
ON CONFLICT (noun, object_id, host_id) DO UPDATE SET why = EXCLUDED.why WHERE l.why <> EXCLUDED.why AND l.why <> '';

-- name: LabelWork :many
-- Objects missing on hosts that match their selector, unless a user released them there. EXCEPT compares sets: with
-- 10,000 hosts and nothing missing, a lookup per host takes two and a half times as long.
SELECT s.noun, s.object_id FROM selectors s
WHERE EXISTS (SELECT h.id FROM hosts h WHERE h.labels @> s.pairs AND h.labels ?& s.keys
    EXCEPT SELECT a.host_id FROM assignments a WHERE a.noun = s.noun AND a.object_id = s.object_id AND a.asked = 'assign'
    EXCEPT SELECT l.host_id FROM left_out l WHERE l.noun = s.noun AND l.object_id = s.object_id AND l.why = '')
ORDER BY s.noun, s.object_id;

-- name: LabelledWithout :many
-- The hosts where an object of LabelWork is missing: first the hosts not tried yet, then excluded hosts in random order,
-- so that each host is retried eventually.
SELECT h.id, (l.host_id IS NULL)::boolean AS fresh FROM hosts h
LEFT JOIN left_out l ON l.noun = @noun AND l.object_id = @object_id AND l.host_id = h.id
WHERE h.id IN (
    SELECT m.id FROM selectors s JOIN hosts m ON m.labels @> s.pairs AND m.labels ?& s.keys
    WHERE s.noun = @noun AND s.object_id = @object_id
    EXCEPT SELECT a.host_id FROM assignments a WHERE a.noun = @noun AND a.object_id = @object_id AND a.asked = 'assign')
  AND (l.host_id IS NULL OR l.why <> '')
ORDER BY l.host_id IS NOT NULL, random() LIMIT @most;

-- name: LeftOut :many
-- The first hosts that match the selector but lack the object, and their total number.
SELECT h.id, h.name, l.why, count(*) OVER ()::integer AS all_of_them FROM selectors s
JOIN left_out l ON l.noun = s.noun AND l.object_id = s.object_id JOIN hosts h ON h.id = l.host_id
WHERE s.noun = @noun AND s.object_id = @object_id AND h.labels @> s.pairs AND h.labels ?& s.keys
  AND NOT EXISTS (SELECT 1 FROM assignments a WHERE a.noun = s.noun AND a.object_id = s.object_id AND a.host_id = h.id AND a.asked = 'assign')
ORDER BY l.why = '', h.name LIMIT 20;

-- name: AssignedBeside :many
-- The first hosts that have the object but do not match the selector, and their total number.
SELECT h.id, h.name, count(*) OVER ()::integer AS all_of_them FROM selectors s
JOIN assignments a ON a.noun = s.noun AND a.object_id = s.object_id JOIN hosts h ON h.id = a.host_id
WHERE s.noun = @noun AND s.object_id = @object_id AND a.asked = 'assign' AND NOT COALESCE(h.labels @> s.pairs AND h.labels ?& s.keys, false)
ORDER BY h.name LIMIT 20;

-- name: HostsLabelled :many
-- The first hosts that match the labels, those without the object first, with the total numbers.
SELECT x.id, x.name, x.has, count(*) OVER ()::integer AS all_of_them, count(*) FILTER (WHERE NOT x.has) OVER ()::integer AS without FROM (
    SELECT h.id, h.name, EXISTS (SELECT 1 FROM assignments a WHERE a.noun = @noun::text AND a.object_id = @object_id::text AND a.host_id = h.id AND a.asked = 'assign')::boolean AS has
    FROM hosts h WHERE h.labels @> @pairs::jsonb AND h.labels ?& @keys::text[]) x
ORDER BY x.has, x.name LIMIT 12;

-- name: AssignmentsNotHealthy :many
-- The unhealthy assignments of one object, without volumes. Objects stopped on the host by others are excluded.
SELECT a.host_id, true::boolean AS assigned, h.name AS host_name, (a.status - 'volumes')::jsonb AS status, s.looked_at, s.fresh_for, now()::timestamptz AS now
FROM assignments a JOIN hosts h ON h.id = a.host_id LEFT JOIN host_sessions s ON s.host_id = a.host_id
WHERE a.noun = @noun AND a.object_id = @object_id AND a.asked = 'assign' AND (a.said <> 'active' AND NOT a.by_others OR a.faulty)
ORDER BY h.name;
