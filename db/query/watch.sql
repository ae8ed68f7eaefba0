-- name: VMsSeen :many
-- Of the named VMs, those in the projects.
SELECT id FROM vms WHERE id = ANY (@ids::text[]) AND project_id = ANY (@projects::text[]);
