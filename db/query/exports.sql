-- name: LockExports :exec
-- Serializes counts of a project's exports.
SELECT pg_advisory_xact_lock(hashtextextended('exports of ' || @project_id::text, 0));

-- name: AddExport :execrows
-- Inserts no row if the project has reached its limit.
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
-- Expired exports, except those whose job has not ended.
SELECT e.id FROM (SELECT o.id, o.task_id, o.expires_at FROM exports o WHERE o.expires_at < now() ORDER BY o.expires_at LIMIT 100) e
CROSS JOIN LATERAL (SELECT t.state FROM tasks t WHERE t.id = e.task_id OFFSET 0) t WHERE t.state NOT IN ('queued', 'running') ORDER BY e.expires_at;

-- name: PoolsWithAppliances :many
-- The pools in which a host reports an appliance file.
SELECT DISTINCT s.object_id::text AS pool_id FROM assignments s
WHERE s.noun = 'pool' AND s.status @? '$.volumes[*].appliance' ORDER BY 1 LIMIT 100;

-- name: ExportsInPool :many
-- The export files of a pool with their expiry.
SELECT e.volume, e.host_id, e.expires_at FROM exports e WHERE e.pool_id = @pool_id;
