-- name: AddJoinToken :one
INSERT INTO join_tokens (id, hash, created_by, host_id, expires_at) VALUES (@id, @hash, @created_by, @host_id, now() + interval '15 minutes')
RETURNING *;

-- name: DropOldJoinTokens :exec
DELETE FROM join_tokens WHERE expires_at < now() - interval '30 days';

-- name: RevokeJoinToken :one
UPDATE join_tokens SET revoked_at = COALESCE(revoked_at, now()) WHERE id = @id AND used_at IS NULL RETURNING id;

-- name: GetJoinToken :one
SELECT * FROM join_tokens WHERE id = @id;

-- name: LiveJoinToken :one
SELECT host_id FROM join_tokens WHERE hash = @hash AND used_at IS NULL AND revoked_at IS NULL AND expires_at > now();

-- name: UseJoinToken :one
-- A token works once: of two concurrent joins, the second fails.
UPDATE join_tokens SET used_at = now(), used_by = @used_by
WHERE hash = @hash AND used_at IS NULL AND revoked_at IS NULL AND expires_at > now()
RETURNING *;

-- name: HostOfMachine :one
SELECT id, name FROM hosts WHERE machine = @machine AND machine <> '';

-- name: RejoinHost :one
-- The host keeps its name, even on another machine.
UPDATE hosts SET machine = COALESCE(NULLIF(@machine::text, ''), machine), key_hash = @key_hash WHERE id = @id RETURNING name;

-- name: EndHostSession :exec
-- Ends the previous agent's session. It waits for transactions that use the session.
WITH held AS (SELECT h.host_id FROM host_sessions h WHERE h.host_id = @host_id FOR UPDATE)
UPDATE host_sessions s SET session = NULL, fingerprint = '', conflict = '', conflict_at = NULL FROM held WHERE s.host_id = held.host_id;

-- name: AddHost :exec
INSERT INTO hosts (id, name, machine, key_hash) VALUES (@id, @name, @machine, @key_hash);

-- name: AddHostSession :exec
INSERT INTO host_sessions (host_id) VALUES (@host_id);

-- name: HostName :one
SELECT name FROM hosts WHERE id = @id;

-- name: HostKey :one
SELECT name, key_hash FROM hosts WHERE id = @id;
