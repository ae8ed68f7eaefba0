-- name: AddUpload :execrows
-- No row: the person, or the host, has that many open already.
INSERT INTO uploads (id, task_id, user_id, host_id, pool_id, volume, size_bytes, checksum, file)
SELECT @id, @task_id, @user_id, @host_id, @pool_id, @volume, @size_bytes, @checksum, @file
WHERE (SELECT count(*) FROM uploads u CROSS JOIN LATERAL (SELECT j.state FROM jobs j WHERE j.task_id = u.task_id OFFSET 0) o WHERE u.user_id = @user_id AND o.state IN ('queued', 'running')) < @of_user::bigint
  AND (SELECT count(*) FROM uploads u CROSS JOIN LATERAL (SELECT j.state FROM jobs j WHERE j.task_id = u.task_id OFFSET 0) o WHERE u.host_id = @host_id AND o.state IN ('queued', 'running')) < @of_host::bigint;

-- name: GetUpload :one
-- A person's own.
SELECT sqlc.embed(u), h.name AS host_name, t.state, t.progress, t.note, t.error
FROM uploads u JOIN hosts h ON h.id = u.host_id JOIN tasks t ON t.id = u.task_id WHERE u.id = @id AND u.user_id = @user_id;

-- name: OpenUploads :many
-- A person's own that have not ended; pool empty: of all pools.
SELECT sqlc.embed(u), h.name AS host_name, t.state, t.progress, t.note, t.error
FROM uploads u JOIN hosts h ON h.id = u.host_id JOIN tasks t ON t.id = u.task_id
WHERE u.user_id = @user_id AND t.state IN ('queued', 'running') AND (@pool_id::text = '' OR u.pool_id = @pool_id) ORDER BY u.id;

-- name: AwaitUploadHost :execrows
-- From now on its host is let in at the pair, for a while. What was let in before is forgotten.
WITH mine AS (UPDATE uploads SET heard_at = now() WHERE uploads.id = @id AND user_id = @user_id RETURNING uploads.id),
     old AS (DELETE FROM upload_pairs p USING mine WHERE p.upload_id = mine.id AND p.at < now() - interval '1 minute')
INSERT INTO upload_pairs (pair_id, upload_id, session) SELECT @pair_id, mine.id, @session FROM mine;

-- name: QueueUploadOpen :exec
-- A job of no task.
INSERT INTO jobs (id, host_id, kind, subject, args, generation) VALUES (@id, @host_id, 'upload.open', @subject, @args, 0);

-- name: AwaitedUpload :one
-- For whom a host is to bring an upload of its own, asked a moment ago.
SELECT u.user_id, p.session, u.host_id FROM upload_pairs p JOIN uploads u ON u.id = p.upload_id
WHERE p.pair_id = @pair_id AND u.host_id = @host_id AND p.at > now() - interval '30 seconds';

-- name: TouchUpload :exec
UPDATE uploads SET heard_at = now() WHERE id = @id;

-- name: StaleUploads :many
-- The tasks of uploads that nobody continued for that long, or that last too long in all.
SELECT u.task_id FROM uploads u JOIN tasks t ON t.id = u.task_id
WHERE t.state IN ('queued', 'running') AND (u.heard_at < now() - @patience::interval OR u.created_at < now() - @life::interval) ORDER BY u.id LIMIT 100;

-- name: StopTask :many
-- Ends a task's job though its host may be at it; what comes from there about it counts no more.
UPDATE jobs SET state = 'cancelled', error = @error, ended_at = now(), lease_until = NULL
WHERE task_id = @id AND kind = ANY (@kinds::text[]) AND state IN ('queued', 'running')
RETURNING host_id, subject, attempt, args;
