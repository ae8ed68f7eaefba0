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

-- name: FindNetworks :many
-- Networks by their ids, or else by kinds and names. They stay until the transaction ends: see LostNetworks. closed: only a grant
-- opens it, and the project has none.
SELECT n.id, n.kind, n.name, (leads_out(n.id, n.kind) AND NOT EXISTS (
    SELECT 1 FROM network_grants g WHERE g.network_id = n.id AND (g.project_id IS NULL OR g.project_id = @project_id::text)))::boolean AS closed
FROM networks n
WHERE n.id = ANY (@ids::text[]) OR (n.kind, n.name) IN (SELECT unnest(@kinds::text[]), unnest(@names::text[]))
ORDER BY n.id FOR KEY SHARE OF n;

-- name: MeetNetworks :one
-- How many of the reported networks the host did not have before. Those that are known stay until the transaction ends: see
-- LostNetworks.
WITH fresh AS MATERIALIZED (
    SELECT r.kind, r.name FROM (SELECT unnest(@kinds::text[]) AS kind, unnest(@names::text[]) AS name) r
    WHERE NOT EXISTS (SELECT 1 FROM networks n JOIN assignments a ON a.network_id = n.id AND a.host_id = @host_id WHERE n.kind = r.kind AND n.name = r.name)
), held AS MATERIALIZED (
    SELECT n.id FROM fresh f JOIN networks n ON n.kind = f.kind AND n.name = f.name ORDER BY n.id FOR KEY SHARE OF n
)
SELECT (SELECT count(*) FROM fresh)::bigint AS fresh, (SELECT count(*) FROM held)::bigint AS held;

-- name: AddNetworks :exec
INSERT INTO networks (id, name, kind)
SELECT r.id, r.name, r.kind FROM jsonb_to_recordset(@networks::jsonb) AS r (id text, name text, kind text)
WHERE NOT EXISTS (SELECT 1 FROM networks n WHERE n.kind = r.kind AND n.name = r.name)
ON CONFLICT (kind, name) DO NOTHING;

-- name: LostNetworks :many
-- Networks that no host has, that no VM wants and that are granted to nobody, locked. One that a host is about to report, or that
-- somebody is about to put a VM on, is passed over.
SELECT n.id FROM networks n
WHERE NOT EXISTS (SELECT 1 FROM assignments a WHERE a.network_id = n.id)
  AND NOT EXISTS (SELECT 1 FROM network_grants g WHERE g.network_id = n.id)
  AND NOT EXISTS (SELECT 1 FROM vms v WHERE v.spec @> jsonb_build_object('nics', jsonb_build_array(jsonb_build_object('networkId', n.id))))
FOR UPDATE OF n SKIP LOCKED;

-- name: ForgetNetworks :exec
-- Locked ones, in a statement of its own: one that was reported, or that a VM was put on, before the lock was there stays.
DELETE FROM networks n WHERE n.id = ANY (@ids::text[])
  AND NOT EXISTS (SELECT 1 FROM assignments a WHERE a.network_id = n.id)
  AND NOT EXISTS (SELECT 1 FROM vms v WHERE v.spec @> jsonb_build_object('nics', jsonb_build_array(jsonb_build_object('networkId', n.id))));
