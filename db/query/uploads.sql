-- name: AddUpload :execrows
-- Inserts no row if the user or the host has reached its limit of open uploads.
INSERT INTO uploads (id, task_id, user_id, host_id, pool_id, volume, size_bytes, checksum, file)
SELECT @id, @task_id, @user_id, @host_id, @pool_id, @volume, @size_bytes, @checksum, @file
WHERE (SELECT count(*) FROM uploads u CROSS JOIN LATERAL (SELECT j.state FROM jobs j WHERE j.task_id = u.task_id OFFSET 0) o WHERE u.user_id = @user_id AND o.state IN ('queued', 'running')) < @of_user::bigint
  AND (SELECT count(*) FROM uploads u CROSS JOIN LATERAL (SELECT j.state FROM jobs j WHERE j.task_id = u.task_id OFFSET 0) o WHERE u.host_id = @host_id AND o.state IN ('queued', 'running')) < @of_host::bigint;

-- name: GetUpload :one
-- An upload of this user.
SELECT sqlc.embed(u), h.name AS host_name, t.state, t.progress, t.note, t.error
FROM uploads u JOIN hosts h ON h.id = u.host_id JOIN tasks t ON t.id = u.task_id WHERE u.id = @id AND u.user_id = @user_id;

-- name: OpenUploads :many
-- The user's open uploads in a pool, or in all pools if the pool is empty.
SELECT sqlc.embed(u), h.name AS host_name, t.state, t.progress, t.note, t.error
FROM uploads u JOIN hosts h ON h.id = u.host_id JOIN tasks t ON t.id = u.task_id
WHERE u.user_id = @user_id AND t.state IN ('queued', 'running') AND (@pool_id::text = '' OR u.pool_id = @pool_id) ORDER BY u.id;

-- name: AwaitUploadHost :execrows
-- Admits the host to the relay for a short time, and deletes expired relay connections.
WITH mine AS (UPDATE uploads SET heard_at = now() WHERE uploads.id = @id AND user_id = @user_id RETURNING uploads.id),
     old AS (DELETE FROM upload_pairs p USING mine WHERE p.upload_id = mine.id AND p.at < now() - interval '1 minute')
INSERT INTO upload_pairs (pair_id, upload_id, session) SELECT @pair_id, mine.id, @session FROM mine;

-- name: QueueUploadOpen :exec
-- Queues a job without a task.
INSERT INTO jobs (id, host_id, kind, subject, args, generation) VALUES (@id, @host_id, 'upload.open', @subject, @args, 0);

-- name: AwaitedUpload :one
-- The user of an upload that was requested from this host within the last 30 seconds.
SELECT u.user_id, p.session, u.host_id FROM upload_pairs p JOIN uploads u ON u.id = p.upload_id
WHERE p.pair_id = @pair_id AND u.host_id = @host_id AND p.at > now() - interval '30 seconds';

-- name: TouchUpload :exec
UPDATE uploads SET heard_at = now() WHERE id = @id;

-- name: StaleUploads :many
-- The tasks of uploads that were idle too long, or last too long in total.
SELECT u.task_id FROM uploads u JOIN tasks t ON t.id = u.task_id
WHERE t.state IN ('queued', 'running') AND (u.heard_at < now() - @patience::interval OR u.created_at < now() - @life::interval) ORDER BY u.id LIMIT 100;

-- name: StopTask :many
-- Ends a task's jobs even if a host is working on them; the hosts' results are then ignored.
UPDATE jobs SET state = 'cancelled', error = @error, ended_at = now(), lease_until = NULL
WHERE task_id = @id AND kind = ANY (@kinds::text[]) AND state IN ('queued', 'running')
RETURNING host_id, subject, attempt, args;
