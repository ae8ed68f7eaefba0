-- name: UserOfToken :one
-- The user of a valid token. The use is recorded at most once a minute.
WITH used AS (
    UPDATE tokens SET last_used_at = now()
    WHERE hash = @hash AND (expires_at IS NULL OR expires_at > now())
      AND (last_used_at IS NULL OR last_used_at < now() - interval '1 minute'))
SELECT t.id AS token_id, u.id, u.name, u.role,
       COALESCE((SELECT jsonb_object_agg(m.project_id, m.role) FROM project_members m WHERE m.user_id = u.id), '{}')::jsonb AS projects
FROM tokens t JOIN users u ON u.id = t.user_id
WHERE t.hash = @hash AND (t.expires_at IS NULL OR t.expires_at > now()) AND NOT u.disabled;

-- name: TokenEnd :one
-- The expiry of a valid token. The lock makes a concurrent deletion wait, so that it also deletes tokens created with
-- this one.
SELECT expires_at FROM tokens WHERE id = @id AND (expires_at IS NULL OR expires_at > now()) FOR SHARE;

-- name: AddToken :one
-- ttl_seconds 0 means no expiry before not_after. Inserts no row if the user has the maximum number of tokens.
INSERT INTO tokens (id, user_id, name, hash, made_with, expires_at)
SELECT @id, @user_id, @name, @hash, sqlc.narg(made_with),
       LEAST(CASE WHEN @ttl_seconds::float8 > 0 THEN now() + make_interval(secs => @ttl_seconds::float8) END, sqlc.narg(not_after)::timestamptz)
WHERE (SELECT count(*) FROM tokens t WHERE t.user_id = @user_id) < @max::bigint
RETURNING *;

-- name: DeleteTokensOf :execrows
DELETE FROM tokens WHERE user_id = @user_id;

-- name: CreatedWith :one
-- The number of tokens created with this one, directly or indirectly.
WITH RECURSIVE made AS (
    SELECT id FROM tokens WHERE made_with = @id::text
    UNION ALL SELECT t.id FROM tokens t JOIN made m ON t.made_with = m.id)
SELECT count(*) FROM made;

-- name: DeleteToken :one
DELETE FROM tokens WHERE id = @id AND user_id = @user_id RETURNING name;
