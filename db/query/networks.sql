-- name: HoldNetwork :one
-- The network stays while it is granted.
SELECT name FROM networks WHERE id = @id FOR KEY SHARE;

-- name: GrantNetwork :execrows
-- project_id NULL: to all.
INSERT INTO network_grants (network_id, project_id) VALUES (@network_id, sqlc.narg(project_id)) ON CONFLICT DO NOTHING;

-- name: RevokeNetwork :execrows
DELETE FROM network_grants WHERE network_id = @network_id AND project_id IS NOT DISTINCT FROM sqlc.narg(project_id);

-- name: NetworkGrants :many
-- Who may use the networks besides those who run them; of all projects, or of the named ones and those that all have.
SELECT g.network_id, g.project_id, COALESCE(p.name, '')::text AS project FROM network_grants g LEFT JOIN projects p ON p.id = g.project_id
WHERE g.network_id = ANY (@networks::text[]) AND (@all_projects::boolean OR g.project_id IS NULL OR g.project_id = ANY (@projects::text[]))
ORDER BY g.network_id, p.name NULLS FIRST;

-- name: ClosedNetworks :many
-- Of networks named "libvirt:<name>" and "bridge:<device>", those that only grants open and that the project has no grant of.
-- A bridge that nobody has reported is among them: whether it is there is told to nobody who may not use it.
SELECT w.name::text FROM unnest(@names::text[]) AS w (name) LEFT JOIN networks n ON n.kind || ':' || n.name = w.name
WHERE (w.name LIKE 'bridge:%' OR leads_out(n.id, n.kind))
  AND NOT EXISTS (SELECT 1 FROM network_grants g WHERE g.network_id = n.id AND (g.project_id IS NULL OR g.project_id = @project_id::text));
