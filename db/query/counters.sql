-- name: CountedVMs :many
-- The columns that counters need, of VMs after @after by ID.
SELECT id, project_id, host_id, heard, attention, drifted, cpus, memory_mib FROM vms WHERE id > @after AND heard <> 'recycled' ORDER BY id LIMIT @most;

-- name: CountedVMsNamed :many
-- The columns that counters need, of these VMs. Deleted VMs and VMs in the recycle bin have no
-- row.
SELECT id, project_id, host_id, heard, attention, drifted, cpus, memory_mib FROM vms WHERE id = ANY (@ids::text[]) AND heard <> 'recycled';

-- name: CountDiscovered :many
SELECT host_id, vms, mib, cpus FROM discovered_usage;

-- name: CountDiscoveredOn :many
SELECT host_id, vms, mib, cpus FROM discovered_usage WHERE host_id = ANY (@hosts::text[]);

-- name: FailedTasks :many
-- Failed jobs of hosts. Jobs of bulk tasks are listed individually.
SELECT sqlc.embed(t), (SELECT h.name FROM hosts h WHERE h.id = t.host_id)::text AS host FROM tasks t
WHERE t.state IN ('failed', 'unknown') AND t.ended_at > now() - interval '1 hour' AND t.host_id IS NOT NULL
  AND (@all_projects::boolean OR t.project_id = ANY (@projects::text[]))
ORDER BY t.ended_at DESC LIMIT 200;

-- name: LabelGroups :many
-- The number of a project's VMs per value of one label.
SELECT COALESCE(v.labels->>sqlc.arg(key)::text, '')::text AS value, (v.labels->>sqlc.arg(key)::text IS NOT NULL)::boolean AS labelled, count(*)::bigint AS vms FROM vms v
WHERE v.project_id = @project_id AND v.recycled_at IS NULL GROUP BY 1, 2 ORDER BY 2 DESC, 1 LIMIT 200;
