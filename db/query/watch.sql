-- name: VMsSeen :many
-- The VMs among these that are in the projects.
SELECT id FROM vms WHERE id = ANY (@ids::text[]) AND project_id = ANY (@projects::text[]);
