-- name: GetProject :one
SELECT * FROM projects WHERE id = @id;

-- name: AddProject :exec
INSERT INTO projects (id, name, description) VALUES (@id, @name, @description);

-- name: ChangeProject :one
UPDATE projects SET name = @name, description = @description WHERE id = @id RETURNING id;

-- name: DeleteProject :one
DELETE FROM projects WHERE id = @id RETURNING name;

-- name: ListMembers :many
SELECT m.user_id, u.name, m.role FROM project_members m JOIN users u ON u.id = m.user_id
WHERE m.project_id = @project_id ORDER BY u.name;

-- name: ProjectAndUser :one
-- Holds both rows, so that a member is added to what exists.
SELECT p.name AS project, u.name AS person FROM projects p, users u WHERE p.id = @project_id AND u.id = @user_id
FOR KEY SHARE;

-- name: SetMember :exec
INSERT INTO project_members (project_id, user_id, role) VALUES (@project_id, @user_id, @role)
ON CONFLICT (project_id, user_id) DO UPDATE SET role = EXCLUDED.role;

-- name: RemoveMember :execrows
DELETE FROM project_members WHERE project_id = @project_id AND user_id = @user_id;
