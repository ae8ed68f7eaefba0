-- name: AddChannel :exec
INSERT INTO channels (id, name, project_id, user_id, spec, target, signed, by_key, sealed)
VALUES (@id, @name, sqlc.narg(project_id), sqlc.narg(user_id), @spec, @target, @signed, sqlc.narg(by_key), sqlc.narg(sealed));

-- name: LockChannelList :exec
-- Serializes additions, so that each counts the previous ones.
SELECT pg_advisory_xact_lock(hashtextextended('channels', 0));

-- name: CountChannels :one
-- The number of all channels, and of those of one owner.
SELECT count(*)::bigint AS total,
    (count(*) FILTER (WHERE project_id IS NOT DISTINCT FROM sqlc.narg(project_id)::text AND user_id IS NOT DISTINCT FROM sqlc.narg(user_id)::text))::bigint AS of_owner
FROM channels;

-- name: ListChannels :many
-- The channels that an actor may see, with the state of their messages.
SELECT c.id, c.name, c.project_id, COALESCE(p.name, '')::text AS project_name, c.user_id, COALESCE(u.name, '')::text AS user_name, c.spec, c.target, c.signed, c.generation, c.created_at,
    (SELECT count(*) FROM deliveries d WHERE d.channel_id = c.id AND d.state = 'waiting')::bigint AS waiting,
    COALESCE((SELECT d.ended_at FROM deliveries d WHERE d.channel_id = c.id AND d.state = 'sent' ORDER BY d.id DESC LIMIT 1), '0001-01-01 00:00:00+00')::timestamptz AS sent_at,
    COALESCE((SELECT d.error FROM deliveries d WHERE d.channel_id = c.id AND (d.attempts > 0 OR d.state <> 'waiting') ORDER BY d.id DESC LIMIT 1), '')::text AS error
FROM channels c LEFT JOIN projects p ON p.id = c.project_id LEFT JOIN users u ON u.id = c.user_id
WHERE (@id::text = '' OR c.id = @id)
  AND (@of_users::boolean AND c.user_id IS NOT NULL OR @of_fleet::boolean AND c.user_id IS NULL OR c.user_id = @actor_id::text OR c.project_id = ANY (@projects::text[]))
ORDER BY c.name, c.id LIMIT 1100;

-- name: LockChannel :one
SELECT * FROM channels WHERE id = @id FOR UPDATE;

-- name: ChangeChannel :exec
UPDATE channels SET name = @name, spec = @spec, target = @target, signed = @signed, by_key = sqlc.narg(by_key), sealed = sqlc.narg(sealed), generation = generation + 1 WHERE id = @id;

-- name: DeleteChannel :exec
DELETE FROM channels WHERE id = @id;

-- name: ListDeliveries :many
SELECT id, channel_id, summary, events, state, created_at, due_at, attempts, error, ended_at FROM deliveries WHERE channel_id = @channel_id ORDER BY id DESC LIMIT @most;

-- name: GetDelivery :one
SELECT id, channel_id, summary, events, state, created_at, due_at, attempts, error, ended_at FROM deliveries WHERE id = @id;

-- name: NewAlarmEvents :many
-- The oldest events of alarms that no pass has yet turned into messages. silenced: the alarm is silenced now.
SELECT e.id, e.kind, e.at, e.actor, e.text AS note, a.id AS alarm_id, a.rule_id, r.name AS rule, a.severity, a.subject, a.subject_name, a.project_id, COALESCE(h.name, '')::text AS host,
    a.cause, a.text, a.plain, a.remedy, a.raised_at, COALESCE(a.silenced_until > now(), false)::boolean AS silenced
FROM alarm_events e JOIN alarms a ON a.id = e.alarm_id JOIN alarm_rules r ON r.id = a.rule_id LEFT JOIN hosts h ON h.id = a.host_id
WHERE NOT e.notified ORDER BY e.id LIMIT @most FOR UPDATE OF e;

-- name: MarkAlarmEvents :exec
UPDATE alarm_events SET notified = true WHERE id = ANY (@ids::bigint[]);

-- name: NotifyingChannels :many
-- The enabled channels, with the roles of their users. Channels of disabled users send nothing. The lock keeps channels from
-- being deleted before their messages are added.
SELECT c.id, c.project_id, c.user_id, c.spec, COALESCE(u.role, '')::text AS role,
    COALESCE((SELECT jsonb_object_agg(m.project_id, m.role) FROM project_members m WHERE m.user_id = c.user_id), '{}')::jsonb AS projects
