-- name: GetProject :one
SELECT * FROM projects WHERE id = @id;

-- name: AddProject :exec
INSERT INTO projects (id, name, description) VALUES (@id, @name, @description);

-- name: ChangeProject :one
UPDATE projects SET name = @name, description = @description WHERE id = @id RETURNING id;

-- name: SetProjectDefaults :one
-- Returns the defaults as stored. A pool or network that does not exist or is being deleted is stored as NULL.
UPDATE projects SET default_pool_id = (SELECT p.id FROM pools p WHERE p.id = @pool_id::text AND p.deleted_at IS NULL),
                    default_network_id = (SELECT n.id FROM networks n WHERE n.id = @network_id::text AND n.deleted_at IS NULL)
WHERE projects.id = @id RETURNING default_pool_id, default_network_id;

-- name: ProjectDefaults :one
-- The project's default pool and network with names. Defaults that are being deleted or not published to the project are
-- omitted.
SELECT COALESCE(p.id, '')::text AS pool_id, COALESCE(p.name, '')::text AS pool,
       COALESCE(n.id, '')::text AS network_id, COALESCE(n.kind, '')::text AS network_kind, COALESCE(n.name, '')::text AS network
FROM projects j
LEFT JOIN pools p ON p.id = j.default_pool_id AND p.deleted_at IS NULL AND EXISTS (
    SELECT 1 FROM pool_grants g WHERE g.pool_id = p.id AND (g.project_id IS NULL OR g.project_id = j.id))
LEFT JOIN networks n ON n.id = j.default_network_id AND n.deleted_at IS NULL AND EXISTS (
    SELECT 1 FROM network_grants g WHERE g.network_id = n.id AND (g.project_id IS NULL OR g.project_id = j.id))
WHERE j.id = @id;

-- name: DeleteProject :one
DELETE FROM projects WHERE id = @id RETURNING name;

-- name: ListMembers :many
SELECT m.user_id, u.name, m.role FROM project_members m JOIN users u ON u.id = m.user_id
WHERE m.project_id = @project_id ORDER BY u.name;

-- name: ProjectAndUser :one
-- Locks both rows, so that a membership refers to existing rows.
SELECT p.name AS project, u.name AS person FROM projects p, users u WHERE p.id = @project_id AND u.id = @user_id
FOR KEY SHARE;

-- name: SetMember :exec
INSERT INTO project_members (project_id, user_id, role) VALUES (@project_id, @user_id, @role)
ON CONFLICT (project_id, user_id) DO UPDATE SET role = EXCLUDED.role;

-- name: RemoveMember :execrows
DELETE FROM project_members WHERE project_id = @project_id AND user_id = @user_id;
