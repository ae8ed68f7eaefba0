-- name: GetVM :one
-- networks lists the networks of the VM's NICs as "id kind name".
SELECT sqlc.embed(v), h.name AS host_name, p.name AS project_name, s.looked_at, s.fresh_for,
       maintenance_state(h.maintained, s.seen_at, s.fresh_for, s.powered_off_at)::text AS host_maintenance, now()::timestamptz AS now,
       ARRAY(SELECT n.id || ' ' || n.kind || ' ' || n.name FROM networks n
             WHERE n.id = ANY (ARRAY(SELECT jsonb_path_query(v.spec, '$.nics[*].networkId') #>> '{}')))::text[] AS networks
FROM vms v JOIN hosts h ON h.id = v.host_id JOIN projects p ON p.id = v.project_id LEFT JOIN host_sessions s ON s.host_id = v.host_id
WHERE v.id = @id AND v.recycled_at IS NULL AND (@all_projects::boolean OR v.project_id = ANY (@projects::text[]));

-- name: LockVM :one
-- Locks the row until the transaction ends, so that no concurrent change skips a generation.
SELECT sqlc.embed(v), h.name AS host_name, p.name AS project_name, s.looked_at, s.fresh_for,
       maintenance_state(h.maintained, s.seen_at, s.fresh_for, s.powered_off_at)::text AS host_maintenance, now()::timestamptz AS now,
       ARRAY(SELECT n.id || ' ' || n.kind || ' ' || n.name FROM networks n
             WHERE n.id = ANY (ARRAY(SELECT jsonb_path_query(v.spec, '$.nics[*].networkId') #>> '{}')))::text[] AS networks
FROM vms v JOIN hosts h ON h.id = v.host_id JOIN projects p ON p.id = v.project_id LEFT JOIN host_sessions s ON s.host_id = v.host_id
WHERE v.id = @id AND (@all_projects::boolean OR v.project_id = ANY (@projects::text[]))
FOR UPDATE OF v;

-- name: VMsNamed :many
-- The VMs among these that the actor may see.
SELECT sqlc.embed(v), h.name AS host_name, p.name AS project_name, s.looked_at, s.fresh_for,
       maintenance_state(h.maintained, s.seen_at, s.fresh_for, s.powered_off_at)::text AS host_maintenance, now()::timestamptz AS now
FROM vms v JOIN hosts h ON h.id = v.host_id JOIN projects p ON p.id = v.project_id LEFT JOIN host_sessions s ON s.host_id = v.host_id
WHERE v.id = ANY (@ids::text[]) AND v.recycled_at IS NULL AND (@all_projects::boolean OR v.project_id = ANY (@projects::text[]));

-- name: AddVM :exec
INSERT INTO vms (id, project_id, host_id, name, labels, description, spec)
VALUES (@id, @project_id, @host_id, @name, @labels, @description, @spec);

-- name: ChangeVM :execrows
-- Each change raises the generation by one. Changes no row if it would change a disk that is migrating to another pool
-- or host.
UPDATE vms v SET name = @name, labels = @labels, description = @description, spec = @spec, generation = v.generation + 1
WHERE v.id = @id AND NOT EXISTS (
    SELECT 1 FROM jobs j WHERE j.subject = 'vm:' || v.id AND j.kind = 'vm.disk.move' AND j.state IN ('queued', 'running')
      AND NOT @spec::jsonb @> jsonb_build_object('disks', jsonb_build_array(j.args #> '{move,disk}')))
  AND NOT EXISTS (
    SELECT 1 FROM jobs j CROSS JOIN LATERAL jsonb_path_query(j.args, '$.migrate.disks[*]') d
    WHERE j.subject = 'vm:' || v.id AND j.kind = 'vm.migrate' AND j.state IN ('queued', 'running')
      AND NOT @spec::jsonb @> jsonb_build_object('disks', jsonb_build_array(d->'disk')));

-- name: IgnoredVMDrift :one
SELECT ignored_drift FROM vms WHERE id = @id;

-- name: SetIgnoredVMDrift :exec
UPDATE vms SET ignored_drift = @ignored_drift WHERE id = @id;

-- name: MarkVMDeleted :exec
UPDATE vms SET deleted_at = now(), generation = generation + 1 WHERE id = @id;

-- name: VMTouched :one
-- Whether the host may have acted on the VM. Queued jobs stay locked, so that no host claims one in between.
SELECT EXISTS (
    SELECT 1 FROM (SELECT epoch FROM jobs WHERE subject = @subject AND task_id IS NOT NULL FOR UPDATE) j WHERE j.epoch > 0
)::boolean;

-- name: DropVM :exec
DELETE FROM vms WHERE id = @id;

-- name: VMAudit :many
SELECT * FROM audit WHERE subject = @subject ORDER BY id DESC LIMIT 50;

-- name: VMTasks :many
SELECT sqlc.embed(t), COALESCE(h.name, '')::text AS host_name FROM tasks t LEFT JOIN hosts h ON h.id = t.host_id
WHERE t.subject = @subject ORDER BY t.id DESC LIMIT 50;

-- name: VMRetry :one
-- The VM's first task that waits for a retry.
SELECT sqlc.embed(t), COALESCE(h.name, '')::text AS host_name FROM tasks t LEFT JOIN hosts h ON h.id = t.host_id
WHERE t.subject = @subject AND t.state = 'queued' AND t.retry_at IS NOT NULL ORDER BY t.id LIMIT 1;

-- name: VMMeter :one
-- The latest meter values of the VM. cpu_percent is negative after a restart of the VM or without earlier values.
SELECT m.at, m.cpu_nanos[p.i]::bigint AS cpu_nanos, m.memory_bytes[p.i]::bigint AS memory_bytes, m.read_bytes[p.i]::bigint AS read_bytes,
       m.write_bytes[p.i]::bigint AS write_bytes, m.receive_bytes[p.i]::bigint AS receive_bytes, m.send_bytes[p.i]::bigint AS send_bytes,
       COALESCE((m.cpu_nanos[p.i] - m.before_cpu[array_position(COALESCE(m.before_ids, m.vm_ids), v.id)])
                / NULLIF(extract(epoch FROM m.at - m.before_at) * 1e7, 0), -1)::float8 AS cpu_percent
FROM vms v JOIN host_meters m ON m.host_id = v.host_id CROSS JOIN LATERAL (SELECT array_position(m.vm_ids, v.id) AS i) p
WHERE v.id = @vm_id AND p.i IS NOT NULL;

-- name: LockMACs :exec
-- Serializes the use of MAC addresses by concurrent VM creations.
SELECT pg_advisory_xact_lock(hashtextextended('mac ' || m.mac, 0)) FROM (SELECT unnest(@macs::text[]) AS mac ORDER BY 1) m;

-- name: TryMAC :one
-- Works like LockMACs without waiting, for a caller that can choose another address.
SELECT pg_try_advisory_xact_lock(hashtextextended('mac ' || @mac::text, 0))::boolean;

-- name: MACsOfOthers :many
-- The addresses among these that other VMs use. An unmanaged VM is returned with its name and host.
SELECT m.mac::text AS mac, COALESCE(f.name, '')::text AS name, COALESCE(f.host_name, '')::text AS host_name
FROM unnest(@macs::text[]) AS m (mac) LEFT JOIN LATERAL (
    SELECT f.name, h.name AS host_name FROM found_vms f JOIN hosts h ON h.id = f.host_id
    WHERE f.status->'nics' @> jsonb_build_array(jsonb_build_object('mac', m.mac)) AND f.id <> @vm_id LIMIT 1) f ON true
WHERE f.name IS NOT NULL OR EXISTS (SELECT 1 FROM vm_words w WHERE w.word = m.mac AND w.kind = 'mac' AND w.vm_id <> @vm_id)
   OR EXISTS (SELECT 1 FROM vm_macs t WHERE t.mac = m.mac AND t.vm_id <> @vm_id);

-- name: ProjectName :one
-- Locks the project against deletion while a VM is created in it.
SELECT name FROM projects WHERE id = @id FOR KEY SHARE;