FROM channels c LEFT JOIN users u ON u.id = c.user_id
WHERE NOT COALESCE((c.spec->>'disabled')::boolean, false) AND NOT COALESCE(u.disabled, false) ORDER BY c.id FOR KEY SHARE OF c;

-- name: OpenDeliveries :many
-- The newest message of each channel, if it waits for its first attempt. The lock keeps portals from sending it meanwhile.
SELECT d.id, d.channel_id, d.message, d.due_at FROM deliveries d
WHERE d.state = 'waiting' AND d.attempts = 0 AND d.leased_until IS NULL AND d.channel_id = ANY (@channels::text[])
  AND d.id = (SELECT max(l.id) FROM deliveries l WHERE l.channel_id = d.channel_id AND l.state = 'waiting') FOR UPDATE OF d;

-- name: AddDelivery :exec
INSERT INTO deliveries (id, channel_id, message, summary, events, due_at) VALUES (@id, @channel_id, @message, @summary, @events, @due_at);

-- name: ExtendDelivery :exec
-- Replaces the message of a delivery that OpenDeliveries has locked.
UPDATE deliveries SET message = @message, summary = @summary, events = @events, due_at = @due_at
WHERE id = @id;

-- name: DueDeliveries :many
-- The oldest waiting message of each enabled channel, if its time has come. Test messages wait only for other test
-- messages. The channels are locked, so that one portal leases the message. Channels of disabled users send nothing.
SELECT d.id FROM deliveries d JOIN channels c ON c.id = d.channel_id
WHERE d.state = 'waiting' AND d.due_at <= now() AND (d.leased_until IS NULL OR d.leased_until < now()) AND NOT COALESCE((c.spec->>'disabled')::boolean, false)
  AND NOT EXISTS (SELECT 1 FROM users u WHERE u.id = c.user_id AND u.disabled)
  AND NOT EXISTS (SELECT 1 FROM deliveries o WHERE o.channel_id = d.channel_id AND o.state = 'waiting' AND o.id < d.id AND (o.message ? 'test' OR NOT d.message ? 'test'))
ORDER BY d.due_at LIMIT @most FOR UPDATE OF c SKIP LOCKED;

-- name: LeaseDeliveries :many
-- Leases messages, and returns the current role and projects of the users of their channels.
UPDATE deliveries d SET leased_until = now() + @lease::interval, attempts = d.attempts + 1
FROM channels c LEFT JOIN users u ON u.id = c.user_id
WHERE d.id = ANY (@ids::text[]) AND c.id = d.channel_id AND d.state = 'waiting' AND (d.leased_until IS NULL OR d.leased_until < now())
RETURNING d.id, d.channel_id, d.message, d.attempts, d.created_at, c.name, c.project_id, c.user_id, c.spec, c.by_key, c.sealed, COALESCE(u.role, '')::text AS role,
    COALESCE((SELECT jsonb_object_agg(m.project_id, m.role) FROM project_members m WHERE m.user_id = c.user_id), '{}')::jsonb AS projects;

-- name: EndDelivery :execrows
-- Records the end of an attempt, unless another portal has begun a later one. due_at NULL: there is no further attempt.
-- message: for the next attempt; NULL: unchanged.
UPDATE deliveries SET error = @error, leased_until = NULL, message = COALESCE(sqlc.narg(next_message)::jsonb, message),
    state = CASE WHEN sqlc.narg(due_at)::timestamptz IS NOT NULL THEN 'waiting' WHEN @sent::boolean THEN 'sent' ELSE 'failed' END,
    due_at = COALESCE(sqlc.narg(due_at)::timestamptz, due_at), ended_at = CASE WHEN sqlc.narg(due_at)::timestamptz IS NULL THEN now() END
WHERE id = @id AND state = 'waiting' AND attempts = @attempts;

-- name: CountWaitingDeliveries :one
SELECT count(*)::bigint FROM deliveries WHERE channel_id = @channel_id AND state = 'waiting';

-- name: OldDeliveries :many
-- Messages that ended long ago, and those that a disabled channel never sent. The select comes before the deletion, because
-- each statement on the table wakes pages.
(SELECT d.id FROM deliveries d WHERE d.ended_at < now() - @age::interval ORDER BY d.ended_at LIMIT @most)
UNION ALL (SELECT d.id FROM channels c JOIN deliveries d ON d.channel_id = c.id AND d.state = 'waiting' WHERE d.created_at < now() - @age::interval LIMIT @most);

-- name: DeleteDeliveries :exec
DELETE FROM deliveries WHERE id = ANY (@ids::text[]);
