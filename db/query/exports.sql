-- name: HoldExports :exec
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
-- Those that are as old as exports become, and those that were not made: nothing is left of them but what is half made.
SELECT e.id FROM exports e JOIN tasks t ON t.id = e.task_id
WHERE e.expires_at < now() AND t.state NOT IN ('queued', 'running') OR t.state IN ('failed', 'cancelled') AND t.ended_at < now() - interval '1 hour'
ORDER BY e.id LIMIT 100;

-- name: PoolsWithAppliances :many
-- The pools of which a host reports a file that a VM can be made of.
SELECT DISTINCT s.object_id::text AS pool_id FROM assignments s
WHERE s.noun = 'pool' AND s.status @? '$.volumes[*].appliance' ORDER BY 1 LIMIT 100;
