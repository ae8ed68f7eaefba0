-- name: GetTask :one
-- With own, the user's own tasks that span several projects, and their subtasks, are visible too.
SELECT sqlc.embed(t), COALESCE(h.name, '')::text AS host_name FROM tasks t LEFT JOIN hosts h ON h.id = t.host_id
WHERE t.id = @id AND (@all_projects::boolean OR t.project_id = ANY (@projects::text[])
                      OR t.project_id IS NULL AND (t.steps IS NOT NULL OR t.parent_id IS NOT NULL) AND t.user_id = @own);

-- name: LockOf :exec
-- Locks a task's subject, like LockSubject.
WITH vm AS (SELECT v.id FROM vms v WHERE @subject::text LIKE 'vm:%' AND v.id = substr(@subject::text, 4) FOR UPDATE),
     pool AS (SELECT p.id FROM pools p WHERE @subject::text LIKE 'pool:%' AND p.id = substr(@subject::text, 6) FOR UPDATE)
SELECT (SELECT count(*) FROM vm) + (SELECT count(*) FROM pool);

-- name: CancelTask :one
-- Cancels a pending task and its jobs that no host has started.
WITH unasked AS (UPDATE tasks SET state = 'cancelled', pending = false, held = false, error = @error, ended_at = now() WHERE tasks.id = @id AND pending RETURNING 1),
     waiting AS (UPDATE jobs SET state = 'cancelled', error = @error, ended_at = now() WHERE jobs.task_id = @id AND state = 'queued' RETURNING 1)
SELECT ((SELECT count(*) FROM unasked) + (SELECT count(*) FROM waiting))::bigint;

-- name: CancelUnasked :execrows
UPDATE tasks SET state = 'cancelled', pending = false, held = false, error = @error, ended_at = now() WHERE parent_id = @id AND pending;

-- name: LockSteps :exec
-- Locks the VMs of a task's subtasks with queued jobs, in one order.
SELECT v.id FROM vms v WHERE v.id = ANY (ARRAY(
    SELECT substr(j.subject, 4) FROM tasks t CROSS JOIN LATERAL (SELECT w.subject, w.state FROM jobs w WHERE w.task_id = t.id OFFSET 0) j
    WHERE t.parent_id = @id AND j.state = 'queued' AND j.subject LIKE 'vm:%'))
ORDER BY v.id FOR UPDATE;

-- name: CancelSteps :execrows
-- An upgrade of an agent that has begun is queued while the new agent is tried.
UPDATE jobs j SET state = 'cancelled', error = @error, ended_at = now() FROM tasks t
WHERE t.parent_id = @id AND j.task_id = t.id AND j.state = 'queued' AND (j.attempt = 0 OR j.kind <> 'host.agent.upgrade');

-- name: StepProjects :many
SELECT DISTINCT project_id::text FROM tasks WHERE parent_id = @id AND project_id IS NOT NULL;

-- name: CancelWaitingOf :exec
-- Cancels queued jobs that contradict a newer request.
UPDATE jobs SET state = 'cancelled', error = @error, ended_at = now()
WHERE subject = @subject AND state = 'queued' AND kind = ANY (@kinds::text[]);

-- name: NoteDone :one
-- Adds a task that was already completed when requested.
INSERT INTO tasks (id, host_id, project_id, kind, subject, subject_name, generation, state, progress, note, created_by, user_id, started_at, ended_at)
VALUES (@id, @host_id, @project_id, @kind, @subject, @subject_name, @generation, 'done', 100, @note, @created_by, @user_id, now(), now())
RETURNING *;

-- name: AddSteps :exec
-- Adds a task with a subtask for each ID. A subtask with an error ends at once; the others are pending until a portal
-- queues their jobs. Their generation is 0 or negative: see fleet.Task.Title. Without kinds, the subtasks have the
-- task's kind.
WITH parent AS (
    INSERT INTO tasks (id, host_id, kind, subject, subject_name, project_id, created_by, user_id, generation)
    VALUES (@id, sqlc.narg(host_id), @kind, 'task:' || @id::text, @name, @project_id, @created_by, @user_id, @generation)
)
INSERT INTO tasks (id, parent_id, listed, pending, generation, kind, subject, subject_name, project_id, state, error, created_by, user_id, address, ended_at,
                   held, stage, stage_wait)
SELECT s.id, @id, @listed, s.error = '', @generation, COALESCE(s.kind, @kind::text), s.subject, s.name, NULLIF(s.project, ''), CASE s.error WHEN '' THEN 'queued' ELSE 'failed' END,
       s.error, @created_by, @user_id, @address, CASE WHEN s.error <> '' THEN now() END,
       s.error = '' AND COALESCE(s.stage, 0) > 0, COALESCE(s.stage, 0), COALESCE(s.wait, 0)
FROM (SELECT unnest(@ids::text[]) AS id, unnest(@subjects::text[]) AS subject, unnest(@names::text[]) AS name,
             unnest(@projects::text[]) AS project, unnest(@errors::text[]) AS error, unnest(@stages::integer[]) AS stage, unnest(@waits::integer[]) AS wait,
             unnest(@kinds::text[]) AS kind) s;

-- name: AddStepInputs :exec
-- Stores the inputs of single subtasks.
INSERT INTO task_edits (task_id, edit) SELECT unnest(@ids::text[]), unnest(@inputs::jsonb[]);

