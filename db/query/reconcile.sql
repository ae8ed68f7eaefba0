-- name: DriftedVMs :many
SELECT v.* FROM vms v WHERE v.id = ANY (ARRAY(SELECT drifted_vms(@fresh::interval)));

-- name: WakeDue :exec
-- Jobs that waited for their time: wake their hosts.
SELECT pg_notify('quantix', 'jobs:' || host_id) FROM jobs
WHERE state = 'queued' AND run_after <= now() AND run_after > created_at AND run_after > now() - interval '10 seconds'
GROUP BY host_id;

-- name: HostsNotFresh :many
-- The joined hosts of which not all is believed: that they are there, and what they say about their hypervisors.
SELECT host_id, COALESCE(is_fresh(seen_at, @fresh::interval), false)::boolean AS heard, COALESCE(is_fresh(looked_at, @fresh), false)::boolean AS looked FROM host_sessions
WHERE (is_fresh(seen_at, @fresh) AND is_fresh(looked_at, @fresh)) IS NOT TRUE;

-- name: HostsNotLooked :many
-- Those whose last look at their hypervisors is older than that, is in the future, or has never been.
SELECT h.id AS host_id, s.looked_at, now()::timestamptz AS now FROM hosts h LEFT JOIN host_sessions s ON s.host_id = h.id
WHERE is_fresh(s.looked_at, @age::interval) IS NOT TRUE;

-- name: VMsOfHosts :many
SELECT id FROM vms WHERE host_id = ANY (@ids::text[]);

-- name: SweepTickets :exec
DELETE FROM console_tickets WHERE expires_at < now() - interval '1 hour';
-- name: SweepThrottle :exec
DELETE FROM login_throttle WHERE last_at < now() - interval '1 day';
-- name: SweepTasks :execrows
-- Children and jobs go with them.
-- Ids are in the order of birth: what is younger than that is not looked at.
DELETE FROM tasks WHERE id IN (SELECT id FROM tasks WHERE parent_id IS NULL AND id < born(now() - interval '30 days') AND ended_at < now() - interval '30 days' ORDER BY id LIMIT @most);
-- name: SweepJobs :execrows
-- Those of no task.
DELETE FROM jobs WHERE id IN (SELECT id FROM jobs WHERE task_id IS NULL AND ended_at < now() - interval '1 hour' LIMIT @most);

-- name: SweepQuarters :execrows
-- Of each cell the last row that is older than a day stays: from then on it was so.
DELETE FROM cell_quarters q WHERE (q.noun, q.object_id, q.host_id, q.quarter) IN (
    SELECT o.noun, o.object_id, o.host_id, o.quarter FROM cell_quarters o WHERE o.quarter < now() - interval '25 hours'
      AND EXISTS (SELECT 1 FROM cell_quarters n WHERE n.noun = o.noun AND n.object_id = o.object_id AND n.host_id = o.host_id AND n.quarter > o.quarter
                  AND n.quarter < now() - interval '25 hours')
    LIMIT @most);
-- name: SweepOfflinePeriods :exec
DELETE FROM host_silences WHERE until < now() - interval '25 hours';

-- name: TryPassLock :one
-- One portal runs a periodic pass at a time.
SELECT pg_try_advisory_xact_lock(hashtext('quantix pass ' || @pass::text));
