-- name: LockHostHealth :one
-- Locks the host's health until the transaction ends. Occurrences of the instance up to the number were accepted. allowance
-- is the number of events that the host may store now; checks and conditions are the numbers that it has.
SELECT (SELECT count(*) FROM host_checks c WHERE c.host_id = h.host_id) AS checks, (SELECT count(*) FROM host_conditions c WHERE c.host_id = h.host_id) AS conditions, h.instance, h.number, LEAST(@burst::double precision, h.allowance + GREATEST(EXTRACT(EPOCH FROM now() - h.allowance_at)::double precision, 0) * @per_second::double precision)::double precision AS allowance
FROM host_health h WHERE h.host_id = @host_id FOR UPDATE;

-- name: AddHostHealth :exec
INSERT INTO host_health (host_id) VALUES (@host_id) ON CONFLICT DO NOTHING;

-- name: SetHostHealth :exec
UPDATE host_health SET instance = @instance, number = @number, reported_at = now(), allowance = @allowance, allowance_at = now(), stored = stored + @added WHERE host_id = @host_id;

-- name: ConditionsOfHost :many
SELECT c.* FROM host_conditions c WHERE c.host_id = @host_id
ORDER BY CASE c.severity WHEN 'critical' THEN 1 WHEN 'warning' THEN 2 ELSE 3 END, c.check_name, c.object, c.code;

-- name: SetHostChecks :exec
-- Stores the states of checks: a JSON array of healthevent.CheckReport.
INSERT INTO host_checks AS h (host_id, check_name, state, reason)
SELECT @host_id, c."check", c.state, COALESCE(c.reason, '') FROM jsonb_to_recordset(@checks::jsonb) AS c ("check" text, state text, reason text)
ON CONFLICT (host_id, check_name) DO UPDATE SET state = EXCLUDED.state, reason = EXCLUDED.reason, since = CASE WHEN h.state = EXCLUDED.state THEN h.since ELSE now() END
WHERE (h.state, h.reason) IS DISTINCT FROM (EXCLUDED.state, EXCLUDED.reason);

-- name: AddHostEvents :many
-- Stores events, in their order: a JSON array. Returns their IDs in the same order.
INSERT INTO host_events (host_id, at, kind, check_name, object, code, severity, text, numbers, attributes, repeats, actor)
SELECT @host_id, now() - make_interval(secs => e.ago), e.kind, e.check_name, e.object, e.code, e.severity, e.text, COALESCE(e.numbers, '{}'), COALESCE(e.attributes, '{}'), e.repeats, e.actor
FROM ROWS FROM (jsonb_to_recordset(@events::jsonb) AS (ago double precision, kind text, check_name text, object text, code text, severity text, text text, numbers jsonb, attributes jsonb, repeats bigint, actor text)) WITH ORDINALITY AS e (ago, kind, check_name, object, code, severity, text, numbers, attributes, repeats, actor, place)
ORDER BY e.place
RETURNING id, at;

-- name: SetHostConditions :exec
-- Opens or updates conditions: a JSON array. An occurrence counts up.
INSERT INTO host_conditions AS c (host_id, check_name, object, code, severity, text, numbers, attributes, since, last_at, count, occurrence)
SELECT @host_id, n.check_name, n.object, n.code, n.severity, n.text, COALESCE(n.numbers, '{}'), COALESCE(n.attributes, '{}'), now() - make_interval(secs => n.ago), now() - make_interval(secs => n.ago), n.repeats, n.occurrence
FROM jsonb_to_recordset(@conditions::jsonb) AS n (check_name text, object text, code text, severity text, text text, numbers jsonb, attributes jsonb, ago double precision, repeats bigint, occurrence boolean)
ON CONFLICT (host_id, check_name, object, code) DO UPDATE SET severity = EXCLUDED.severity, text = EXCLUDED.text, numbers = EXCLUDED.numbers, attributes = EXCLUDED.attributes,
    last_at = GREATEST(c.last_at, EXCLUDED.last_at), count = CASE WHEN EXCLUDED.occurrence THEN c.count + EXCLUDED.count ELSE c.count END, occurrence = EXCLUDED.occurrence;

