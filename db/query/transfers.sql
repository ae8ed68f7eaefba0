-- name: AddTransfer :exec
INSERT INTO transfers (id, send_job, receive_job, from_host, to_host) VALUES (@id, @send_job, @receive_job, @from_host, @to_host);

-- name: AnswerAtRelay :exec
-- Stores the data that a host of the transfer announces: the sender its ticket and whether to use a relay, the receiver
-- the ticket that it accepts and its addresses. Hosts repeat their calls while they wait, so only changes are written.
UPDATE transfers SET
    ticket = CASE WHEN j.id = send_job THEN @ticket::text ELSE ticket END,
    heard = CASE WHEN j.id = send_job THEN heard ELSE @ticket END,
    listens = CASE WHEN j.id = send_job THEN listens ELSE @listens::text[] END,
    pair_id = CASE WHEN j.id = send_job AND @relay::boolean AND paired <> @ticket THEN @pair::text ELSE pair_id END,
    pair_url = CASE WHEN j.id = send_job AND @relay AND paired <> @ticket THEN @url::text ELSE pair_url END,
    paired_at = CASE WHEN j.id = send_job AND @relay AND paired <> @ticket THEN now() ELSE paired_at END,
    paired = CASE WHEN j.id = send_job AND @relay THEN @ticket ELSE paired END
FROM jobs j WHERE transfers.id = @id AND j.id = @job AND j.id IN (send_job, receive_job) AND j.host_id = @host_id AND j.epoch = @epoch AND j.state = 'running'
  AND CASE WHEN j.id = send_job THEN ticket <> @ticket OR @relay AND paired <> @ticket ELSE heard <> @ticket OR listens IS DISTINCT FROM @listens::text[] END;

-- name: Meeting :one
-- The data about the other host that a host of the transfer needs.
SELECT (j.id = t.send_job)::boolean AS sends, t.ticket, t.heard, t.listens, t.pair_id, t.pair_url, t.paired, o.id AS peer, o.name AS peer_name,
       COALESCE(o.key_hash, '')::bytea AS peer_key, s.state AS send_state, s.error AS send_error, r.state AS receive_state, r.error AS receive_error
FROM jobs j JOIN transfers t ON t.id = @id AND j.id IN (t.send_job, t.receive_job) JOIN jobs s ON s.id = t.send_job JOIN jobs r ON r.id = t.receive_job
JOIN hosts o ON o.id = CASE WHEN j.id = t.send_job THEN t.to_host ELSE t.from_host END
WHERE j.id = @job AND j.host_id = @host_id AND j.epoch = @epoch AND j.state = 'running';

-- name: AwaitedTransfer :one
-- A running transfer of the host whose sender requested this relayed connection within the last 30 s.
SELECT t.from_host, t.to_host FROM transfers t JOIN jobs s ON s.id = t.send_job JOIN jobs r ON r.id = t.receive_job
WHERE t.pair_id = @pair_id::text AND @pair_id <> '' AND @host_id::text IN (t.from_host, t.to_host) AND t.paired_at > now() - interval '30 seconds'
  AND s.state = 'running' AND r.state = 'running';

-- name: TransfersOf :many
-- The transfers of a job with the states of both jobs.
SELECT t.id, t.send_job, t.receive_job, t.from_host, t.to_host, r.subject, r.state AS receive_state, s.state AS send_state, s.kind AS send_kind,
    COALESCE((SELECT k.subject_name FROM tasks k WHERE k.id = r.task_id), '')::text AS subject_name
FROM transfers t JOIN jobs s ON s.id = t.send_job JOIN jobs r ON r.id = t.receive_job WHERE t.send_job = @job::text OR t.receive_job = @job ORDER BY t.id;

-- name: IsRelayed :one
-- Whether a transfer that the job sends goes through the portal's relay.
SELECT EXISTS (SELECT 1 FROM transfers t WHERE t.send_job = @job::text AND t.paired <> '' AND t.paired = t.ticket);

-- name: CancelUnbegun :exec
-- Cancels the jobs of a transfer that have not started, because the other host's job has ended.
UPDATE jobs SET state = 'cancelled', error = @error, ended_at = now() WHERE id = ANY (@ids::text[]) AND state = 'queued' AND attempt = 0;

-- name: StopParts :execrows
-- Cancels a task over several hosts: unstarted jobs end at once; hosts undo started jobs.
UPDATE jobs SET stop = @error, note = CASE WHEN attempt > 0 THEN 'being cancelled' ELSE note END,
    state = CASE WHEN attempt > 0 THEN state ELSE 'cancelled' END, error = CASE WHEN attempt > 0 THEN error ELSE @error END,
    ended_at = CASE WHEN attempt > 0 THEN ended_at ELSE now() END, run_after = CASE WHEN attempt > 0 AND state = 'queued' THEN now() ELSE run_after END
WHERE task_id = @task_id AND kind = ANY (@kinds::text[]) AND state IN ('queued', 'running') AND stop = '';

-- name: CountTransfers :one
-- The numbers of transfers from one host, and to another.
SELECT (SELECT count(*) FROM transfers t JOIN jobs r ON r.id = t.receive_job WHERE t.from_host = @from_host AND r.state IN ('queued', 'running')) AS sent,
       (SELECT count(*) FROM transfers t JOIN jobs r ON r.id = t.receive_job WHERE t.to_host = @to_host AND r.state IN ('queued', 'running')) AS received;

-- name: LeavingOf :many
-- The VM's open migration to another host.
SELECT j.id, j.task_id::text AS task_id, j.args, j.state, t.progress, t.note FROM jobs j JOIN tasks t ON t.id = j.task_id
WHERE j.subject = @subject AND j.kind = 'vm.migrate' AND j.state IN ('queued', 'running') ORDER BY j.id;

