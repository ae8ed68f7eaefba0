-- name: CountedVMs :many
-- What of each VM is counted, in the order of ids.
SELECT id, project_id, host_id, heard, attention, drifted, cpus, memory_mib FROM vms WHERE id > @after ORDER BY id LIMIT @most;

-- name: CountedVMsNamed :many
-- The same of some. Those that are gone are not among them.
SELECT id, project_id, host_id, heard, attention, drifted, cpus, memory_mib FROM vms WHERE id = ANY (@ids::text[]);

-- name: CountDiscovered :many
SELECT host_id, count(*)::bigint AS vms FROM found_vms GROUP BY host_id;

-- name: CountDiscoveredOn :many
SELECT host_id, count(*)::bigint AS vms FROM found_vms WHERE host_id = ANY (@hosts::text[]) GROUP BY host_id;

-- name: FailedTasks :many
-- What a host failed to do: one by one, also where many were asked for together.
SELECT sqlc.embed(t), (SELECT h.name FROM hosts h WHERE h.id = t.host_id)::text AS host FROM tasks t
WHERE t.state IN ('failed', 'unknown') AND t.ended_at > now() - interval '1 hour' AND t.host_id IS NOT NULL
  AND (@all_projects::boolean OR t.project_id = ANY (@projects::text[]))
ORDER BY t.ended_at DESC LIMIT 200;

-- name: LabelGroups :many
-- How a project's VMs spread over one label's values.
SELECT COALESCE(v.labels->>sqlc.arg(key)::text, '')::text AS value, (v.labels->>sqlc.arg(key)::text IS NOT NULL)::boolean AS labelled, count(*)::bigint AS vms FROM vms v
WHERE v.project_id = @project_id GROUP BY 1, 2 ORDER BY 2 DESC, 1 LIMIT 200;