-- name: EndHostConditions :many
-- Ends conditions, given as a JSON array of their keys, and returns them.
DELETE FROM host_conditions c USING jsonb_to_recordset(@keys::jsonb) AS k ("check" text, object text, code text)
WHERE c.host_id = @host_id AND c.check_name = k."check" AND c.object = k.object AND c.code = k.code
RETURNING c.*;

-- name: HostHealthReportedAt :one
-- Database time of the host's newest health report; no row: the host has not sent one.
SELECT reported_at FROM host_health WHERE host_id = @host_id;

-- name: ChecksOfHost :many
SELECT * FROM host_checks WHERE host_id = @host_id ORDER BY check_name;

-- name: EventsOfHost :many
-- The newest events of a host below an ID; 0: the newest of all. An empty severity or check means any.
SELECT * FROM host_events e WHERE e.host_id = @host_id AND (@below::bigint = 0 OR e.id < @below::bigint)
  AND (@severity::text = '' OR e.severity = @severity::text) AND (@check_name::text = '' OR e.check_name = @check_name::text)
ORDER BY e.id DESC LIMIT @most;

-- name: EventsOfHostAbove :many
-- The oldest events of a host above an ID, oldest first.
SELECT * FROM host_events e WHERE e.host_id = @host_id AND e.id > @above::bigint
  AND (@severity::text = '' OR e.severity = @severity::text) AND (@check_name::text = '' OR e.check_name = @check_name::text)
ORDER BY e.id LIMIT @most;

-- name: HealthOfHosts :many
-- The number of open conditions of each host that has any, with the most serious severity: 1 critical, 2 warning, 3 info.
SELECT c.host_id, count(*)::bigint AS total, min(CASE c.severity WHEN 'critical' THEN 1 WHEN 'warning' THEN 2 ELSE 3 END)::bigint AS worst
FROM host_conditions c WHERE c.host_id = ANY(@ids::text[]) GROUP BY c.host_id;

-- name: CriticalHostConditions :many
-- Critical conditions of the hosts, the newest first.
SELECT c.host_id, h.name AS host_name, c.check_name, c.object, c.code, c.text, c.since FROM host_conditions c JOIN hosts h ON h.id = c.host_id
WHERE c.severity = 'critical' ORDER BY c.since DESC, c.host_id LIMIT @most;

-- name: RecentHostEvents :many
-- The newest events of all hosts of the last days, for a trial of a policy.
SELECT e.*, h.name AS host_name, h.spec AS host_spec, h.labels AS host_labels, c.name AS cluster_name FROM host_events e JOIN hosts h ON h.id = e.host_id JOIN clusters c ON c.id = h.cluster_id
WHERE e.at > now() - make_interval(days => @days::int) ORDER BY e.id DESC LIMIT @most;

-- name: SweepHostEvents :execrows
DELETE FROM host_events e WHERE e.id IN (SELECT o.id FROM host_events o WHERE o.at < now() - @age::interval ORDER BY o.at LIMIT @most);

-- name: HostsWithManyEvents :many
-- Hosts that have more than @keep events.
SELECT h.host_id FROM host_health h WHERE h.stored > @keep::bigint ORDER BY h.stored DESC LIMIT @most;

-- name: TrimHostEvents :execrows
-- Deletes the oldest events of a host, so that at most @keep stay.
DELETE FROM host_events e WHERE e.host_id = @host_id AND e.id <= (SELECT o.id FROM host_events o WHERE o.host_id = @host_id ORDER BY o.id DESC OFFSET @keep::bigint LIMIT 1);

-- name: RecountHostEvents :exec
UPDATE host_health h SET stored = (SELECT count(*) FROM host_events e WHERE e.host_id = h.host_id) WHERE h.host_id = @host_id;
