-- name: LockTransfers :exec
-- Serializes counts per user and per host. The locks are always taken in this order.
SELECT pg_advisory_xact_lock(hashtextextended('transfers of ' || @user_id::text, 0)), pg_advisory_xact_lock(hashtextextended('transfers on ' || @host_id::text, 0));

-- name: QueueVolumeRead :exec
-- Queues a job without a task.
INSERT INTO jobs (id, host_id, kind, subject, args, generation) VALUES (@id, @host_id, 'volume.read', @subject, @args, 0);

-- name: AwaitVolume :execrows
-- Admits the host to the relay for a short time. Inserts no row if the user or the host has reached its limit of open
-- downloads.
INSERT INTO volume_reads (pair_id, job_id, user_id, session, host_id)
SELECT @pair_id, @job_id, @user_id, @session, @host_id
WHERE (SELECT count(*) FROM volume_reads r JOIN jobs j ON j.id = r.job_id WHERE r.user_id = @user_id AND j.state IN ('queued', 'running')) < @of_user::bigint
  AND (SELECT count(*) FROM volume_reads r JOIN jobs j ON j.id = r.job_id WHERE r.host_id = @host_id AND j.state IN ('queued', 'running')) < @of_host::bigint;

-- name: AwaitedVolume :one
-- The user of a download that was requested from this host within the last 30 seconds.
SELECT user_id, session, host_id FROM volume_reads WHERE pair_id = @pair_id AND host_id = @host_id AND at > now() - interval '30 seconds';

-- name: AbandonRelay :exec
-- Ends a download whose user no longer waits: a queued job is cancelled; a running job ends when its connection breaks.
UPDATE jobs j SET state = 'cancelled', error = 'Nobody waits for it any more.', ended_at = now()
FROM volume_reads r WHERE r.pair_id = @pair_id AND r.user_id = @user_id AND j.id = r.job_id AND j.state = 'queued';
