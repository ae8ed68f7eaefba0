-- name: GetUser :one
SELECT sqlc.embed(u), COALESCE((SELECT jsonb_object_agg(m.project_id, m.role) FROM project_members m WHERE m.user_id = u.id), '{}')::jsonb AS projects
FROM users u WHERE u.id = @id;

-- name: UserByName :one
SELECT * FROM users WHERE name = @name;

-- name: HasUsers :one
SELECT EXISTS (SELECT FROM users);

-- name: AddFirstUser :execrows
-- If several portals start at once, one inserts the row.
INSERT INTO users (id, name, role, password_hash, must_change)
SELECT @id, @name, @role, @password_hash, true WHERE NOT EXISTS (SELECT FROM users)
ON CONFLICT (name) DO NOTHING;

-- name: AddUser :one
INSERT INTO users (id, name, role, password_hash, must_change, disabled)
VALUES (@id, @name, @role, @password_hash, true, @disabled)
RETURNING *;

-- name: LockAdmins :many
-- Locks all administrators in one order, so that two transactions cannot remove the last two.
SELECT id FROM users WHERE role = 'admin' AND NOT disabled ORDER BY id FOR UPDATE;

-- name: LockUser :one
SELECT * FROM users WHERE id = @id FOR UPDATE;

-- name: ChangeUser :one
-- A new role or disabling ends the user's sessions.
UPDATE users
SET name = @name, role = @role, disabled = @disabled,
    sessions_from = CASE WHEN role <> @role OR disabled <> @disabled THEN clock_timestamp() ELSE sessions_from END
WHERE id = @id
RETURNING *;

-- name: DeleteUser :exec
DELETE FROM users WHERE id = @id;

-- name: ChangePassword :one
-- Ends the user's sessions. Returns no row if the password has changed since old_hash was read.
UPDATE users SET password_hash = @password_hash, must_change = @must_change, sessions_from = clock_timestamp()
WHERE id = @id AND password_hash = @old_hash
RETURNING sessions_from;