-- name: VMLeft :one
-- Assigns the VM to another host, once, with its disks there, and drops the old host's status. It changes nothing if
-- the VM is on another host by now, has other disks or is being deleted. The generation is raised above the disks'
-- numbers.
UPDATE vms v SET host_id = @to_host, generation = GREATEST(v.generation + 1, @generation::bigint), report_seq = COALESCE((SELECT h.report_seq FROM host_sessions h WHERE h.host_id = @to_host), 0),
    status = COALESCE(v.status, '{"power": "stopped", "cpus": 0, "memoryMiB": 0}') || '{"disks": []}',
    spec = jsonb_set(v.spec, '{disks}', (
        SELECT COALESCE(jsonb_agg(CASE WHEN m.value IS NULL THEN d.value ELSE d.value || (m.value->'to') END ORDER BY d.ordinality), '[]')
        FROM jsonb_array_elements(v.spec->'disks') WITH ORDINALITY d LEFT JOIN jsonb_array_elements(@disks::jsonb) m ON d.value @> (m.value->'disk')))
WHERE v.id = @id AND v.host_id = @from_host AND v.deleted_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM jsonb_array_elements(@disks::jsonb) m WHERE NOT v.spec @> jsonb_build_object('disks', jsonb_build_array(m.value->'disk')))
RETURNING v.name, v.project_id, v.generation;

-- name: NoteLeft :exec
-- Records the new disks as created, so that no host creates them again, and the old disks as left on the old host.
WITH made AS (
    INSERT INTO made_disks (vm_id, pool_id, volume) SELECT @vm_id, m #>> '{to,poolId}', m #>> '{to,volume}' FROM jsonb_array_elements(@disks::jsonb) m ON CONFLICT DO NOTHING
)
INSERT INTO left_disks (vm_id, host_id, pool_id, volume)
SELECT @vm_id, @host_id, m #>> '{disk,poolId}', m #>> '{disk,volume}' FROM jsonb_array_elements(@disks::jsonb) m ON CONFLICT DO NOTHING;

-- name: TakeLeft :many
-- Deletes and returns the records of disks left on old hosts, once the VM's new host has applied the VM or @applied is set.
-- Until the old host's migration job, other than @job, has ended as done, its guest may still use the disks. After a
-- failed job, the disks stay: they may have newer data.
DELETE FROM left_disks l USING vms v
WHERE l.vm_id = @vm_id AND v.id = l.vm_id AND v.host_id <> l.host_id AND (@applied::boolean OR v.observed_generation >= v.generation)
  AND NOT v.spec @> jsonb_build_object('disks', jsonb_build_array(jsonb_build_object('poolId', l.pool_id, 'volume', l.volume)))
  AND NOT EXISTS (SELECT 1 FROM (SELECT j.id, j.state FROM jobs j WHERE j.subject = 'vm:' || l.vm_id AND j.host_id = l.host_id AND j.kind = 'vm.migrate' ORDER BY j.id DESC LIMIT 1) j
                  WHERE j.id <> @job AND j.state <> 'done')
RETURNING l.host_id, l.pool_id, l.volume;

-- name: TakeStrandedDisks :many
-- Deletes and returns the records of disks left on old hosts whose migration job has an unknown result: for VMs that their
-- new host has applied, and that the old host no longer reports, a minute after the end of the job.
DELETE FROM left_disks l USING vms v, host_sessions s
WHERE v.id = l.vm_id AND v.host_id <> l.host_id AND v.observed_generation >= v.generation AND s.host_id = l.host_id AND is_fresh(s.looked_at, s.fresh_for)
  AND NOT v.spec @> jsonb_build_object('disks', jsonb_build_array(jsonb_build_object('poolId', l.pool_id, 'volume', l.volume)))
  AND NOT EXISTS (SELECT 1 FROM found_vms f WHERE f.host_id = l.host_id AND f.id = l.vm_id)
  AND NOT EXISTS (SELECT 1 FROM (SELECT j.state, j.ended_at FROM jobs j WHERE j.subject = 'vm:' || l.vm_id AND j.host_id = l.host_id AND j.kind = 'vm.migrate' ORDER BY j.id DESC LIMIT 1) j
                  WHERE j.state NOT IN ('done', 'unknown') OR j.ended_at > least(s.looked_at, now() - interval '1 minute'))
RETURNING l.host_id, l.pool_id, l.volume;

-- name: PoolsToGoTo :many
-- The pools that a VM's disks could migrate to.
SELECT p.id FROM pools p WHERE p.deleted_at IS NULL ORDER BY p.name LIMIT 200;

-- name: MigratingAmong :many
-- The open migrations and disk migrations of these VMs.
SELECT j.subject, j.kind FROM jobs j
WHERE j.subject = ANY (@subjects::text[]) AND j.kind IN ('vm.migrate', 'vm.disk.move') AND j.state IN ('queued', 'running') ORDER BY j.subject, j.kind;

-- name: NoteTransferRate :exec
-- Records the rate of a transfer between two hosts.
INSERT INTO transfer_rates (from_host, to_host, bytes_per_second) VALUES (@from_host, @to_host, @bytes_per_second)
ON CONFLICT (from_host, to_host) DO UPDATE SET bytes_per_second = excluded.bytes_per_second, measured_at = now();

-- name: TransferRatesFrom :many
-- The measured rates of transfers from these hosts.
SELECT from_host, to_host, bytes_per_second FROM transfer_rates WHERE from_host = ANY (@hosts::text[]);

-- name: VMMemoryBytes :one
SELECT (memory_mib::bigint << 20)::bigint AS bytes FROM vms WHERE id = @id;
