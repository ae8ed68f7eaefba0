-- name: AddCustomization :exec
INSERT INTO customizations (id, project_id, name, description, kind, variables, by_key, sealed, changed_by)
VALUES (@id, sqlc.narg(project_id), @name, @description, @kind, @variables, @by_key, @sealed, @changed_by);

-- name: AddCustomizationsAlone :exec
-- Serializes additions to a project, so that each counts the previous ones.
SELECT pg_advisory_xact_lock(hashtext('quantix customizations ' || @project::text));

-- name: CountCustomizations :one
SELECT count(*)::bigint FROM customizations WHERE project_id IS NOT DISTINCT FROM sqlc.narg(project_id)::text;

-- name: ListCustomizations :many
-- Customization specs of visible projects, and those of the fleet that are published to one. fleet.MaxCustomizations
-- limits their number.
SELECT sqlc.embed(c), COALESCE(p.name, '')::text AS project_name FROM customizations c LEFT JOIN projects p ON p.id = c.project_id
WHERE @all_projects::boolean OR c.project_id = ANY (@projects::text[]) OR c.project_id IS NULL AND EXISTS (
    SELECT 1 FROM customization_grants g WHERE g.customization_id = c.id AND (g.project_id IS NULL OR g.project_id = ANY (@projects)))
ORDER BY c.name, c.id LIMIT @most;

-- name: GetCustomization :one
SELECT sqlc.embed(c), COALESCE(p.name, '')::text AS project_name FROM customizations c LEFT JOIN projects p ON p.id = c.project_id
WHERE c.id = @id AND (@all_projects::boolean OR c.project_id = ANY (@projects::text[]) OR c.project_id IS NULL AND EXISTS (
    SELECT 1 FROM customization_grants g WHERE g.customization_id = c.id AND (g.project_id IS NULL OR g.project_id = ANY (@projects))));

-- name: LockCustomization :one
SELECT * FROM customizations WHERE id = @id FOR UPDATE;

-- name: ChangeCustomization :exec
UPDATE customizations SET name = @name, description = @description, kind = @kind, variables = @variables, by_key = @by_key, sealed = @sealed,
    changed_by = @changed_by, changed_at = now(), generation = generation + 1
WHERE id = @id;

-- name: DeleteCustomization :exec
DELETE FROM customizations WHERE id = @id;

-- name: CustomizationGrants :many
-- The grants of customization specs to all projects, and those to the projects that an actor sees.
SELECT g.customization_id, g.project_id, COALESCE(p.name, '')::text AS project, g.granted_by, g.granted_at
FROM customization_grants g LEFT JOIN projects p ON p.id = g.project_id
WHERE (@id::text = '' OR g.customization_id = @id) AND (@all_projects::boolean OR g.project_id IS NULL OR g.project_id = ANY (@projects::text[]))
ORDER BY g.customization_id, p.name NULLS FIRST;

-- name: GrantCustomization :execrows
-- project_id NULL grants to all projects.
INSERT INTO customization_grants (customization_id, project_id, granted_by) VALUES (@customization_id, sqlc.narg(project_id), @granted_by) ON CONFLICT DO NOTHING;

-- name: RevokeCustomization :execrows
DELETE FROM customization_grants WHERE customization_id = @customization_id AND project_id IS NOT DISTINCT FROM sqlc.narg(project_id);
