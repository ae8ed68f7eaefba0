-- name: NoteSignIn :one
-- Returns the start time of the user's session. The row lock orders a sign-in against a password change, so that no
-- session with the old password starts later. Returns no row if the account has changed since it was read.
UPDATE users SET last_seen_at = clock_timestamp()
WHERE id = @id AND password_hash = @password_hash AND NOT disabled
RETURNING last_seen_at;

-- name: UserOfSession :one
-- The user of a browser session that began at signed_in_at; no row if the session has ended. The visit is recorded at
-- most once a minute.
WITH seen AS (
    UPDATE users SET last_seen_at = now()
    WHERE id = @id AND NOT disabled AND sessions_from <= @signed_in_at AND last_seen_at < now() - interval '1 minute')
SELECT u.id, u.name, u.role, u.must_change,
       COALESCE((SELECT jsonb_object_agg(m.project_id, m.role) FROM project_members m WHERE m.user_id = u.id), '{}')::jsonb AS projects
FROM users u WHERE u.id = @id AND NOT u.disabled AND u.sessions_from <= @signed_in_at;
