-- name: ReportGuests :exec
-- Stores what guest agents reported. Reports from hosts other than the VM's own are ignored.
INSERT INTO vm_guests AS g (vm_id, host_id, at, reading)
SELECT v.id, v.host_id, now() - r.ago * interval '1 millisecond', r.reading
FROM (SELECT unnest(@host_ids::text[]) AS host_id, unnest(@vm_ids::text[]) AS vm_id, unnest(@agos::bigint[]) AS ago, unnest(@readings::text[])::jsonb AS reading) r
JOIN vms v ON v.id = r.vm_id AND v.host_id = r.host_id ORDER BY v.id
ON CONFLICT (vm_id) DO UPDATE SET host_id = EXCLUDED.host_id, at = EXCLUDED.at, reading = EXCLUDED.reading;

-- name: VMGuest :one
SELECT g.at, g.reading FROM vm_guests g JOIN vms v ON v.id = g.vm_id AND v.host_id = g.host_id WHERE g.vm_id = @vm_id;

-- name: SetGuestSecret :exec
INSERT INTO guest_secrets (job_id, by_key, sealed) VALUES (@job_id, @by_key, @sealed);

-- name: GuestSecretFor :one
-- A job's secret, only for the host that runs the job, and only while it runs.
SELECT s.by_key, s.sealed FROM guest_secrets s JOIN jobs j ON j.id = s.job_id
WHERE s.job_id = @job_id AND j.host_id = @host_id AND j.state = 'running';

-- name: ProtectVM :exec
UPDATE vms SET protected = @protected, lock = @lock, expires_at = @expires_at, expiry_stops = @expiry_stops, expiry = @expiry WHERE id = @id;

-- name: ExpiringVMs :many
-- VMs whose expiry state must change at the current time.
SELECT id, expiry_stops, (expires_at <= now())::boolean AS over FROM vms
WHERE recycled_at IS NULL AND expires_at IS NOT NULL AND expiry <> 'over' AND expires_at <= now() + @notice::interval AND (expiry = '' OR expires_at <= now())
ORDER BY expires_at, id LIMIT 200 FOR UPDATE SKIP LOCKED;

-- name: SetExpiry :exec
UPDATE vms SET expiry = @expiry WHERE id = @id;

-- name: TimeNow :one
SELECT now()::timestamptz;

-- name: AddGuestRun :exec
INSERT INTO guest_runs (task_id, vm_id, result) VALUES (@task_id, @vm_id, @result);

-- name: DropGuestRuns :exec
-- Deletes all guest runs of a VM except the newest.
DELETE FROM guest_runs WHERE guest_runs.vm_id = @vm_id
  AND task_id NOT IN (SELECT k.task_id FROM guest_runs k WHERE k.vm_id = @vm_id ORDER BY k.task_id DESC LIMIT @keep::integer);

-- name: EndGuestRun :exec
UPDATE guest_runs SET result = jsonb_set(result, '{output}', @output::jsonb) WHERE task_id = @task_id;

-- name: GuestRun :one
SELECT result FROM guest_runs WHERE task_id = @task_id;
