-- name: GroupsFor :many
-- The port groups of the networks. granted is set if the port group is granted to the project or to all projects.
SELECT n.id, (x->>'name')::text AS name, COALESCE((x->>'restricted')::boolean, false)::boolean AS restricted, EXISTS (
    SELECT 1 FROM port_group_grants g WHERE g.network_id = n.id AND g.port_group = x->>'name' AND (g.project_id IS NULL OR g.project_id = @project_id::text))::boolean AS granted
FROM networks n CROSS JOIN LATERAL jsonb_array_elements(COALESCE(n.spec->'portGroups', '[]')) x WHERE n.id = ANY (@ids::text[]);

-- name: GroupsToUse :many
-- The port groups that NICs may use: all, or only those available to one of the projects.
SELECT n.id, n.name, (x->>'name')::text AS port_group FROM networks n CROSS JOIN LATERAL jsonb_array_elements(n.spec->'portGroups') x
WHERE n.spec ? 'portGroups' AND n.deleted_at IS NULL AND (@all_projects::boolean
    OR EXISTS (SELECT 1 FROM port_group_grants g WHERE g.network_id = n.id AND g.port_group = x->>'name' AND (g.project_id IS NULL OR g.project_id = ANY (@projects::text[])))
    OR NOT COALESCE((x->>'restricted')::boolean, false)
        AND EXISTS (SELECT 1 FROM network_grants g WHERE g.network_id = n.id AND (g.project_id IS NULL OR g.project_id = ANY (@projects))))
ORDER BY n.name, 3;

-- name: GroupNeeded :many
-- The first few VMs with a NIC on the port group.
SELECT (v.name || in_bin(v.recycled_at))::text AS name FROM vms v WHERE v.id = ANY (ARRAY(
    SELECT x.id FROM vms x WHERE x.spec @> jsonb_build_object('nics', jsonb_build_array(jsonb_build_object('networkId', @network_id::text, 'portGroup', @port_group::text))))) LIMIT 4;

-- name: CountOnGroups :many
-- The number of VMs with a NIC on each port group of the network.
SELECT (c->>'portGroup')::text AS port_group, count(DISTINCT v.id)::integer AS vms FROM vms v CROSS JOIN LATERAL jsonb_array_elements(v.spec->'nics') c
WHERE v.spec @> jsonb_build_object('nics', jsonb_build_array(jsonb_build_object('networkId', @network_id::text)))
  AND c->>'networkId' = @network_id AND c->>'portGroup' <> '' GROUP BY 1;

-- name: GrantPortGroup :execrows
-- project_id NULL grants to all projects.
INSERT INTO port_group_grants (network_id, port_group, project_id) VALUES (@network_id, @port_group, sqlc.narg(project_id)) ON CONFLICT DO NOTHING;

-- name: RevokePortGroup :execrows
DELETE FROM port_group_grants WHERE network_id = @network_id AND port_group = @port_group AND project_id IS NOT DISTINCT FROM sqlc.narg(project_id);

-- name: PortGroupGrants :many
-- The grants of the network's port groups: all grants, or only those to these projects and to all projects.
SELECT g.port_group, COALESCE(g.project_id, '')::text AS project_id, COALESCE(p.name, '')::text AS project FROM port_group_grants g LEFT JOIN projects p ON p.id = g.project_id
WHERE g.network_id = @network_id AND (@all_projects::boolean OR g.project_id IS NULL OR g.project_id = ANY (@projects::text[]))
ORDER BY g.port_group, p.name NULLS FIRST;
