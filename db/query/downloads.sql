-- name: LockTransfers :exec
-- Who counts what is open of a person, and then of a host, sees what others have opened just before: both locks, always in this order.
SELECT pg_advisory_xact_lock(hashtextextended('transfers of ' || @user_id::text, 0)), pg_advisory_xact_lock(hashtextextended('transfers on ' || @host_id::text, 0));

-- name: QueueVolumeRead :exec
-- A job of no task.
INSERT INTO jobs (id, host_id, kind, subject, args, generation) VALUES (@id, @host_id, 'volume.read', @subject, @args, 0);

-- name: AwaitVolume :execrows
-- From now on its host is let in at the pair, for a while. No row: the person, or the host, has that many open already.
INSERT INTO volume_reads (pair_id, job_id, user_id, session, host_id)
SELECT @pair_id, @job_id, @user_id, @session, @host_id
WHERE (SELECT count(*) FROM volume_reads r JOIN jobs j ON j.id = r.job_id WHERE r.user_id = @user_id AND j.state IN ('queued', 'running')) < @of_user::bigint
  AND (SELECT count(*) FROM volume_reads r JOIN jobs j ON j.id = r.job_id WHERE r.host_id = @host_id AND j.state IN ('queued', 'running')) < @of_host::bigint;

-- name: AwaitedVolume :one
-- For whom a host is to bring a volume of its own, asked a moment ago.
SELECT user_id, session, host_id FROM volume_reads WHERE pair_id = @pair_id AND host_id = @host_id AND at > now() - interval '30 seconds';

-- name: MigrateVolume :exec
-- Nobody waits for the volume any more: what no host has begun is over, and one that has is told so by its broken connection.
UPDATE jobs j SET state = 'cancelled', error = 'Nobody waits for it any more.', ended_at = now()
FROM volume_reads r WHERE r.pair_id = @pair_id AND r.user_id = @user_id AND j.id = r.job_id AND j.state = 'queued';
