-- name: DriftedVMs :many
SELECT v.* FROM vms v WHERE v.id = ANY (ARRAY(SELECT drifted_vms()));

-- name: WakeDue :exec
-- Wakes hosts with jobs whose start time has been reached.
SELECT pg_notify('quantix', 'jobs:' || host_id) FROM jobs
WHERE state = 'queued' AND run_after <= now() AND run_after > created_at AND run_after > now() - interval '10 seconds'
GROUP BY host_id;

-- name: HostsNotFresh :many
-- Hosts whose agent is offline or whose inventory is not fresh.
SELECT host_id, COALESCE(is_fresh(seen_at, fresh_for), false)::boolean AS heard, COALESCE(is_fresh(looked_at, fresh_for), false)::boolean AS looked FROM host_sessions
WHERE (is_fresh(seen_at, fresh_for) AND is_fresh(looked_at, fresh_for)) IS NOT TRUE;

-- name: HostsNotLooked :many
-- Hosts whose inventory is missing, in the future, or not fresh any more in @soon. powered_off: by Quantix's command; see
-- fleet.ReportTime.
SELECT h.id AS host_id, s.looked_at, s.fresh_for, COALESCE(s.seen_at < s.powered_off_at + interval '5 minutes', false)::boolean AS powered_off, now()::timestamptz AS now
FROM hosts h LEFT JOIN host_sessions s ON s.host_id = h.id
WHERE is_fresh(s.looked_at, s.fresh_for - @soon::interval) IS NOT TRUE;

-- name: VMsOfHosts :many
SELECT id FROM vms WHERE host_id = ANY (@ids::text[]);

-- name: SweepTickets :exec
DELETE FROM console_tickets WHERE expires_at < now() - interval '1 hour';
-- name: SweepThrottle :exec
DELETE FROM login_throttle WHERE last_at < now() - interval '1 day';
-- name: SweepTasks :execrows
-- Subtasks and jobs are deleted by cascade. Task IDs are ordered by creation time, so newer tasks are not scanned.
DELETE FROM tasks WHERE id IN (SELECT id FROM tasks WHERE parent_id IS NULL AND id < born(now() - interval '30 days') AND ended_at < now() - interval '30 days' ORDER BY id LIMIT @most);
-- name: SweepJobs :execrows
-- Jobs without a task.
DELETE FROM jobs WHERE id IN (SELECT id FROM jobs WHERE task_id IS NULL AND ended_at < now() - interval '1 hour' LIMIT @most);

-- name: SweepQuarters :execrows
-- Retains the last expired row of each status: it has the status at the start of the day.
DELETE FROM cell_quarters q WHERE (q.noun, q.object_id, q.host_id, q.quarter) IN (
    SELECT o.noun, o.object_id, o.host_id, o.quarter FROM cell_quarters o WHERE o.quarter < now() - interval '25 hours'
      AND EXISTS (SELECT 1 FROM cell_quarters n WHERE n.noun = o.noun AND n.object_id = o.object_id AND n.host_id = o.host_id AND n.quarter > o.quarter
                  AND n.quarter < now() - interval '25 hours')
    LIMIT @most);
-- name: SweepOfflinePeriods :exec
DELETE FROM host_silences WHERE until < now() - interval '25 hours';

-- name: TryPassLock :one
-- Makes sure that only one portal at a time runs the reconciler of this name.
SELECT pg_try_advisory_xact_lock(hashtext('quantix pass ' || @pass::text));
