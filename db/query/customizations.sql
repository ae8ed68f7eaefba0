-- name: AddCustomization :exec
INSERT INTO customizations (id, project_id, name, description, kind, variables, by_key, sealed, changed_by)
VALUES (@id, sqlc.narg(project_id), @name, @description, @kind, @variables, @by_key, @sealed, @changed_by);

-- name: AddCustomizationsAlone :exec
-- Serializes additions to a project, so that each counts the previous ones.
SELECT pg_advisory_xact_lock(hashtext('quantix customizations ' || @project::text));

-- name: CountCustomizations :one
SELECT count(*)::bigint FROM customizations WHERE project_id IS NOT DISTINCT FROM sqlc.narg(project_id)::text;

-- name: ListCustomizations :many
-- Global customization specs and those of visible projects. fleet.MaxCustomizations limits their number.
SELECT sqlc.embed(c), COALESCE(p.name, '')::text AS project_name FROM customizations c LEFT JOIN projects p ON p.id = c.project_id
WHERE c.project_id IS NULL OR @all_projects::boolean OR c.project_id = ANY (@projects::text[])
ORDER BY c.name, c.id LIMIT @most;

-- name: GetCustomization :one
SELECT sqlc.embed(c), COALESCE(p.name, '')::text AS project_name FROM customizations c LEFT JOIN projects p ON p.id = c.project_id
WHERE c.id = @id AND (c.project_id IS NULL OR @all_projects::boolean OR c.project_id = ANY (@projects::text[]));

-- name: LockCustomization :one
SELECT * FROM customizations WHERE id = @id FOR UPDATE;

-- name: ChangeCustomization :exec
UPDATE customizations SET name = @name, description = @description, kind = @kind, variables = @variables, by_key = @by_key, sealed = @sealed,
    changed_by = @changed_by, changed_at = now(), generation = generation + 1
WHERE id = @id;

-- name: DeleteCustomization :exec
DELETE FROM customizations WHERE id = @id;
