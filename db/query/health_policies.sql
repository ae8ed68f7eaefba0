-- name: LockHealthPolicies :exec
-- Serializes changes of policies with each other and with the judgement of events.
SELECT pg_advisory_xact_lock(hashtextextended('health policies', 0));

-- name: ShareHealthPolicies :exec
-- Policies do not change until the transaction ends.
SELECT pg_advisory_xact_lock_shared(hashtextextended('health policies', 0));

-- name: JudgedHost :one
-- What policies see of a host, and the version of the policies.
SELECT h.name, h.spec, h.labels, c.name AS cluster_name, s.version FROM hosts h JOIN clusters c ON c.id = h.cluster_id CROSS JOIN health_settings s WHERE h.id = @id;

-- name: HealthPolicyVersion :one
SELECT version FROM health_settings;

-- name: AllHealthPolicies :many
SELECT * FROM health_policies ORDER BY (spec->>'order')::integer NULLS FIRST, name;

-- name: LockHealthPolicy :one
SELECT * FROM health_policies WHERE id = @id FOR UPDATE;

-- name: CountHealthPolicies :one
SELECT count(*)::bigint FROM health_policies;

-- name: AddHealthPolicy :exec
INSERT INTO health_policies (id, name, builtin, spec) VALUES (@id, @name, @builtin, @spec);

-- name: ChangeHealthPolicy :exec
UPDATE health_policies SET name = @name, spec = @spec, generation = generation + 1, last_error = '', last_error_at = NULL WHERE id = @id;

-- name: DeleteHealthPolicy :exec
DELETE FROM health_policies WHERE id = @id;

-- name: CountHealthPolicyDefaults :one
SELECT count(*)::bigint FROM health_policy_defaults WHERE builtin = ANY (@builtins::text[]);

-- name: AddHealthPolicyDefaults :many
-- Marks default policies as added, and returns those that were not.
INSERT INTO health_policy_defaults (builtin) SELECT unnest(@builtins::text[]) ON CONFLICT DO NOTHING RETURNING builtin;

-- name: HealthPolicyNameTaken :one
SELECT EXISTS (SELECT FROM health_policies WHERE name = @name)::boolean;

-- name: SetHealthPolicyErrors :exec
-- Records errors of evaluations. An equal error within a minute is not written again.
UPDATE health_policies p SET last_error = e.text, last_error_at = now()
FROM (SELECT unnest(@ids::text[]) AS id, unnest(@texts::text[]) AS text) e
WHERE p.id = e.id AND (p.last_error <> e.text OR p.last_error_at < now() - interval '1 minute');

-- name: ListHealthPolicies :many
-- Policies with their counts; an empty ID: all. Matches and acts are read once for all policies.
SELECT p.*, COALESCE(m.recent, 0)::bigint AS recent, COALESCE(m.open, 0)::bigint AS open, COALESCE(a.acting, 0)::bigint AS acting
FROM health_policies p
LEFT JOIN (SELECT policy_id, count(*) FILTER (WHERE last_at > now() - interval '24 hours') AS recent, count(*) FILTER (WHERE ended_at IS NULL) AS open
    FROM health_matches WHERE (last_at > now() - interval '24 hours' OR ended_at IS NULL) AND (@id::text = '' OR policy_id = @id::text) GROUP BY policy_id) m ON m.policy_id = p.id
LEFT JOIN (SELECT u.name, count(DISTINCT h.host_id) AS acting FROM health_acts h CROSS JOIN LATERAL unnest(h.policies) u (name) WHERE h.state = 'held' GROUP BY u.name) a ON a.name = p.name
WHERE @id::text = '' OR p.id = @id::text ORDER BY (p.spec->>'order')::integer NULLS FIRST, p.name;

