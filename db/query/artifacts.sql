-- name: JobForArtifact :one
-- The running job of the host that may send an archive, locked, with the user of its task.
SELECT j.kind, COALESCE(t.id, '')::text AS task_id, COALESCE(t.created_by, '')::text AS created_by
FROM jobs j LEFT JOIN tasks t ON t.id = j.task_id
WHERE j.id = @id AND j.host_id = @host_id AND j.epoch = @epoch AND j.state = 'running' FOR SHARE OF j;

-- name: AddArtifact :exec
INSERT INTO host_artifacts (id, host_id, kind, job_id, task_id, created_by, size, summary, archive)
VALUES (@id, @host_id, @kind, @job_id, @task_id, @created_by, @size, @summary, @archive)
ON CONFLICT (job_id) DO UPDATE SET created_at = now(), size = EXCLUDED.size, summary = EXCLUDED.summary, archive = EXCLUDED.archive;

-- name: PruneArtifacts :exec
-- Deletes all but the newest archives of the host and kind.
DELETE FROM host_artifacts a WHERE a.host_id = @host_id AND a.kind = @kind AND a.id NOT IN (
    SELECT n.id FROM host_artifacts n WHERE n.host_id = @host_id AND n.kind = @kind ORDER BY n.created_at DESC, n.id DESC LIMIT @kept);

-- name: ListArtifacts :many
SELECT id, host_id, kind, task_id, created_by, created_at, size, summary FROM host_artifacts
WHERE host_id = @host_id AND kind = @kind ORDER BY created_at DESC, id DESC;

-- name: GetArtifact :one
SELECT * FROM host_artifacts WHERE host_id = @host_id AND id = @id;

-- name: OpenHostCommand :one
-- The newest task of the kind on the host that has not ended.
SELECT t.id FROM tasks t JOIN jobs j ON j.task_id = t.id
WHERE j.subject = @subject AND j.host_id = @host_id AND j.kind = @kind AND j.state IN ('queued', 'running') ORDER BY t.id DESC LIMIT 1;

-- name: JobsOnHost :many
-- The running jobs of the host except those of some kinds, with the names of their objects.
SELECT j.kind, COALESCE(t.subject_name, '')::text AS name FROM jobs j LEFT JOIN tasks t ON t.id = j.task_id
WHERE j.host_id = @host_id AND j.state = 'running' AND j.started_at IS NOT NULL AND j.kind <> ALL (@surviving::text[]) ORDER BY j.id LIMIT 100;

-- name: CancelUnclaimedHostCommands :exec
-- Cancels commands to agents that their hosts did not get in time.
UPDATE jobs SET state = 'cancelled', error = @error, ended_at = now()
WHERE kind IN ('host.diagnose', 'host.agent.log', 'host.agent.restart') AND state = 'queued' AND attempt = 0 AND created_at < now() - @within::interval;

-- name: FailLostRestarts :exec
-- Ends restarts of agents that did not come back in time.
UPDATE jobs SET state = 'failed', error = @error, ended_at = now()
WHERE kind = 'host.agent.restart' AND state IN ('queued', 'running') AND attempt > 0
  AND started_at < now() - @within::interval;