-- name: LetStagesBegin :execrows
-- Starts the next stage of each staged task when all earlier subtasks have ended and the stage's wait is over. Upgrades of
-- agents have a pass of their own, because a failure stops them.
WITH next AS MATERIALIZED (
    SELECT DISTINCT ON (w.parent_id) w.parent_id, w.stage, w.stage_wait FROM tasks w
    WHERE w.held AND w.pending AND w.kind <> 'host.agent.upgrade' ORDER BY w.parent_id, w.stage
)
UPDATE tasks t SET held = false FROM next n
WHERE t.held AND t.parent_id = n.parent_id AND t.stage = n.stage
  AND (SELECT b.id FROM tasks b WHERE b.parent_id = ANY (ARRAY[n.parent_id]) AND b.stage < n.stage AND b.state IN ('queued', 'running') LIMIT 1) IS NULL
  AND now() >= COALESCE((SELECT max(b.ended_at) FROM tasks b WHERE b.parent_id = ANY (ARRAY[n.parent_id]) AND b.stage < n.stage), '-infinity') + n.stage_wait * interval '1 second';

-- name: SettleParent :exec
SELECT settle_parent(@id);

-- name: NotifyWaiters :exec
-- Wakes portals that queue the jobs of pending subtasks.
SELECT pg_notify('quantix', 'orders');

-- name: PendingTasks :many
-- Concurrent portals get different pending subtasks. for_kind is the kind of the task with the subtask, and vm_host the
-- host of a VM that migrates.
SELECT t.id, t.parent_id, t.kind, t.subject, t.subject_name, t.user_id, t.created_by, t.address,
       COALESCE((SELECT p.kind FROM tasks p WHERE p.id = t.parent_id), '')::text AS for_kind,
       COALESCE((SELECT v.host_id FROM vms v WHERE t.kind = 'vm.migrate' AND v.id = substr(t.subject, 4)), '')::text AS vm_host
FROM tasks t WHERE t.pending AND NOT t.held AND NOT t.by_portal AND (t.begin_after IS NULL OR t.begin_after <= now()) ORDER BY t.id LIMIT 20 FOR UPDATE OF t SKIP LOCKED;

-- name: DelayTask :exec
-- Lets a pending subtask wait until another subtask of its task ends, or for 3 s. The note says why.
UPDATE tasks SET begin_after = now() + interval '3 seconds', note = @note WHERE id = @id AND pending;

-- name: EndedChildren :many
SELECT id, kind, subject, state, attempt, error FROM tasks WHERE parent_id = @parent_id AND state NOT IN ('queued', 'running') ORDER BY id;

-- name: TaskState :one
-- The state of a task; empty: it was swept.
SELECT COALESCE((SELECT state FROM tasks WHERE id = @id), '')::text AS state;

-- name: RefuseTask :exec
UPDATE tasks SET state = 'failed', pending = false, note = '', error = @error, ended_at = now() WHERE id = @id;

-- name: EndUnchanged :exec
-- Ends a subtask that required no change.
UPDATE tasks SET state = 'done', pending = false, progress = 100, note = @note, ended_at = now() WHERE id = @id AND pending;

-- name: TasksSeen :many
-- The tasks among these that are visible to an actor with access to some projects.
SELECT id FROM tasks WHERE id = ANY (@ids::text[])
  AND (project_id = ANY (@projects::text[]) OR project_id IS NULL AND (steps IS NOT NULL OR parent_id IS NOT NULL) AND user_id = @own);

-- name: UserNow :one
-- The user's current permissions; no row if the account is deleted or disabled.
SELECT u.id, u.name, u.role,
       COALESCE((SELECT jsonb_object_agg(m.project_id, m.role) FROM project_members m WHERE m.user_id = u.id), '{}')::jsonb AS projects
FROM users u WHERE u.id = @id AND NOT u.disabled;

-- name: CountOpenJobs :one
-- The numbers of queued and running jobs, including consoles. Each number is read from an index.
SELECT (SELECT count(*) FROM jobs WHERE state = 'queued' AND run_after <= 'infinity') AS queued,
       (SELECT count(*) FROM jobs WHERE state = 'running' AND started_at IS NOT NULL) AS running;

-- name: TaskMarks :many
-- The newest tasks of a subject that were created in a time.
SELECT t.id, t.kind, t.state, t.generation, t.created_at, t.started_at, t.ended_at FROM tasks t
WHERE t.subject = @subject AND t.created_at >= @from_time AND t.created_at < @to_time AND (@all_projects::boolean OR t.project_id = ANY (@projects::text[]))
ORDER BY t.id DESC LIMIT @max_rows;

-- name: HostTaskMarks :many
-- The newest tasks of some kinds for a host as a whole that were created in a time. Few tasks have these kinds.
SELECT t.id, t.kind, t.state, t.generation, t.created_at, t.started_at, t.ended_at FROM tasks t
WHERE t.kind = ANY (@kinds::text[]) AND t.listed AND t.state IN ('done', 'failed', 'cancelled', 'unknown')
  AND t.host_id = @host_id AND t.created_at >= @from_time AND t.created_at < @to_time
UNION ALL
SELECT t.id, t.kind, t.state, t.generation, t.created_at, t.started_at, t.ended_at FROM tasks t
WHERE t.state IN ('queued', 'running') AND t.kind = ANY (@kinds::text[]) AND t.host_id = @host_id AND t.created_at >= @from_time AND t.created_at < @to_time
ORDER BY id DESC LIMIT @max_rows;
