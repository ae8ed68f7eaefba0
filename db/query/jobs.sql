-- name: QueueJob :execrows
-- Queues a job with a task of its own, of the same id, where nothing waits that it would join or hasten, as nearly always; else none.
WITH job AS (
    INSERT INTO jobs (id, task_id, host_id, kind, subject, args, generation)
    SELECT @id::text, @id::text, @host_id, @kind, @subject, @args, @generation
    WHERE NOT EXISTS (SELECT 1 FROM jobs w WHERE w.subject = @subject AND w.host_id = @host_id AND w.state = 'queued' AND w.task_id IS NOT NULL AND w.retries > 0)
    ON CONFLICT (subject, host_id, kind) WHERE state = 'queued' AND task_id IS NOT NULL DO NOTHING
    RETURNING id
)
INSERT INTO tasks (id, host_id, project_id, kind, subject, subject_name, generation, created_by, user_id)
SELECT job.id, @host_id, @project_id, @kind, @subject, @subject_name, @generation, @created_by, @user_id FROM job;

-- name: JoinQueue :one
-- QueueJob where others may wait, and for the child of a task that has no job yet; returns the task. A waiting job of the same
-- subject and kind takes the newer generation and arguments instead of a second row: the order joins that job's task, a child takes
-- the job over into its own. What waits for another try stands before no newer order: it is tried now.
WITH sooner AS (
    UPDATE jobs w SET run_after = now()
    WHERE w.subject = @subject AND w.host_id = @host_id AND w.state = 'queued' AND w.task_id IS NOT NULL AND w.kind <> @kind AND w.retries > 0
), job AS (
    INSERT INTO jobs (id, task_id, host_id, kind, subject, args, generation)
    VALUES (@id, COALESCE(sqlc.narg(child)::text, @id), @host_id, @kind, @subject, @args, @generation)
    ON CONFLICT (subject, host_id, kind) WHERE state = 'queued' AND task_id IS NOT NULL
    DO UPDATE SET generation = EXCLUDED.generation, args = EXCLUDED.args, run_after = CASE WHEN jobs.run_after = never() THEN jobs.run_after ELSE now() END, task_id = COALESCE(sqlc.narg(child)::text, jobs.task_id)
    RETURNING id, task_id
), made AS (
    INSERT INTO tasks (id, host_id, project_id, kind, subject, subject_name, generation, created_by, user_id)
    SELECT @id, @host_id, @project_id, @kind, @subject, @subject_name, @generation, @created_by, @user_id FROM job WHERE job.task_id = @id
), begun AS (
    UPDATE tasks t SET pending = false, host_id = @host_id, generation = @generation WHERE t.id = sqlc.narg(child)::text
)
SELECT task_id::text FROM job;

-- name: AddStep :exec
-- A job that is a part of another's task, beside its own.
INSERT INTO jobs (id, task_id, role, host_id, kind, subject, args, generation) VALUES (@id, @task_id, @role, @host_id, @kind, @subject, @args, 0);

-- name: NameStep :exec
-- Of a task of several parts each has a name, by which the task counts it.
UPDATE jobs SET role = @role WHERE task_id = @task_id AND id <> ALL (@steps::text[]) AND role = '';

-- name: JobsAbout :many
-- What has not ended about a subject, of that kind. It does not end before the transaction does: what is to wait for it would wait for ever.
SELECT id, host_id FROM jobs WHERE subject = @subject AND kind = @kind AND state IN ('queued', 'running') AND task_id IS NOT NULL ORDER BY id FOR SHARE;

-- name: WaitFor :exec
-- The task's waiting job begins when the others have ended.
WITH later AS (
    UPDATE jobs SET run_after = never() WHERE jobs.task_id = @task_id AND jobs.kind = @kind AND jobs.state = 'queued' RETURNING id
)
INSERT INTO job_waits (job_id, for_id) SELECT later.id, f.id FROM later CROSS JOIN (SELECT unnest(@others::text[]) AS id) f ON CONFLICT DO NOTHING;

-- name: JoinTask :exec
-- Who asked last for what waits already has asked for it; a part of somebody's order about many stays theirs.
UPDATE tasks SET created_by = @created_by, user_id = @user_id WHERE id = @id AND parent_id IS NULL;

-- name: QueueConsole :exec
-- A job of no task.
INSERT INTO jobs (id, host_id, kind, subject, args, generation) VALUES (@id, @host_id, 'console.open', @subject, @args, @generation);
