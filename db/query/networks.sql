-- name: AddNetwork :exec
INSERT INTO networks (id, name, kind, spec) VALUES (@id, @name, 'libvirt', @spec);

-- name: LockNetwork :one
SELECT * FROM networks WHERE id = @id FOR UPDATE;

-- name: AdoptNetwork :exec
UPDATE networks SET spec = @spec, generation = generation + 1 WHERE id = @id AND spec IS NULL;

-- name: DiscoveredNetworksNamed :many
-- Hosts with a libvirt network of this name that is not assigned to them, with their own definition: the given host
-- first.
SELECT sqlc.embed(n), h.id AS host_id, h.name AS host_name, COALESCE(a.status->'definition', 'null')::jsonb AS definition
FROM networks n JOIN assignments a ON a.network_id = n.id JOIN hosts h ON h.id = a.host_id
WHERE n.kind = 'libvirt' AND n.name = @name::text AND a.asked = '' AND a.status IS NOT NULL
ORDER BY h.id <> @host_id::text, h.name LIMIT @most;

-- name: HostDefinitions :many
-- The hosts' own definitions of the network; null: the host reports none.
SELECT h.name AS host_name, COALESCE(a.status->'definition'->'spec', 'null')::jsonb AS spec
FROM hosts h LEFT JOIN assignments a ON a.host_id = h.id AND a.network_id = @id::text
WHERE h.id = ANY (@hosts::text[]) ORDER BY h.name;

-- name: MarkNetworkDeleted :exec
UPDATE networks SET deleted_at = now(), generation = generation + 1 WHERE id = @id;

-- name: EndNetwork :exec
SELECT end_network(@id);

-- name: NetworkNamed :one
-- Whether a libvirt network of that name is defined in Quantix, and the first few hosts that have one.
SELECT (n.spec IS NOT NULL)::boolean AS defined,
       ARRAY(SELECT h.name FROM assignments a JOIN hosts h ON h.id = a.host_id WHERE a.network_id = n.id ORDER BY h.name LIMIT 4)::text[] AS hosts
FROM networks n WHERE n.kind = 'libvirt' AND n.name = @name;

-- name: AssignNetworksAlone :exec
-- Serializes assignments of networks, so that each sees the subnets and bridges in use.
SELECT pg_advisory_xact_lock(hashtext('quantix networks'));

-- name: NetworksOn :many
-- Other networks on these hosts, each distinct report once, and different networks of the same name.
SELECT n.name, n.kind, n.spec, (n.id = @id)::boolean AS same, COALESCE(a.subnets, '')::text AS subnets, COALESCE(a.status->>'bridge', '')::text AS bridge, min(h.name)::text AS host_name
FROM assignments a JOIN networks n ON n.id = a.network_id JOIN hosts h ON h.id = a.host_id
WHERE a.host_id = ANY (@hosts::text[]) AND (n.id <> @id OR a.asked = '' AND a.status ? 'foreign')
GROUP BY n.id, a.subnets, a.status->>'bridge'
ORDER BY n.name, n.kind;

-- name: NetworkNeeded :many
-- The first few VMs with a NIC on the network, on one host, or on any host if @host is empty.
SELECT (v.name || in_bin(v.recycled_at))::text AS name FROM vms v
WHERE v.host_id = @host::text AND v.spec @> jsonb_build_object('nics', jsonb_build_array(jsonb_build_object('networkId', @network_id::text)))
UNION ALL
SELECT (v.name || in_bin(v.recycled_at))::text AS name FROM vms v
WHERE @host = '' AND v.spec @> jsonb_build_object('nics', jsonb_build_array(jsonb_build_object('networkId', @network_id)))
LIMIT 4;

-- name: CountOnNetwork :many
-- The number of VMs per host with a NIC on the network.
SELECT v.host_id, count(*)::integer AS vms FROM vms v
WHERE v.host_id = ANY (@hosts::text[]) AND v.spec @> jsonb_build_object('nics', jsonb_build_array(jsonb_build_object('networkId', @network_id::text)))
GROUP BY v.host_id;

-- name: BareNetworks :many
-- The networks among these with one of the modes.
SELECT id, name FROM networks WHERE id = ANY (@ids::text[]) AND spec->>'mode' = ANY (@modes::text[]);

-- name: CountedNetworks :many
-- Networks among these whose NICs each need a host device or a function of one (see NetworkSpec.HasExclusiveNICs), and
-- all other networks on the same devices. The order by device makes all transactions lock in one order.
SELECT n.id, (n.spec->>'mode')::text AS mode, (n.spec->>'device')::text AS device
FROM networks n WHERE (n.spec->>'mode' = 'sriov' OR n.spec->>'direct' = 'passthrough')
  AND EXISTS (SELECT FROM networks a WHERE a.id = ANY (@ids::text[]) AND a.spec->>'mode' = n.spec->>'mode' AND a.spec->>'device' = n.spec->>'device')
ORDER BY 3, 2, 1;

-- name: LimitedPortGroups :many
-- The port groups of these networks that limit the bandwidth of their NICs.
SELECT n.id, (g->>'name')::text AS name
FROM networks n, jsonb_path_query(n.spec, '$.portGroups[*] ? (exists (@.toGuest) || exists (@.fromGuest))') AS g
WHERE n.id = ANY (@ids::text[]);

