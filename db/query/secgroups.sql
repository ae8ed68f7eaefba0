-- name: AddSecurityGroup :exec
INSERT INTO security_groups (id, project_id, name, spec) VALUES (@id, sqlc.narg(project_id), @name, @spec);

-- name: CountSecurityGroups :one
SELECT count(*)::bigint FROM security_groups WHERE project_id IS NOT DISTINCT FROM sqlc.narg(project_id)::text;

-- name: AddSecurityGroupsAlone :exec
-- Serializes additions to a project, so that each counts the previous ones.
SELECT pg_advisory_xact_lock(hashtext('quantix security groups ' || @project::text));

-- name: LockSecurityGroup :one
SELECT * FROM security_groups WHERE id = @id FOR UPDATE;

-- name: GetSecurityGroup :one
SELECT * FROM security_groups WHERE id = @id;

-- name: LockSecurityGroups :many
-- Locks the groups until the transaction ends.
SELECT id, project_id, name FROM security_groups WHERE id = ANY (@ids::text[]) AND deleted_at IS NULL ORDER BY id FOR KEY SHARE;

-- name: ChangeSecurityGroup :one
-- Raises the revision, which hosts apply, only if the rules have changed.
UPDATE security_groups SET name = @name, spec = @spec, generation = generation + 1,
    revision = revision + CASE WHEN spec->'rules' IS DISTINCT FROM (@spec::jsonb)->'rules' THEN 1 ELSE 0 END
WHERE id = @id RETURNING *;

-- name: DeleteSecurityGroup :exec
-- Deletes the group only if it has no assignments.
DELETE FROM security_groups g WHERE g.id = @id AND NOT EXISTS (SELECT 1 FROM assignments a WHERE a.security_group_id = g.id);

-- name: MarkSecurityGroupDeleted :exec
UPDATE security_groups SET deleted_at = now(), generation = generation + 1, revision = revision + 1 WHERE id = @id;

-- name: EndSecurityGroups :exec
-- Deletes groups that are marked as deleted and have no assignments.
DELETE FROM security_groups g WHERE g.deleted_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM assignments a WHERE a.security_group_id = g.id)
  AND NOT EXISTS (SELECT 1 FROM nic_groups n WHERE n.group_id = g.id);

-- name: SecurityGroupNeeded :many
-- The first few VMs with NICs in the group, groups whose rules name it, and networks whose port groups assign it.
SELECT 'vm' AS what, (v.name || in_bin(v.recycled_at))::text AS name, v.project_id::text AS project FROM vms v WHERE v.id IN (SELECT n.vm_id FROM nic_groups n WHERE n.group_id = @id)
UNION ALL
SELECT 'group', s.name, COALESCE(s.project_id, '') FROM security_groups s
WHERE s.spec @> jsonb_build_object('rules', jsonb_build_array(jsonb_build_object('groupId', @id::text))) AND s.id <> @id
UNION ALL
SELECT 'net', w.name, '' FROM networks w
WHERE w.spec @> jsonb_build_object('portGroups', jsonb_build_array(jsonb_build_object('securityGroups', jsonb_build_array(@id::text))))
LIMIT 4;

-- name: RefreshMembers :many
-- Updates the member addresses of groups named by rules, and returns the groups that changed. A stopped VM has no
-- addresses. A group that no rule names any more loses its addresses, so that a later rule does not admit former
-- members.
WITH named AS (
    SELECT DISTINCT r #>> '{}' AS id FROM security_groups s CROSS JOIN LATERAL jsonb_path_query(s.spec, '$.rules[*].groupId') r
), now AS (
    SELECT d.id, COALESCE(jsonb_agg(DISTINCT a.address ORDER BY a.address) FILTER (WHERE a.address IS NOT NULL), '[]') AS members
    FROM named d
    LEFT JOIN nic_groups n ON n.group_id = d.id
    LEFT JOIN vms v ON v.id = n.vm_id
    LEFT JOIN LATERAL (
        SELECT x #>> '{}' AS address FROM jsonb_path_query(v.status, '$.nics[*]') c
        CROSS JOIN LATERAL (SELECT y AS x FROM jsonb_path_query(c, '$.addresses[*]') y LIMIT @most::integer) o
        WHERE lower(c->>'mac') = n.mac) a ON true
    GROUP BY d.id
    UNION ALL
    SELECT s.id, '[]' FROM security_groups s WHERE s.members <> '[]' AND s.id NOT IN (SELECT id FROM named)
)
UPDATE security_groups s SET members = n.members FROM now n WHERE n.id = s.id AND s.members IS DISTINCT FROM n.members
RETURNING s.id;

