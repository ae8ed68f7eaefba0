-- name: UserOfToken :one
-- The user of a live token. Notes its use once a minute.
WITH used AS (
    UPDATE tokens SET last_used_at = now()
    WHERE hash = @hash AND (expires_at IS NULL OR expires_at > now())
      AND (last_used_at IS NULL OR last_used_at < now() - interval '1 minute'))
SELECT t.id AS token_id, u.id, u.name, u.role,
       COALESCE((SELECT jsonb_object_agg(m.project_id, m.role) FROM project_members m WHERE m.user_id = u.id), '{}')::jsonb AS projects
FROM tokens t JOIN users u ON u.id = t.user_id
WHERE t.hash = @hash AND (t.expires_at IS NULL OR t.expires_at > now()) AND NOT u.disabled;

-- name: AddToken :one
-- ttl_seconds 0: does not expire. No row: the user has max tokens already.
INSERT INTO tokens (id, user_id, name, hash, expires_at)
SELECT @id, @user_id, @name, @hash, CASE WHEN @ttl_seconds::float8 > 0 THEN now() + make_interval(secs => @ttl_seconds::float8) END
WHERE (SELECT count(*) FROM tokens t WHERE t.user_id = @user_id) < @max::bigint
RETURNING *;

-- name: DeleteToken :one
DELETE FROM tokens WHERE id = @id AND user_id = @user_id RETURNING name;
