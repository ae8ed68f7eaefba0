-- name: RecordProjectDays :execrows
-- Writes what each project uses as the row of today.
INSERT INTO project_days (project_id, day, vms, running_vms, cpus, memory_mib, disk_bytes)
SELECT p.id, (now() AT TIME ZONE 'UTC')::date, COALESCE(u.vms, 0), COALESCE(u.running, 0), COALESCE(u.cpus, 0), COALESCE(u.memory_mib, 0), COALESCE(u.disk_bytes, 0)
FROM projects p LEFT JOIN (
    SELECT w.project_id, count(*) AS vms, sum(w.running) AS running, sum(w.cpus) AS cpus, sum(w.memory_mib) AS memory_mib, sum(w.disk_bytes) AS disk_bytes
    FROM vm_use w GROUP BY w.project_id) u ON u.project_id = p.id
ON CONFLICT (project_id, day) DO UPDATE
SET vms = EXCLUDED.vms, running_vms = EXCLUDED.running_vms, cpus = EXCLUDED.cpus, memory_mib = EXCLUDED.memory_mib, disk_bytes = EXCLUDED.disk_bytes
WHERE (project_days.vms, project_days.running_vms, project_days.cpus, project_days.memory_mib, project_days.disk_bytes)
    IS DISTINCT FROM (EXCLUDED.vms, EXCLUDED.running_vms, EXCLUDED.cpus, EXCLUDED.memory_mib, EXCLUDED.disk_bytes);

-- name: SweepProjectDays :execrows
-- Deletes days that are older than a year.
DELETE FROM project_days WHERE ctid = ANY (ARRAY(
    SELECT d.ctid FROM project_days d WHERE d.day < (now() AT TIME ZONE 'UTC')::date - 366 LIMIT @most));

-- name: ProjectDays :many
-- What a project used each day of the last year, oldest first.
SELECT to_char(d.day, 'YYYY-MM-DD')::text AS day, d.vms, d.running_vms, d.cpus, d.memory_mib, d.disk_bytes FROM project_days d
WHERE d.project_id = @project_id AND d.day >= (now() AT TIME ZONE 'UTC')::date - 366 ORDER BY d.day;

-- name: SoonExpiringVMs :many
-- VMs of the projects that expire within the time, the next one first.
SELECT v.id, v.name, v.expires_at::timestamptz AS expires_at, v.expiry_stops FROM vms v
WHERE v.project_id = ANY (@projects::text[]) AND v.expires_at IS NOT NULL AND v.expiry <> 'over' AND v.expires_at <= now() + @within::interval AND v.deleted_at IS NULL
ORDER BY v.expires_at, v.id LIMIT @most;

-- name: SoftLimitedProjects :many
-- Projects whose quota has a soft limit.
SELECT q.project_id, p.name, q.limits FROM project_quotas q JOIN projects p ON p.id = q.project_id
WHERE q.limits @? '$.*.soft' OR q.limits @? '$.pools.*.soft' ORDER BY p.name, p.id;