-- name: ReviseSecurityGroups :exec
-- Raises the revision of groups whose rules name one of these groups.
UPDATE security_groups s SET revision = revision + 1
WHERE EXISTS (SELECT 1 FROM jsonb_path_query(s.spec, '$.rules[*].groupId') r WHERE r #>> '{}' = ANY (@ids::text[]));

-- name: MisplacedSecurityGroups :many
-- Hosts that lack a needed group, and hosts with a group that no NIC needs. A group is released only after the host's
-- VMs have applied their newest specs, because a NIC may still use the group.
WITH wanted AS (
    SELECT DISTINCT n.group_id, v.host_id FROM nic_groups n JOIN vms v ON v.id = n.vm_id
), here AS (
    SELECT a.security_group_id AS group_id, a.host_id, a.asked FROM assignments a WHERE a.security_group_id IS NOT NULL
)
SELECT s.id, s.name, s.project_id, s.revision, COALESCE(w.host_id, h.host_id)::text AS host_id, (w.host_id IS NOT NULL)::boolean AS wanted
FROM wanted w FULL JOIN here h ON h.group_id = w.group_id AND h.host_id = w.host_id
JOIN security_groups s ON s.id = COALESCE(w.group_id, h.group_id)
WHERE w.host_id IS NULL AND h.asked = 'assign' AND NOT EXISTS (SELECT 1 FROM vms v WHERE v.host_id = h.host_id AND v.generation > v.observed_generation)
   OR w.host_id IS NOT NULL AND h.asked IS DISTINCT FROM 'assign'
ORDER BY s.id, 5 LIMIT 2000;

-- name: OutdatedSecurityGroups :many
-- Groups with a newer revision than the host has applied and without a queued job, for one group, or for all groups if
-- @of is empty.
SELECT s.id, s.name, s.project_id, s.revision, a.host_id FROM assignments a JOIN security_groups s ON s.id = a.security_group_id
WHERE (@of::text = '' OR s.id = @of) AND a.asked = 'assign' AND a.observed_generation < s.revision
  AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.subject = 'secgroup:' || s.id AND j.host_id = a.host_id AND j.kind = 'secgroup.apply' AND j.state = 'queued' AND j.task_id IS NOT NULL)
ORDER BY s.id, a.host_id LIMIT 2000;

-- name: ReviseSecurityGroup :exec
-- Makes the group's hosts apply it again.
UPDATE security_groups SET revision = revision + 1 WHERE id = @id;

-- name: MembersOf :many
-- The NICs in a group, of VMs in these projects or in all projects.
SELECT n.vm_id, v.name, n.mac, COALESCE(jsonb_path_query_array(v.status, '$.nics[*] ? (@.mac == $mac).addresses[*]', jsonb_build_object('mac', n.mac)), '[]')::jsonb AS addresses
FROM nic_groups n JOIN vms v ON v.id = n.vm_id
WHERE n.group_id = @id AND v.recycled_at IS NULL AND (@all_projects::boolean OR v.project_id = ANY (@projects::text[]))
ORDER BY v.name, n.vm_id, n.mac LIMIT @most;

