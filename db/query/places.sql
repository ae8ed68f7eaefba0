-- name: StrangeDomains :many
-- The domains of a host that are not its own VMs, and the domains of its own VMs without the right ownership mark.
-- proof is computed from the mark in the domain's metadata. known: the ID is that of another host's VM; proven: the
-- mark is right, too. adopting: the VM was adopted, and its host has not yet marked the domain.
SELECT r.id::text AS id, (v.host_id IS NOT DISTINCT FROM @host_id)::boolean AS mine, (v.id IS NOT NULL)::boolean AS known,
       COALESCE(r.proof = vm_proof(m.vm_id, m.mark), false)::boolean AS proven, COALESCE(m.mark, '')::text AS mark,
       COALESCE(v.adoption IS NOT NULL AND v.observed_generation = 0, false)::boolean AS adopting
FROM jsonb_to_recordset(@domains::jsonb) AS r (id text, proof text)
LEFT JOIN vms v ON v.id = r.id LEFT JOIN vm_marks m ON m.vm_id = v.id
WHERE v.host_id IS DISTINCT FROM @host_id OR r.proof IS DISTINCT FROM vm_proof(m.vm_id, m.mark);

-- name: DropSightings :exec
DELETE FROM vm_sightings WHERE host_id = @host_id AND vm_id <> ALL (@ids::text[]);

-- name: SightVMs :exec
-- A user's decision that a domain running on another host is not the VM ends when the domain stops.
INSERT INTO vm_sightings (vm_id, host_id, power, generation, proven)
SELECT v.id, @host_id, r.power, r.generation, r.proven
FROM jsonb_to_recordset(@seen::jsonb) AS r (id text, power text, generation bigint, proven boolean) JOIN vms v ON v.id = r.id
ON CONFLICT (vm_id, host_id) DO UPDATE SET power = EXCLUDED.power, generation = EXCLUDED.generation, proven = EXCLUDED.proven,
    since = CASE WHEN vm_sightings.power = EXCLUDED.power AND vm_sightings.proven = EXCLUDED.proven THEN vm_sightings.since ELSE now() END,
    began = CASE WHEN vm_sightings.power IN ('running', 'paused') AND vm_sightings.proven = EXCLUDED.proven THEN vm_sightings.began ELSE now() END,
    alarm = vm_sightings.alarm AND EXCLUDED.proven AND EXCLUDED.power IN ('running', 'paused'),
    settled = vm_sightings.settled AND EXCLUDED.power IN ('running', 'paused')
WHERE (vm_sightings.power, vm_sightings.generation, vm_sightings.proven) IS DISTINCT FROM (EXCLUDED.power, EXCLUDED.generation, EXCLUDED.proven);

-- name: PlacesToSettle :many
-- VMs that another host reports as running with the right ownership mark, after both hosts have reported again. gone is
-- set if the VM's own host no longer runs it; otherwise both hosts run it. VMs that their own host is starting are
-- omitted. The jobs of an open migration decide on the VM's host and disks, so gone is never set during a migration. A
-- migration's guest is paused on at least one of the hosts, but the hosts look at different times: during a migration,
-- both hosts must report a running guest for more than two report intervals. An empty @vm_id selects all VMs.
SELECT s.vm_id, s.host_id, v.host_id AS own_id, (v.status->>'power' <> 'running')::boolean AS gone
FROM vm_sightings s JOIN vms v ON v.id = s.vm_id
JOIN host_sessions own ON own.host_id = v.host_id JOIN host_sessions its ON its.host_id = s.host_id
CROSS JOIN LATERAL (
    SELECT EXISTS (SELECT 1 FROM jobs j WHERE j.subject = 'vm:' || v.id AND j.kind IN ('vm.migrate', 'vm.receive') AND j.state IN ('queued', 'running')) AS open) migration
CROSS JOIN LATERAL (
    SELECT s.since + CASE WHEN migration.open THEN 2 * GREATEST(own.fresh_for, its.fresh_for) / 3 ELSE interval '0' END AS doubtful_until) running
