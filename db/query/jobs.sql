-- name: QueueJob :one
-- A waiting job of the same subject and kind takes the newer generation and arguments instead of a second row. What waits for
-- another try stands before no newer order: it is tried now.
WITH sooner AS (
    UPDATE jobs SET run_after = now()
    WHERE subject = @subject AND host_id = @host_id AND state = 'queued' AND kind NOT IN (@kind, 'console.open') AND retries > 0
)
INSERT INTO jobs (id, host_id, project_id, kind, subject, subject_name, args, generation, created_by, user_id)
VALUES (@id, @host_id, @project_id, @kind, @subject, @subject_name, @args, @generation, @created_by, @user_id)
ON CONFLICT (subject, host_id, kind) WHERE state = 'queued' AND kind <> 'console.open'
DO UPDATE SET generation = EXCLUDED.generation, args = EXCLUDED.args, created_by = EXCLUDED.created_by,
              user_id = EXCLUDED.user_id, run_after = now()
RETURNING *;