-- name: LockNICs :exec
-- Serializes allocations of a device's functions to NICs.
SELECT pg_advisory_xact_lock(hashtextextended('nics ' || @device::text, 0));

-- name: NICsReported :many
-- The reported capacity for NICs on assigned networks, of one host, or of all hosts if @host is empty. Values are
-- bounded, because a host may report any number.
SELECT network_id::text AS network_id, host_id, LEAST(COALESCE((status->'nics'->>'total')::bigint, 0), 65536)::integer AS total,
       LEAST(COALESCE((status->'nics'->>'used')::bigint, 0), 65536)::integer AS used
FROM assignments WHERE network_id = ANY (@ids::text[]) AND (@host::text = '' OR host_id = @host) AND asked = 'assign' AND status ? 'nics';

-- name: NICsAllocated :many
-- The number of NICs per VM that need a function of these devices. VMs count in any power state.
SELECT (n.spec->>'mode')::text AS mode, (n.spec->>'device')::text AS device, v.host_id, (v.name || in_bin(v.recycled_at))::text AS name, count(*)::integer AS nics
FROM networks n
JOIN vms v ON v.spec @> jsonb_build_object('nics', jsonb_build_array(jsonb_build_object('networkId', n.id)))
CROSS JOIN LATERAL jsonb_array_elements(v.spec->'nics') c
WHERE n.spec->>'device' = ANY (@devices::text[]) AND (n.spec->>'mode' = 'sriov' OR n.spec->>'direct' = 'passthrough')
  AND c->>'networkId' = n.id AND (@host::text = '' OR v.host_id = @host)
GROUP BY 1, 2, 3, 4 ORDER BY 4;

-- name: ShareLockNetwork :one
-- Locks the network against deletion while it is granted.
SELECT name FROM networks WHERE id = @id FOR KEY SHARE;

-- name: GrantNetwork :execrows
-- project_id NULL grants to all projects.
INSERT INTO network_grants (network_id, project_id, granted_by) VALUES (@network_id, sqlc.narg(project_id), @granted_by) ON CONFLICT DO NOTHING;

-- name: RevokeNetwork :execrows
DELETE FROM network_grants WHERE network_id = @network_id AND project_id IS NOT DISTINCT FROM sqlc.narg(project_id);

-- name: NetworkGrants :many
-- The grants of the networks: all, or only those to these projects and to all projects.
SELECT g.network_id, COALESCE(g.project_id, '')::text AS project_id, COALESCE(p.name, '')::text AS project, g.granted_by, g.granted_at
FROM network_grants g LEFT JOIN projects p ON p.id = g.project_id
WHERE g.network_id = ANY (@networks::text[]) AND (@all_projects::boolean OR g.project_id IS NULL OR g.project_id = ANY (@projects::text[]))
ORDER BY g.network_id, p.name NULLS FIRST;

-- name: FindNetworks :many
-- Networks by ID, or by kind and name, locked until the transaction ends (see LostNetworks). closed is set if the
-- network is not published to the project.
SELECT n.id, n.kind, n.name, (NOT EXISTS (
    SELECT 1 FROM network_grants g WHERE g.network_id = n.id AND (g.project_id IS NULL OR g.project_id = @project_id::text)))::boolean AS closed
FROM networks n
WHERE n.id = ANY (@ids::text[]) OR (n.kind, n.name) IN (SELECT unnest(@kinds::text[]), unnest(@names::text[]))
ORDER BY n.id FOR KEY SHARE OF n;

-- name: MeetNetworks :one
-- The number of reported networks that are new on the host. Known networks are locked until the transaction ends (see
-- LostNetworks).
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
-- Locks discovered networks without hosts, VMs and grants. It skips networks locked by a report or by a change of a VM.
SELECT n.id FROM networks n
WHERE n.spec IS NULL AND NOT EXISTS (SELECT 1 FROM assignments a WHERE a.network_id = n.id)
  AND NOT EXISTS (SELECT 1 FROM network_grants g WHERE g.network_id = n.id)
  AND NOT EXISTS (SELECT 1 FROM vms v WHERE v.spec @> jsonb_build_object('nics', jsonb_build_array(jsonb_build_object('networkId', n.id))))
FOR UPDATE OF n SKIP LOCKED;

-- name: ForgetNetworks :exec
-- Deletes locked networks. A separate statement sees reports and VM changes committed before the lock.
DELETE FROM networks n WHERE n.id = ANY (@ids::text[]) AND n.spec IS NULL
  AND NOT EXISTS (SELECT 1 FROM assignments a WHERE a.network_id = n.id)
  AND NOT EXISTS (SELECT 1 FROM vms v WHERE v.spec @> jsonb_build_object('nics', jsonb_build_array(jsonb_build_object('networkId', n.id))));

-- name: NetworksLeft :many
-- The reported networks that are not discoveries: unassigned networks that the host lacks, and networks released by
-- the host within the last @looked.
SELECT r.id::text FROM (SELECT unnest(@networks::text[]) AS id, unnest(@absent::boolean[]) AS absent) r
WHERE NOT EXISTS (SELECT 1 FROM assignments a WHERE a.network_id = r.id AND a.host_id = @host_id::text AND a.asked <> '')
  AND (r.absent OR EXISTS (SELECT 1 FROM jobs j WHERE j.subject = 'net:' || r.id AND j.host_id = @host_id AND j.kind = 'network.release' AND j.state = 'done'
                           AND j.ended_at > now() - @looked::interval));
