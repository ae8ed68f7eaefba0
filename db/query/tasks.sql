-- name: GetTask :one
SELECT sqlc.embed(j), h.name AS host_name FROM jobs j JOIN hosts h ON h.id = j.host_id
WHERE j.id = @id AND (@all_projects::boolean OR j.project_id = ANY (@projects::text[]));

-- name: CancelTask :execrows
UPDATE jobs SET state = 'cancelled', error = @error, ended_at = now() WHERE id = @id AND state = 'queued';

-- name: CancelWaitingOf :exec
-- Waiting orders about a subject that a newer order contradicts.
UPDATE jobs SET state = 'cancelled', error = @error, ended_at = now()
WHERE subject = @subject AND state = 'queued' AND kind = ANY (@kinds::text[]);

-- name: NoteDone :one
-- A task that was over when it was asked for.
INSERT INTO jobs (id, host_id, project_id, kind, subject, subject_name, generation, state, progress, note, created_by, user_id, started_at, ended_at)
VALUES (@id, @host_id, @project_id, @kind, @subject, @subject_name, @generation, 'done', 100, @note, @created_by, @user_id, now(), now())
RETURNING *;

-- name: CountOpenJobs :one
-- All that wait and run, consoles too.
SELECT count(*) FILTER (WHERE state = 'queued') AS queued, count(*) FILTER (WHERE state = 'running') AS running
FROM jobs WHERE state IN ('queued', 'running');
