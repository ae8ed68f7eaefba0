-- name: BinSettings :one
-- The settings of the recycle bin: those of the fleet, and those of the project, NULL where it has none of its own.
SELECT COALESCE(f.days, 0)::integer AS days, COALESCE(f.counted, true)::boolean AS counted, o.days AS own_days, o.counted AS own_counted
FROM bin_settings f LEFT JOIN bin_settings o ON o.project_id = @project_id::text WHERE f.project_id IS NULL;

-- name: SetBinSettings :exec
-- Without a project, sets those of the fleet.
INSERT INTO bin_settings (project_id, days, counted) VALUES (sqlc.narg(project_id)::text, sqlc.narg(days)::integer, sqlc.narg(counted)::boolean)
ON CONFLICT ON CONSTRAINT bin_settings_once DO UPDATE SET days = EXCLUDED.days, counted = EXCLUDED.counted;

-- name: CountRecycledVMs :exec
-- Applies the settings about quotas to the VMs in the recycle bin, of one project, or of all projects if @project is
-- empty.
UPDATE vms v SET bin_counted = s.counted
FROM (SELECT p.id, COALESCE(o.counted, f.counted) AS counted FROM projects p JOIN bin_settings f ON f.project_id IS NULL LEFT JOIN bin_settings o ON o.project_id = p.id
      WHERE @project::text = '' OR p.id = @project) s
WHERE v.recycled_at IS NOT NULL AND v.project_id = s.id AND v.bin_counted <> s.counted;

-- name: RecycleVM :exec
-- Puts a locked VM into the recycle bin. Restored, it is off.
UPDATE vms SET deleted_at = now(), recycled_at = now(), recycled_by = @recycled_by, purge_at = now() + make_interval(days => @days::integer),
    bin_counted = @counted, spec = jsonb_set(spec, '{power}', to_jsonb('stopped'::text)), generation = generation + 1
WHERE id = @id;

-- name: LockRecycledVM :one
-- Locks a VM in the recycle bin. The state of its jobs is a query of its own, RecycledState: a statement that waits for
-- the lock does not see the jobs that the other transaction has queued.
SELECT sqlc.embed(v), h.name AS host_name, p.name AS project_name
FROM vms v JOIN hosts h ON h.id = v.host_id JOIN projects p ON p.id = v.project_id
WHERE v.id = @id AND v.recycled_at IS NOT NULL AND (@all_projects::boolean OR v.project_id = ANY (@projects::text[]))
FOR UPDATE OF v;

-- name: RecycledState :one
-- The state of a locked VM in the recycle bin. purging: its deletion with disks is requested. stopping: it is being powered
-- off. fresh: its host's reports are fresh.
SELECT EXISTS (SELECT 1 FROM jobs j WHERE j.subject = 'vm:' || v.id AND j.kind = 'vm.delete' AND j.state IN ('queued', 'running'))::boolean AS purging,
       EXISTS (SELECT 1 FROM jobs j WHERE j.subject = 'vm:' || v.id AND j.kind = 'vm.recycle' AND j.state IN ('queued', 'running'))::boolean AS stopping,
       COALESCE(is_fresh(s.looked_at, s.fresh_for), false)::boolean AS fresh, now()::timestamptz AS now
FROM vms v LEFT JOIN host_sessions s ON s.host_id = v.host_id WHERE v.id = @id;

-- name: RestoreVM :exec
UPDATE vms SET deleted_at = NULL, recycled_at = NULL, recycled_by = '', purge_at = NULL, name = @name, generation = generation + 1 WHERE id = @id;

-- name: PoolsForRestore :many
-- The pools that a VM to restore needs, as its host last reported them. exists: the pool exists; assigned: to the host.
-- name is empty if the actor does not see the pool.
SELECT w.id::text AS id,
       CASE WHEN @sees_hosts::boolean OR EXISTS (SELECT 1 FROM pool_grants g WHERE g.pool_id = p.id AND (g.project_id IS NULL OR g.project_id = ANY (@projects::text[])))
            THEN COALESCE(p.name, '') ELSE '' END::text AS name, (p.id IS NOT NULL AND p.deleted_at IS NULL)::boolean AS exists,
       COALESCE(a.asked = 'assign', false)::boolean AS assigned, COALESCE(a.status->>'state', '')::text AS state
FROM unnest(@ids::text[]) AS w (id) LEFT JOIN pools p ON p.id = w.id LEFT JOIN assignments a ON a.pool_id = p.id AND a.host_id = @host_id
ORDER BY 2, 1;

-- name: VMsToPurge :many
-- VMs whose time in the recycle bin is over, oldest first: those that are off on online hosts, that no other host reports
-- with a guest, and whose purge is neither requested nor has failed within the last hour. The guest of an offline host
-- counts, unless a user has decided that the VM is not there.
SELECT v.id FROM vms v JOIN host_sessions s ON s.host_id = v.host_id
WHERE v.recycled_at IS NOT NULL AND v.purge_at <= now() AND is_fresh(s.looked_at, s.fresh_for)
  AND COALESCE(v.status->>'power', '') NOT IN ('running', 'paused')
  AND NOT EXISTS (SELECT 1 FROM vm_sightings w LEFT JOIN host_sessions o ON o.host_id = w.host_id
                  WHERE w.vm_id = v.id AND w.power IN ('running', 'paused') AND (NOT w.settled OR is_fresh(o.looked_at, o.fresh_for)))
  AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.subject = 'vm:' || v.id AND j.task_id IS NOT NULL AND j.state IN ('queued', 'running'))
  AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.subject = 'vm:' || v.id AND t.kind = 'vm.delete' AND t.ended_at > now() - interval '1 hour')
ORDER BY v.purge_at, v.id LIMIT @most;

-- name: RecycledOnHost :one
-- How many VMs in the recycle bin prevent the removal of the host: all, but of an offline host only those whose purge is
-- not requested.
SELECT count(*) FROM vms v WHERE v.host_id = @host_id AND v.recycled_at IS NOT NULL
  AND (@online::boolean OR NOT EXISTS (SELECT 1 FROM jobs j WHERE j.subject = 'vm:' || v.id AND j.kind = 'vm.delete' AND j.state IN ('queued', 'running')));

-- name: RecycledInProject :one
SELECT count(*) FROM vms v WHERE v.project_id = @project_id AND v.recycled_at IS NOT NULL;
