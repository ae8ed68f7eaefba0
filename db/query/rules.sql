-- name: LockRules :exec
-- Serializes placements of a project's VMs that rules may concern, so that each sees the previous one.
SELECT pg_advisory_xact_lock(hashtextextended('rules ' || @project::text, 0));

-- name: RuleMates :many
-- The VMs that placement rules refer to, by rule number and host: a VM of the project by name, or the project's VMs
-- with the labels. Error texts need at most two names.
SELECT (r.i - 1)::int AS rule, v.host_id, count(*)::int AS vms, ((array_agg(v.name ORDER BY v.name))[1:2])::text[] AS names
FROM (SELECT unnest(@projects::text[]) AS project, unnest(@names::text[]) AS name, unnest(@pairs::text[]) AS pairs, unnest(@keys::text[]) AS keys,
             generate_subscripts(@projects::text[], 1) AS i) r
CROSS JOIN LATERAL (
    SELECT o.host_id, o.name FROM vms o WHERE r.name <> '' AND o.project_id = r.project AND o.name = r.name AND o.deleted_at IS NULL
    UNION ALL SELECT o.host_id, o.name FROM vms o
    WHERE r.name = '' AND o.project_id = r.project AND o.labels @> r.pairs::jsonb AND o.labels ?& string_to_array(r.keys, ',') AND o.deleted_at IS NULL) v
GROUP BY 1, 2;

-- name: RulesOfProject :many
-- The rules of a project's VMs by host; VMs with equal rules are merged.
SELECT v.host_id, (v.spec->'rules')::jsonb AS rules, count(*)::int AS vms, ((array_agg(v.name ORDER BY v.name))[1:2])::text[] AS names
FROM vms v WHERE v.project_id = @project AND (v.spec ? 'rules' OR v.misplaced <> '{}') AND v.spec ? 'rules' AND v.deleted_at IS NULL
GROUP BY 1, 2;

-- name: RuledVMs :many
-- VMs with rules, and VMs still marked as violating rules.
SELECT id, project_id, host_id, name, labels, COALESCE(spec->'rules', '[]')::jsonb AS rules, misplaced
FROM vms WHERE project_id > '' AND (spec ? 'rules' OR misplaced <> '{}') AND deleted_at IS NULL ORDER BY project_id, host_id;

-- name: HostsForRules :many
SELECT id, name, spec, labels FROM hosts;

-- name: SetMisplaced :exec
UPDATE vms SET misplaced = @misplaced WHERE id = @id;
