-- name: QueueJob :execrows
-- Queues a job and its task, with the same ID. It inserts nothing if a queued job exists that the new job would join or
-- start earlier: see JoinQueue.
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
-- Queues a job, or joins a queued one, in the cases that QueueJob leaves out and for a subtask without a job. Returns
-- the task. A queued job with the same subject and kind takes the newer generation and arguments. The request then
-- joins that job's task, except that a subtask takes over the job. Queued retries of the subject run at once, so that
-- they do not block the newer job.
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
    UPDATE tasks t SET pending = false, host_id = @host_id, generation = @generation, note = '' WHERE t.id = sqlc.narg(child)::text
)
SELECT task_id::text FROM job;

-- name: AddStep :exec
-- Adds another job to an existing task.
INSERT INTO jobs (id, task_id, role, host_id, kind, subject, args, generation) VALUES (@id, @task_id, @role, @host_id, @kind, @subject, @args, 0);

-- name: NameStep :exec
-- Gives a role to the jobs of a task that have none, so that the task's steps can be counted.
UPDATE jobs SET role = @role WHERE task_id = @task_id AND id <> ALL (@steps::text[]) AND role = '';

-- name: JobsAbout :many
-- Open jobs of a kind on a subject, locked until the transaction ends: a job that waits for an ended job would wait
-- forever.
SELECT id, host_id FROM jobs WHERE subject = @subject AND kind = @kind AND state IN ('queued', 'running') AND task_id IS NOT NULL ORDER BY id FOR SHARE;

-- name: WaitFor :exec
-- Makes the task's queued job start after the other jobs have ended.
WITH later AS (
    UPDATE jobs SET run_after = never() WHERE jobs.task_id = @task_id AND jobs.kind = @kind AND jobs.state = 'queued' RETURNING id
)
INSERT INTO job_waits (job_id, for_id) SELECT later.id, f.id FROM later CROSS JOIN (SELECT unnest(@others::text[]) AS id) f ON CONFLICT DO NOTHING;

-- name: JoinTask :exec
-- The last user who requests a queued job becomes the creator of its task, except for subtasks.
UPDATE tasks SET created_by = @created_by, user_id = @user_id WHERE id = @id AND parent_id IS NULL;

-- name: QueueConsole :exec
-- Queues a job without a task.
INSERT INTO jobs (id, host_id, kind, subject, args, generation) VALUES (@id, @host_id, 'console.open', @subject, @args, @generation);
