-- name: TakeAttempt :one
-- Counts an attempt as failed in advance, so that concurrent attempts cannot exceed the limit. No row means that the
-- attempt is too early. After "free" attempts, each further attempt waits twice as long, from 2 s to 5 minutes. Counts
-- expire 15 minutes after the last attempt.
INSERT INTO login_throttle AS t (key, failures, last_at) VALUES (sqlc.arg(key), 1, now())
ON CONFLICT (key) DO UPDATE
SET failures = CASE WHEN t.last_at < now() - interval '15 minutes' THEN 1 ELSE t.failures + 1 END, last_at = now()
WHERE t.failures < sqlc.arg(free) OR t.last_at <= now() - make_interval(secs => LEAST(300, 2 ^ LEAST(t.failures - sqlc.arg(free) + 1, 9)))
RETURNING failures;

-- name: AttemptWait :one
-- Seconds until the next attempt is allowed.
SELECT GREATEST(1, ceil(extract(epoch FROM last_at - now()) + LEAST(300, 2 ^ LEAST(failures - sqlc.arg(free) + 1, 9))))::integer AS seconds
FROM login_throttle WHERE key = sqlc.arg(key) AND failures >= sqlc.arg(free);

-- name: GiveBackAttempt :exec
UPDATE login_throttle SET failures = GREATEST(failures - 1, 0) WHERE key = @key;

-- name: ForgetAttempts :exec
DELETE FROM login_throttle WHERE key = @key;

-- name: KnownBrowser :one
-- The browser that presents this secret, if it is a known browser of the named account.
SELECT b.id FROM browsers b JOIN users u ON u.id = b.user_id
WHERE u.name = @name AND b.hash = @hash AND b.last_used_at > now() - interval '180 days';

-- name: BrowserSeen :one
-- Whether any account has signed in with the browser.
SELECT EXISTS (SELECT FROM browsers WHERE hash = @hash AND last_used_at > now() - interval '180 days');

-- name: KnowBrowser :exec
INSERT INTO browsers (id, user_id, hash) VALUES (@id, @user_id, @hash)
ON CONFLICT ON CONSTRAINT browser_known_once DO UPDATE SET last_used_at = now();

-- name: TrimBrowsers :exec
DELETE FROM browsers b WHERE b.user_id = @user_id
    AND b.id NOT IN (SELECT k.id FROM browsers k WHERE k.user_id = @user_id ORDER BY k.last_used_at DESC, k.id DESC LIMIT @most::integer);

-- name: ForgetBrowsersOf :exec
DELETE FROM browsers WHERE user_id = @user_id;

-- name: SweepBrowsers :exec
DELETE FROM browsers WHERE last_used_at < now() - interval '180 days';
