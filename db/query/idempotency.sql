-- name: ForgetOldKey :exec
DELETE FROM idempotency WHERE user_id = @user_id AND key = @key AND created_at < now() - interval '24 hours';

-- name: TakeKey :execrows
-- Waits for the end of a concurrent request with the same key.
INSERT INTO idempotency (user_id, key, request) VALUES (@user_id, @key, @request) ON CONFLICT DO NOTHING;

-- name: KeepAnswer :exec
UPDATE idempotency SET answer = @answer WHERE user_id = @user_id AND key = @key;

-- name: KeyInUse :one
SELECT request, answer FROM idempotency WHERE user_id = @user_id AND key = @key;

-- name: SweepIdempotency :exec
DELETE FROM idempotency WHERE created_at < now() - interval '24 hours';
