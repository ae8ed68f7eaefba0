-- name: SetFirstBoot :exec
INSERT INTO first_boots (vm_id, number, by_key, sealed, set_by) VALUES (@vm_id, @number, @by_key, @sealed, @set_by)
ON CONFLICT (vm_id) DO UPDATE SET number = excluded.number, by_key = excluded.by_key, sealed = excluded.sealed, set_by = excluded.set_by, set_at = now();

-- name: DropFirstBoot :exec
DELETE FROM first_boots WHERE vm_id = @vm_id;

-- name: GetFirstBoot :one
SELECT * FROM first_boots WHERE vm_id = @vm_id;

-- name: FirstBootFor :one
-- A VM's first-boot data, only for the VM's own host and for a host that receives the running VM.
SELECT f.by_key, f.sealed, f.number, (v.spec #>> '{firstBoot,kind}')::text AS kind FROM first_boots f JOIN vms v ON v.id = f.vm_id
WHERE f.vm_id = @vm_id AND v.deleted_at IS NULL
  AND (v.host_id = @host_id OR EXISTS (SELECT 1 FROM jobs r WHERE r.subject = 'vm:' || v.id AND r.host_id = @host_id AND r.kind = 'vm.receive' AND r.state = 'running'))
  AND (v.spec #>> '{firstBoot,number}')::bigint = f.number;