WHERE s.proven AND NOT s.settled AND s.power = 'running' AND (@vm_id::text = '' OR s.vm_id = @vm_id::text)
  AND is_fresh(own.looked_at, own.fresh_for)
  AND (v.status->>'power' IN ('absent', 'stopped', 'crashed') AND own.looked_at > s.began AND NOT migration.open
            AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.subject = 'vm:' || v.id AND j.host_id = v.host_id AND j.state = 'running'
                            AND ordered_power(j.kind) = 'running')
        OR v.status->>'power' = 'running' AND NOT s.alarm AND own.looked_at > running.doubtful_until
            AND its.looked_at > running.doubtful_until AND is_fresh(its.looked_at, its.fresh_for))
ORDER BY s.vm_id, s.began, s.host_id
LIMIT 500;

-- name: SightingsSeen :many
-- The other hosts that report a domain with the VM's ID, with the times of their last inventories.
SELECT s.host_id, h.looked_at, h.fresh_for FROM vm_sightings s LEFT JOIN host_sessions h ON h.host_id = s.host_id WHERE s.vm_id = @vm_id;

-- name: RequestFullReports :exec
-- Makes the hosts send full reports. It is the first statement when a VM's host is decided: its locks delay reports, so
-- that no older report is stored afterwards.
WITH locked AS (SELECT h.host_id FROM host_sessions h WHERE h.host_id = ANY (@ids::text[]) ORDER BY h.host_id FOR NO KEY UPDATE)
UPDATE host_sessions s SET digest = '' FROM locked l WHERE s.host_id = l.host_id;

-- name: FollowVM :one
-- The last report of the new host becomes the VM's status, as if that host had reported its own VM.
WITH seen AS (DELETE FROM vm_sightings s WHERE s.vm_id = @id AND s.host_id = @to_host RETURNING s.generation),
     found AS (DELETE FROM found_vms f WHERE f.id = @id AND f.host_id = @to_host RETURNING f.status)
UPDATE vms v SET host_id = @to_host, deleted_at = CASE WHEN v.recycled_at IS NULL THEN NULL ELSE v.deleted_at END, status = found.status, observed_generation = LEAST(seen.generation, v.generation),
                 report_seq = (SELECT h.report_seq FROM host_sessions h WHERE h.host_id = @to_host)
FROM seen, found WHERE v.id = @id
RETURNING v.observed_generation;

-- name: RaiseAlarm :exec
UPDATE vm_sightings SET alarm = true WHERE vm_id = @vm_id AND host_id = @host_id;

-- name: SettleSightings :exec
-- The VM stays on its host; domains that other hosts run are no longer treated as the VM.
UPDATE vm_sightings SET settled = true, alarm = false WHERE vm_id = @vm_id AND power IN ('running', 'paused') AND (alarm OR NOT settled);

-- name: KeepAsDiscovered :exec
-- Stores the old host's domain as a discovered VM and as another host's report on the VM, as that host's next report
-- would.
WITH left_there AS (
    INSERT INTO found_vms (host_id, id, name, status)
    SELECT v.host_id, v.id, COALESCE(NULLIF(v.status->>'domain', ''), v.name), v.status FROM vms v WHERE v.id = @vm_id ON CONFLICT DO NOTHING)
INSERT INTO vm_sightings (vm_id, host_id, power, generation, proven)
SELECT v.id, v.host_id, v.status->>'power', v.observed_generation, true FROM vms v WHERE v.id = @vm_id;

-- name: OpenJobsOf :many
SELECT * FROM jobs WHERE subject = @subject AND host_id = @host_id AND state IN ('queued', 'running') ORDER BY id FOR UPDATE;

-- name: MoveJob :exec
-- Moves the job to another host.
UPDATE jobs SET host_id = @to_host, state = 'queued', run_after = now(), lease_until = NULL, progress = 0, note = '' WHERE id = @id;

-- name: ForgetSighting :exec
-- Deletes the host's report of a VM that was another host's, because a newer result of the host replaces the report.
WITH found AS (DELETE FROM found_vms f WHERE f.id = @vm_id AND f.host_id = @host_id)
DELETE FROM vm_sightings s WHERE s.vm_id = @vm_id AND s.host_id = @host_id;