-- name: AddHealthMatches :exec
-- Adds matches, or counts up open ones: a JSON array. A released match stays released.
INSERT INTO health_matches AS m (policy_id, host_id, check_name, object, code, event_id, text, severity, actions, dry_run, momentary, count)
SELECT n."policyId", n."hostId", n."check", n.object, n.code, n."eventId", n.text, n.severity, n.actions, n."dryRun", n.momentary, n.count
FROM jsonb_to_recordset(@matches::jsonb) AS n ("policyId" text, "hostId" text, "check" text, object text, code text, "eventId" bigint, text text, severity text, actions jsonb, "dryRun" boolean, momentary boolean, count bigint)
ON CONFLICT (policy_id, host_id, check_name, object, code) WHERE ended_at IS NULL DO UPDATE SET
    event_id = CASE WHEN EXCLUDED.event_id > 0 THEN EXCLUDED.event_id ELSE m.event_id END, text = EXCLUDED.text, severity = EXCLUDED.severity,
    state = CASE WHEN m.state <> 'released' AND (m.actions <> EXCLUDED.actions OR m.dry_run <> EXCLUDED.dry_run) THEN 'new' ELSE m.state END,
    notified = m.notified AND m.actions->>'notify' IS NOT DISTINCT FROM EXCLUDED.actions->>'notify' AND m.dry_run = EXCLUDED.dry_run,
    actions = EXCLUDED.actions, dry_run = EXCLUDED.dry_run, momentary = m.momentary AND EXCLUDED.momentary,
    last_at = CASE WHEN EXCLUDED.event_id > 0 THEN now() ELSE m.last_at END, count = CASE WHEN EXCLUDED.event_id > 0 THEN m.count + EXCLUDED.count ELSE m.count END;

-- name: EndHealthMatches :exec
-- Ends the open matches of a host's conditions: a JSON array of their keys. An empty policy: those of all policies.
UPDATE health_matches m SET ended_at = now() FROM jsonb_to_recordset(@keys::jsonb) AS k ("policyId" text, "check" text, object text, code text)
WHERE m.host_id = @host_id AND m.ended_at IS NULL AND m.check_name = k."check" AND m.object = k.object AND m.code = k.code AND (COALESCE(k."policyId", '') = '' OR m.policy_id = k."policyId");

-- name: EndOtherHealthMatches :exec
-- Ends the open matches of a policy except those of the listed conditions: a JSON array.
UPDATE health_matches m SET ended_at = now() WHERE m.policy_id = @policy_id AND m.ended_at IS NULL
AND NOT EXISTS (SELECT FROM jsonb_to_recordset(@matches::jsonb) AS k ("hostId" text, "check" text, object text, code text)
    WHERE k."hostId" = m.host_id AND k."check" = m.check_name AND k.object = m.object AND k.code = m.code);

-- name: EndHealthMatchesWithoutCondition :exec
-- Ends momentary matches after a while, and matches whose condition has ended without an event, because the host had too
-- many events.
UPDATE health_matches m SET ended_at = now() WHERE m.ended_at IS NULL
AND CASE WHEN m.momentary THEN m.state <> 'new' AND m.last_at < now() - interval '1 minute'
    ELSE NOT EXISTS (SELECT FROM host_conditions c WHERE c.host_id = m.host_id AND c.check_name = m.check_name AND c.object = m.object AND c.code = m.code) END;

-- name: SetEventPolicies :exec
-- Stores which policies events have matched: a JSON array.
UPDATE host_events e SET policies = n.names FROM jsonb_to_recordset(@events::jsonb) AS n (id bigint, names text[]) WHERE e.id = n.id;

-- name: OpenConditions :many
-- Open conditions of all hosts with what policies see of the hosts.
SELECT c.*, h.name AS host_name, h.spec AS host_spec, h.labels AS host_labels, k.name AS cluster_name
FROM host_conditions c JOIN hosts h ON h.id = c.host_id JOIN clusters k ON k.id = h.cluster_id ORDER BY c.host_id, c.check_name, c.object, c.code LIMIT @most;

