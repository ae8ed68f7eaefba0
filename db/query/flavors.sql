-- name: LockFlavorList :exec
-- Serializes additions, so that each counts the previous ones.
SELECT pg_advisory_xact_lock(hashtextextended('flavors', 0));

-- name: CountFlavors :one
SELECT count(*)::bigint FROM flavors;

-- name: AddFlavor :exec
INSERT INTO flavors (id, name, description, cpus, memory_mib, disk_bytes) VALUES (@id, @name, @description, @cpus, @memory_mib, @disk_bytes);

-- name: LockFlavor :one
SELECT * FROM flavors WHERE id = @id FOR UPDATE;

-- name: ChangeFlavor :exec
UPDATE flavors SET name = @name, description = @description, cpus = @cpus, memory_mib = @memory_mib, disk_bytes = @disk_bytes, generation = generation + 1 WHERE id = @id;

-- name: DeleteFlavor :exec
DELETE FROM flavors WHERE id = @id;

-- name: ListFlavors :many
-- All flavors, or those published to one of the projects, by size.
SELECT f.* FROM flavors f
WHERE (@id::text = '' OR f.id = @id)
  AND (@all_flavors::boolean OR EXISTS (SELECT 1 FROM flavor_grants g WHERE g.flavor_id = f.id AND (g.project_id IS NULL OR g.project_id = ANY (@projects::text[]))))
ORDER BY f.cpus, f.memory_mib, f.name;

-- name: FlavorGrants :many
-- The grants of flavors to all projects, and those to the projects that an actor sees.
SELECT g.flavor_id, g.project_id, COALESCE(p.name, '')::text AS project, g.granted_by, g.granted_at
FROM flavor_grants g LEFT JOIN projects p ON p.id = g.project_id
WHERE (@id::text = '' OR g.flavor_id = @id) AND (@all_projects::boolean OR g.project_id IS NULL OR g.project_id = ANY (@projects::text[]))
ORDER BY g.flavor_id, p.name NULLS FIRST;

-- name: GrantFlavor :execrows
-- project_id NULL grants to all projects.
INSERT INTO flavor_grants (flavor_id, project_id, granted_by) VALUES (@flavor_id, sqlc.narg(project_id), @granted_by) ON CONFLICT DO NOTHING;

-- name: RevokeFlavor :execrows
DELETE FROM flavor_grants WHERE flavor_id = @flavor_id AND project_id IS NOT DISTINCT FROM sqlc.narg(project_id);

-- name: ProjectVMRules :one
-- The rules for a project's VMs, and the default pool and network to which they refer. A default that is being deleted,
-- and a network not available to the project, are omitted.
SELECT j.vm_rules, COALESCE(p.id, '')::text AS pool_id, COALESCE(p.name, '')::text AS pool,
       COALESCE(n.id, '')::text AS network_id, COALESCE(n.kind, '')::text AS network_kind, COALESCE(n.name, '')::text AS network
FROM projects j
LEFT JOIN pools p ON p.id = j.default_pool_id AND p.deleted_at IS NULL
LEFT JOIN networks n ON n.id = j.default_network_id AND n.deleted_at IS NULL AND (NOT leads_out(n.id, n.kind) OR EXISTS (
    SELECT 1 FROM network_grants g WHERE g.network_id = n.id AND (g.project_id IS NULL OR g.project_id = j.id)))
WHERE j.id = @id;

-- name: SetProjectVMRules :exec
UPDATE projects SET vm_rules = @vm_rules WHERE id = @id;

-- name: GroupsOfProject :many
-- Names of the security groups that a project's NICs may use, among some.
SELECT g.id, g.name FROM security_groups g
WHERE g.id = ANY (@ids::text[]) AND g.deleted_at IS NULL AND (g.project_id IS NULL OR g.project_id = @project_id::text);
