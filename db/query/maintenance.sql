-- name: MaintenanceOf :one
-- The host's maintenance, locked against LockHost until the transaction ends. Reports, which lock a host before its VMs,
-- do not wait for this lock: starts take it after that of the VM.
SELECT h.name, maintenance_state(h.maintained, s.seen_at, s.fresh_for, s.powered_off_at)::text AS host_maintenance
FROM hosts h LEFT JOIN host_sessions s ON s.host_id = h.id WHERE h.id = @id FOR KEY SHARE OF h;

-- name: SetMaintenance :exec
UPDATE hosts SET maintenance = @maintenance WHERE id = @id;

-- name: RecordPowerOff :exec
-- Records that the host accepted the command to power off, if it is in maintenance.
UPDATE host_sessions s SET powered_off_at = now() FROM hosts h WHERE h.id = s.host_id AND s.host_id = @host_id AND h.maintained = 'entered';

-- name: ForgetPowerOff :exec
UPDATE host_sessions SET powered_off_at = NULL WHERE host_id = @host_id AND powered_off_at IS NOT NULL;

-- name: HostsToDrain :many
-- The hosts that are entering maintenance.
SELECT id FROM hosts WHERE maintenance IS NOT NULL AND NOT maintenance ? 'enteredAt' ORDER BY id;

-- name: VMsRunningOn :many
-- The VMs of a host that run, are paused or are being started, and the running discovered VMs.
SELECT v.id, v.name, true AS managed FROM vms v
WHERE v.host_id = @host_id AND v.deleted_at IS NULL AND (COALESCE(v.status->>'power', '') IN ('running', 'paused') OR v.ordered = 'running')
UNION ALL SELECT f.id, f.name, false FROM found_vms f
WHERE f.host_id = @host_id AND f.status->>'power' IN ('running', 'paused') AND NOT EXISTS (SELECT 1 FROM vms v WHERE v.id = f.id AND v.host_id = f.host_id)
ORDER BY 2, 1;

-- name: VMsOnTaintedHosts :many
-- The VMs on hosts with NoExecute taints, but not on hosts in maintenance, with the last attempt to migrate each away. due:
-- the time of the next attempt has come. leaves: a migration is in progress. last_error is that of the last failed migration.
SELECT v.id, v.host_id, h.spec AS host_spec, COALESCE(v.spec->'placement'->>'tolerations', '')::text AS tolerations,
       COALESCE(e.tries, 0)::integer AS tries, COALESCE(e.reason, '')::text AS reason, (e.next_at IS NULL OR e.next_at <= now())::boolean AS due,
       EXISTS (SELECT 1 FROM jobs j WHERE j.subject = 'vm:' || v.id AND j.kind = 'vm.migrate' AND j.state IN ('queued', 'running')) AS leaves,
       COALESCE((SELECT t.error FROM tasks t WHERE t.subject = 'vm:' || v.id AND t.kind = 'vm.migrate' AND t.state IN ('failed', 'unknown') ORDER BY t.id DESC LIMIT 1), '')::text AS last_error
FROM hosts h JOIN vms v ON v.host_id = h.id LEFT JOIN vm_evictions e ON e.vm_id = v.id AND e.host_id = h.id
WHERE h.spec->'taints' @> '[{"effect": "NoExecute"}]' AND h.maintenance IS NULL AND v.deleted_at IS NULL AND v.observed_generation > 0
ORDER BY v.id;

-- name: ForgetEvictions :exec
-- Deletes the attempts for all VMs but these.
DELETE FROM vm_evictions WHERE vm_id <> ALL (@ids::text[]);

-- name: BeginEviction :exec
-- Records an attempt. The next one follows after a minute, then after twice the time each, at most half an hour.
INSERT INTO vm_evictions (vm_id, host_id, reason, tries, next_at) VALUES (@vm_id, @host_id, '', 1, now() + interval '1 minute')
ON CONFLICT (vm_id) DO UPDATE SET host_id = EXCLUDED.host_id, tries = CASE WHEN vm_evictions.host_id = EXCLUDED.host_id THEN vm_evictions.tries + 1 ELSE 1 END,
    next_at = now() + LEAST(interval '1 minute' * 2 ^ LEAST(vm_evictions.tries, 10), interval '30 minutes');

-- name: RefuseEviction :exec
-- Records why a VM cannot be migrated away. A refusal without a migration is checked again every minute.
UPDATE vm_evictions SET reason = @reason, tries = CASE WHEN @failed::boolean THEN tries ELSE 0 END,
    next_at = CASE WHEN @failed THEN next_at ELSE now() + interval '1 minute' END WHERE vm_id = @vm_id;

-- name: ClearEviction :exec
UPDATE vm_evictions SET reason = '' WHERE vm_id = @vm_id;

-- name: StuckEvictions :many
-- The VMs of a host that a NoExecute taint could not move.
SELECT v.id, v.name, e.reason FROM vm_evictions e JOIN vms v ON v.id = e.vm_id WHERE e.host_id = @host_id AND e.reason <> '' ORDER BY v.name, v.id;

-- name: HostTransfers :one
-- The number of open jobs that move VMs or files to or from the host.
SELECT ((SELECT count(*) FROM jobs j WHERE j.host_id = @host_id AND j.kind IN ('vm.migrate', 'vm.receive', 'volume.send', 'volume.receive') AND j.state IN ('queued', 'running'))
      + (SELECT count(*) FROM jobs m WHERE m.kind = 'vm.migrate' AND m.state IN ('queued', 'running') AND m.args->'migrate'->>'to' = @host_id))::bigint;

-- name: CancelStaleHostPower :exec
-- Cancels reboots and power-offs that their hosts did not get within two minutes.
UPDATE jobs SET state = 'cancelled', error = @error, ended_at = now()
WHERE kind IN ('host.reboot', 'host.shutdown') AND state = 'queued' AND created_at < now() - interval '2 minutes';