-- name: SecurityGroupHosts :many
-- The hosts of groups with their reports. fresh is set if the host's reports are fresh.
SELECT a.security_group_id::text AS id, a.host_id, h.name AS host_name, a.status, a.observed_generation, (a.asked = 'release')::boolean AS leaving,
       COALESCE(is_fresh(s.looked_at, s.fresh_for), false)::boolean AS fresh
FROM assignments a JOIN hosts h ON h.id = a.host_id LEFT JOIN host_sessions s ON s.host_id = a.host_id
WHERE a.security_group_id = ANY (@ids::text[]) ORDER BY h.name, a.host_id;

-- name: SecurityGroupsFailed :many
-- Groups of these projects, or of all projects, that hosts failed to apply or that were changed on hosts, with one
-- host's error.
SELECT s.id, s.name, count(*)::bigint AS hosts, min(h.name)::text AS host_name, min(COALESCE(a.status->>'error', a.status->>'drift'))::text AS words
FROM assignments a JOIN security_groups s ON s.id = a.security_group_id JOIN hosts h ON h.id = a.host_id
WHERE (a.faulty OR a.status ? 'drift') AND a.asked = 'assign' AND a.security_group_id IS NOT NULL AND (@all_projects::boolean OR s.project_id = ANY (@projects::text[]))
GROUP BY s.id ORDER BY s.name LIMIT 20;