-- name: OpenHealthMatches :many
-- Open matches, in the order of the actions.
SELECT m.*, p.name AS policy_name, h.name AS host_name FROM health_matches m JOIN health_policies p ON p.id = m.policy_id JOIN hosts h ON h.id = m.host_id
WHERE m.ended_at IS NULL AND (@host_id::text = '' OR m.host_id = @host_id::text) ORDER BY (p.spec->>'order')::integer NULLS FIRST, m.since, m.id LIMIT @most;

-- name: HealthMatchesOf :many
-- The newest matches of a policy with IDs below before; 0: from the newest.
SELECT m.*, p.name AS policy_name, h.name AS host_name FROM health_matches m JOIN health_policies p ON p.id = m.policy_id JOIN hosts h ON h.id = m.host_id
WHERE m.policy_id = @policy_id::text AND (@before::bigint = 0 OR m.id < @before::bigint) ORDER BY m.id DESC LIMIT @most;

-- name: LockHealthMatch :one
SELECT m.*, p.name AS policy_name, h.name AS host_name FROM health_matches m JOIN health_policies p ON p.id = m.policy_id JOIN hosts h ON h.id = m.host_id WHERE m.id = @id FOR UPDATE OF m;

-- name: ReleaseHealthMatch :exec
UPDATE health_matches SET state = 'released', reason = @reason, released_by = @released_by WHERE id = @id;

-- name: SetHealthMatchStates :exec
-- Stores states of matches: a JSON array. A match that a user has released meanwhile stays released.
UPDATE health_matches m SET state = n.state, reason = n.reason, notified = m.notified OR n.notified
FROM jsonb_to_recordset(@matches::jsonb) AS n (id bigint, state text, reason text, notified boolean) WHERE m.id = n.id AND m.state <> 'released';

-- name: SweepHealthMatches :execrows
DELETE FROM health_matches WHERE id IN (SELECT o.id FROM health_matches o WHERE o.ended_at IS NOT NULL AND o.last_at < now() - @age::interval ORDER BY o.last_at LIMIT @most);

-- name: HealthActs :many
-- What policies have done to hosts; an empty ID: to all.
SELECT a.*, h.name AS host_name FROM health_acts a JOIN hosts h ON h.id = a.host_id WHERE @host_id::text = '' OR a.host_id = @host_id::text ORDER BY h.name, a.act;

-- name: SetHealthAct :exec
INSERT INTO health_acts AS a (host_id, act, state, policies, cause) VALUES (@host_id, @act, @state, @policies, @cause)
ON CONFLICT (host_id, act) DO UPDATE SET state = EXCLUDED.state, policies = EXCLUDED.policies, cause = EXCLUDED.cause
WHERE (a.state, a.policies, a.cause) IS DISTINCT FROM (EXCLUDED.state, EXCLUDED.policies, EXCLUDED.cause);

-- name: DeleteHealthAct :exec
DELETE FROM health_acts WHERE host_id = @host_id AND act = @act;

-- name: CountHosts :one
SELECT count(*)::bigint FROM hosts;

-- name: HealthMaxHosts :one
SELECT max_hosts FROM health_settings;

-- name: SetHealthMaxHosts :exec
UPDATE health_settings SET max_hosts = @max_hosts;

-- name: AlarmingHealthMatches :many
-- Open matches whose policies raise alarms, the most serious first.
SELECT m.host_id, h.name AS host_name, h.labels, h.cluster_id, m.check_name, m.object, m.code, m.text, m.severity, m.count, p.name AS policy_name, COALESCE(p.spec->>'description', '')::text AS description
FROM health_matches m JOIN health_policies p ON p.id = m.policy_id JOIN hosts h ON h.id = m.host_id
WHERE m.ended_at IS NULL AND NOT m.dry_run AND NOT m.momentary AND (m.actions->>'alarm')::boolean
ORDER BY array_position(ARRAY['critical', 'warning', 'info'], m.severity), (p.spec->>'order')::integer NULLS FIRST, m.id;

-- name: HealthChannel :one
-- A channel for messages of policies: that of a project or a user is not for them.
SELECT id, name, spec FROM channels WHERE id = @id AND project_id IS NULL AND user_id IS NULL;
