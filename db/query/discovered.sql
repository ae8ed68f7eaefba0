-- name: GetDiscoveredVM :one
SELECT sqlc.embed(f), h.name AS host_name, s.looked_at, s.fresh_for,
       maintenance_state(h.maintained, s.seen_at, s.fresh_for, s.powered_off_at)::text AS host_maintenance, now()::timestamptz AS now
FROM found_vms f JOIN hosts h ON h.id = f.host_id LEFT JOIN host_sessions s ON s.host_id = f.host_id
WHERE f.host_id = @host_id AND f.id = @id;

-- name: DiscoveredVMsNamed :many
SELECT sqlc.embed(f), h.name AS host_name, s.looked_at, s.fresh_for,
       maintenance_state(h.maintained, s.seen_at, s.fresh_for, s.powered_off_at)::text AS host_maintenance, now()::timestamptz AS now
FROM (SELECT unnest(@hosts::text[]) AS host_id, unnest(@ids::text[]) AS id) w JOIN found_vms f ON f.host_id = w.host_id AND f.id = w.id
JOIN hosts h ON h.id = f.host_id LEFT JOIN host_sessions s ON s.host_id = f.host_id;

-- name: DiscoveredVMsWithIDs :many
SELECT sqlc.embed(f), h.name AS host_name, s.looked_at, s.fresh_for,
       maintenance_state(h.maintained, s.seen_at, s.fresh_for, s.powered_off_at)::text AS host_maintenance, now()::timestamptz AS now
FROM found_vms f JOIN hosts h ON h.id = f.host_id LEFT JOIN host_sessions s ON s.host_id = f.host_id
WHERE f.id = ANY (@ids::text[]) ORDER BY f.id, h.name;

-- name: PoolsOfHost :many
-- The pools assigned to the host, locked against a release until the transaction ends.
SELECT p.* FROM pools p WHERE p.id IN (SELECT a.pool_id FROM assignments a WHERE a.host_id = @host_id AND a.asked = 'assign') ORDER BY p.id FOR SHARE OF p;

-- name: AdoptVM :execrows
-- Adds the VM of a domain that the host already has. No row: a VM has the ID, or the name in the project.
INSERT INTO vms (id, project_id, host_id, name, labels, description, spec, adoption)
VALUES (@id, @project_id, @host_id, @name, '{}', @description, @spec, @adoption) ON CONFLICT DO NOTHING;

-- name: AddAdoptedDisks :exec
-- Records the VM's disks as created, so that no host creates them, and removes the domain from the discovered VMs.
WITH gone AS (DELETE FROM found_vms f WHERE f.id = @id AND f.host_id = @host_id)
INSERT INTO made_disks (vm_id, pool_id, volume)
SELECT v.id, d->>'poolId', d->>'volume' FROM vms v CROSS JOIN LATERAL jsonb_path_query(v.spec, '$.disks[*]') d WHERE v.id = @id ON CONFLICT DO NOTHING;

-- name: ForgetVM :exec
-- Removes a released VM. Its domain is a discovered VM from now on, unless the host has none.
WITH gone AS (DELETE FROM vms v WHERE v.id = @id AND v.host_id = @host_id RETURNING v.id, v.name)
INSERT INTO found_vms (host_id, id, name, status)
SELECT @host_id, gone.id, COALESCE(NULLIF(@status::jsonb ->> 'domain', ''), gone.name), @status::jsonb FROM gone WHERE @status::jsonb ->> 'power' <> 'absent'
ON CONFLICT DO NOTHING;

-- name: MoveTask :exec
-- A task about a discovered VM is about the VM from now on.
UPDATE tasks SET subject = @subject, project_id = @project_id, subject_name = @subject_name WHERE id = @id;
