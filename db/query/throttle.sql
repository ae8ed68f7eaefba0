-- name: TakeAttempt :one
-- Counts an attempt as failed before it is tried, so that many at once cannot slip through. No row: too early. After "free"
-- attempts each further one waits twice as long, from 2 s up to 5 minutes; all is forgotten 15 minutes after the last one.
INSERT INTO login_throttle AS t (key, failures, last_at) VALUES (sqlc.arg(key), 1, now())
ON CONFLICT (key) DO UPDATE
SET failures = CASE WHEN t.last_at < now() - interval '15 minutes' THEN 1 ELSE t.failures + 1 END, last_at = now()
WHERE t.failures < sqlc.arg(free) OR t.last_at <= now() - make_interval(secs => LEAST(300, 2 ^ LEAST(t.failures - sqlc.arg(free) + 1, 9)))
RETURNING failures;

-- name: AttemptWait :one
-- Seconds until the next attempt is taken.
SELECT GREATEST(1, ceil(extract(epoch FROM last_at - now()) + LEAST(300, 2 ^ LEAST(failures - sqlc.arg(free) + 1, 9))))::integer AS seconds
FROM login_throttle WHERE key = sqlc.arg(key) AND failures >= sqlc.arg(free);

-- name: GiveBackAttempt :exec
UPDATE login_throttle SET failures = GREATEST(failures - 1, 0) WHERE key = @key;

-- name: ForgetAttempts :exec
DELETE FROM login_throttle WHERE key = @key;
