-- name: AddPlan :execrows
-- Inserts no row if the user has the maximum number of open plans.
INSERT INTO vm_plans (id, user_id, project_id, host_id, vm_id, vm, asked, changes)
SELECT @id, @user_id, @project_id, @host_id, sqlc.narg(vm_id)::text, @vm, @asked, @changes
WHERE (SELECT count(*) FROM vm_plans p WHERE p.user_id = @user_id AND p.drawing IS NULL AND p.asked_at > now() - @patience::interval) < @most::bigint;

-- name: DropOldPlans :exec
-- Deletes all plans of the user except the newest.
DELETE FROM vm_plans WHERE id = ANY (ARRAY(SELECT p.id FROM vm_plans p WHERE p.user_id = @user_id ORDER BY p.asked_at DESC OFFSET @most::bigint LIMIT 100));

-- name: QueuePlan :exec
-- Queues a job without a task.
INSERT INTO jobs (id, host_id, kind, subject, args, generation) VALUES (@id, @host_id, 'vm.plan', @subject, @args, 0);

-- name: GetPlan :one
-- A plan of this user.
SELECT sqlc.embed(p), COALESCE(h.name, '')::text AS host_name, (p.drawing IS NULL AND p.asked_at < now() - @patience::interval)::boolean AS silent
FROM vm_plans p LEFT JOIN hosts h ON h.id = p.host_id WHERE p.id = @id AND p.user_id = @user_id AND p.asked_at > now() - @life::interval;

-- name: TakePlan :one
-- Removes a plan for execution. A second call finds no row.
DELETE FROM vm_plans p WHERE p.id = @id AND p.user_id = @user_id AND p.asked_at > now() - @life::interval RETURNING p.vm_id, p.asked;

-- name: AnswerPlan :exec
-- Stores the host's first answer to a plan; later answers are ignored. Pages of the VM are notified.
WITH answered AS (
    UPDATE vm_plans SET drawing = @drawing, failed = @failed WHERE id = @id AND host_id = @host_id AND drawing IS NULL RETURNING vm_id
)
SELECT tell('vm:' || answered.vm_id) FROM answered WHERE answered.vm_id IS NOT NULL;

-- name: SweepPlans :execrows
-- Deletes expired plans. An offline host that comes back then gets a job without a VM and does nothing.
DELETE FROM vm_plans WHERE id = ANY (ARRAY(SELECT p.id FROM vm_plans p WHERE p.asked_at < now() - @life::interval ORDER BY p.asked_at LIMIT @most::integer));

-- name: AddTaskEdit :exec
INSERT INTO task_edits (task_id, edit) VALUES (@task_id, @edit);

-- name: TaskEdit :one
-- The input stored with the subtask, else that of its parent task.
SELECT e.edit FROM tasks t JOIN task_edits e ON e.task_id IN (t.id, t.parent_id) WHERE t.id = @id ORDER BY e.task_id = t.id DESC LIMIT 1;
