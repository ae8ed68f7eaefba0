-- name: LockExports :exec
-- Who counts the exports of a project sees what others have ordered just before.
SELECT pg_advisory_xact_lock(hashtextextended('exports of ' || @project_id::text, 0));

-- name: AddExport :execrows
-- No row: the project has as many already.
INSERT INTO exports (id, vm_id, project_id, task_id, pool_id, host_id, volume, format, disk, created_by, expires_at)
SELECT @id, @vm_id, @project_id, @task_id, @pool_id, @host_id, @volume, @format, @disk, @created_by, now() + @life::interval
WHERE (SELECT count(*) FROM exports e WHERE e.project_id = @project_id) < @most::bigint;

-- name: GetExport :one
SELECT sqlc.embed(e), t.state, t.progress, t.note, t.error FROM exports e JOIN tasks t ON t.id = e.task_id WHERE e.id = @id;

-- name: ListExports :many
SELECT sqlc.embed(e), t.state, t.progress, t.note, t.error FROM exports e JOIN tasks t ON t.id = e.task_id WHERE e.vm_id = @vm_id ORDER BY e.id DESC LIMIT 100;

-- name: DropExport :many
DELETE FROM exports WHERE id = @id RETURNING *;

-- name: StaleExports :many
-- Those that are as old as exports become, but for what is still being made.
SELECT e.id FROM (SELECT o.id, o.task_id, o.expires_at FROM exports o WHERE o.expires_at < now() ORDER BY o.expires_at LIMIT 100) e
CROSS JOIN LATERAL (SELECT t.state FROM tasks t WHERE t.id = e.task_id OFFSET 0) t WHERE t.state NOT IN ('queued', 'running') ORDER BY e.expires_at;

-- name: PoolsWithAppliances :many
-- The pools of which a host reports a file that a VM can be made of.
SELECT DISTINCT s.object_id::text AS pool_id FROM assignments s
WHERE s.noun = 'pool' AND s.status @? '$.volumes[*].appliance' ORDER BY 1 LIMIT 100;

-- name: ExportsInPool :many
-- The files of a pool that were made for somebody to fetch, and until when they stay.
SELECT e.volume, e.host_id, e.expires_at FROM exports e WHERE e.pool_id = @pool_id;