-- name: FlatSources :many
-- The groups, and the groups that their rules name, which supply the members' addresses.
SELECT g.id, g.project_id, g.name, g.spec, g.revision, g.members FROM security_groups g
WHERE g.id = ANY (@ids::text[])
   OR g.id IN (SELECT r #>> '{}' FROM security_groups s CROSS JOIN LATERAL jsonb_path_query(s.spec, '$.rules[*].groupId') r WHERE s.id = ANY (@ids));

-- name: GroupsOfVM :many
-- The groups of a VM's NICs with the status on the VM's host.
SELECT n.mac, g.id, g.name, g.spec, g.revision, a.status, COALESCE(a.observed_generation, 0)::bigint AS observed,
       COALESCE(is_fresh(s.looked_at, s.fresh_for), false)::boolean AS fresh
FROM nic_groups n JOIN vms v ON v.id = n.vm_id JOIN security_groups g ON g.id = n.group_id
LEFT JOIN assignments a ON a.security_group_id = g.id AND a.host_id = v.host_id
LEFT JOIN host_sessions s ON s.host_id = v.host_id
WHERE n.vm_id = @vm_id ORDER BY n.mac, g.name, g.id;

-- name: ReportFilterCounts :exec
-- Stores packet counts of NICs: one row per host.
INSERT INTO host_filter_counts (host_id, at, nics, error)
SELECT r.host_id, now() - r.ago * interval '1 millisecond', r.nics::jsonb, r.error
FROM (SELECT unnest(@host_ids::text[]) AS host_id, unnest(@agos::bigint[]) AS ago, unnest(@nics::text[]) AS nics, unnest(@errors::text[]) AS error) r
ORDER BY r.host_id
ON CONFLICT (host_id) DO UPDATE SET at = EXCLUDED.at, nics = EXCLUDED.nics, error = EXCLUDED.error;

-- name: GroupCounts :many
-- Packet counts of the group at NICs of VMs in these projects, or in all projects: per rule, and dropped packets with
-- an empty rule. Counts older than two freshness limits of their host are excluded.
WITH nic AS MATERIALIZED (
    SELECT k AS told, c.at
    FROM host_filter_counts c CROSS JOIN LATERAL jsonb_array_elements(c.nics) k
    JOIN nic_groups n ON n.group_id = @id AND n.vm_id = k->>'id' AND n.mac = k->>'mac'
    JOIN vms v ON v.id = n.vm_id AND v.host_id = c.host_id
    JOIN host_sessions s ON s.host_id = c.host_id
    WHERE c.host_id IN (SELECT a.host_id FROM assignments a WHERE a.security_group_id = @id) AND is_fresh(c.at, 2 * s.fresh_for)
      AND (@all_projects::boolean OR v.project_id = ANY (@projects::text[]))
), counted AS (
    SELECT '' AS rule, told->'dropped' AS n, told, at FROM nic
    UNION ALL SELECT r->>'rule', r, told, at FROM nic CROSS JOIN LATERAL jsonb_array_elements(told->'rules') r
)
SELECT rule::text AS rule, LEAST(sum((n->>'packets')::bigint), 1::numeric * (1::bigint << 62))::bigint AS packets, LEAST(sum((n->>'bytes')::bigint), 1::numeric * (1::bigint << 62))::bigint AS bytes,
       count(*)::bigint AS nics, min(at - (told->>'sinceMs')::bigint * interval '1 millisecond')::timestamptz AS since, min(at)::timestamptz AS at
FROM counted GROUP BY rule;

-- name: GroupRuns :one
-- The number of the group's NICs of running VMs in these projects, or in all projects, and an error if a host cannot
-- count.
SELECT count(*)::bigint AS nics, COALESCE(max(c.error) FILTER (WHERE is_fresh(c.at, 2 * s.fresh_for)), '')::text AS error
FROM nic_groups n JOIN vms v ON v.id = n.vm_id LEFT JOIN host_filter_counts c ON c.host_id = v.host_id LEFT JOIN host_sessions s ON s.host_id = v.host_id
WHERE n.group_id = @id AND v.status->>'power' = 'running' AND (@all_projects::boolean OR v.project_id = ANY (@projects::text[]));

-- name: CountsOfVM :many
-- Fresh packet counts of the VM's NICs.
SELECT c.at, k::jsonb AS told FROM vms v JOIN host_filter_counts c ON c.host_id = v.host_id JOIN host_sessions s ON s.host_id = v.host_id CROSS JOIN LATERAL jsonb_array_elements(c.nics) k
WHERE v.id = @vm_id AND k->>'id' = v.id AND is_fresh(c.at, 2 * s.fresh_for);

-- name: NICsOffDefault :many
-- VMs with a NIC that has its port group's defaults, or none, but differs from the current defaults.
SELECT DISTINCT v.id FROM networks n CROSS JOIN LATERAL jsonb_array_elements(n.spec->'portGroups') g
JOIN vms v ON v.spec @> jsonb_build_object('nics', jsonb_build_array(jsonb_build_object('networkId', n.id, 'portGroup', g->>'name')))
CROSS JOIN LATERAL jsonb_array_elements(v.spec->'nics') c
WHERE n.spec ? 'portGroups' AND v.deleted_at IS NULL AND c->>'networkId' = n.id AND c->>'portGroup' = g->>'name' AND (
    (COALESCE((c->>'defaultGroups')::boolean, false) OR NOT c ? 'securityGroups') AND COALESCE(c->'securityGroups', '[]') <> COALESCE(g->'securityGroups', '[]')
    OR COALESCE((c->>'defaultAntiSpoofing')::boolean, false)
        AND (g->'antiSpoofing' IS NULL OR COALESCE((c->>'antiSpoofing')::boolean, false) <> (g->>'antiSpoofing')::boolean))
ORDER BY v.id LIMIT @most::integer;

-- name: ReportGroups :exec
-- Records which groups were changed on the host after it applied them. Only a report newer than the last result counts.
UPDATE assignments a SET report_seq = @seq, status = CASE WHEN r.changed IS NULL THEN a.status - 'drift' ELSE a.status || jsonb_build_object('drift', r.changed) END
FROM assignments b LEFT JOIN jsonb_to_recordset(@groups::jsonb) AS r (id text, changed text) ON r.id = b.security_group_id
WHERE b.host_id = @host_id AND b.security_group_id IS NOT NULL AND a.noun = b.noun AND a.object_id = b.object_id AND a.host_id = b.host_id
  AND a.asked = 'assign' AND a.status IS NOT NULL AND a.report_seq < @seq AND a.status->>'drift' IS DISTINCT FROM r.changed;
