-- name: CheckForWork :one
-- Whether the agent session is the host's current one, and whether jobs may be queued for the host.
SELECT EXISTS (SELECT 1 FROM host_sessions s WHERE s.host_id = @host_id AND s.session = @session) AS proven,
       EXISTS (SELECT 1 FROM jobs j WHERE j.host_id = @host_id AND j.state = 'queued' AND j.run_after <= now()) AS waits;

-- name: ClaimJobs :many
-- Claims jobs for many hosts: one per subject, oldest first. Jobs without a task (consoles) never wait for others. A
-- claim raises the epoch above any that the host has seen. session identifies the agent session that claims; work
-- describes the job's subject. The source of a migration gets the VM also after the VM has arrived: see arrivedVM of
-- agentapi. If there are jobs, the session is locked first, so that a hello sees the claimed jobs and an ended session
-- claims none. Subqueries check for earlier jobs of a subject, because the planner made a join read all running jobs.
WITH mine AS MATERIALIZED (
    SELECT s.host_id, a.session, a.most, s.epoch_lift
    FROM (SELECT unnest(@hosts::text[]) AS host_id, unnest(@sessions::bytea[]) AS session, unnest(@most::integer[]) AS most ORDER BY 1) a
    CROSS JOIN LATERAL (
        SELECT h.host_id, h.epoch_lift FROM host_sessions h WHERE h.host_id = a.host_id AND h.session = a.session
          AND EXISTS (SELECT 1 FROM jobs w WHERE w.host_id = h.host_id AND w.state = 'queued' AND w.run_after <= now())
        FOR KEY SHARE OF h) s
), ready AS (
    SELECT r.id, m.session, m.epoch_lift FROM mine m CROSS JOIN LATERAL (
        SELECT a.id FROM (
            SELECT j.id FROM jobs j
            WHERE j.host_id = m.host_id AND j.state = 'queued' AND j.run_after <= now() AND j.task_id IS NULL
            ORDER BY j.id LIMIT m.most FOR UPDATE OF j SKIP LOCKED) a
        UNION ALL
        SELECT b.id FROM (
            SELECT j.id FROM jobs j
            WHERE j.host_id = m.host_id AND j.state = 'queued' AND j.run_after <= now() AND COALESCE(j.task_id, '') <> ''
              AND (SELECT o.id FROM jobs o WHERE o.subject = j.subject AND o.host_id || '' = j.host_id AND o.task_id IS NOT NULL AND o.state = 'running' LIMIT 1) IS NULL
              AND (SELECT o.id FROM jobs o WHERE o.subject = j.subject AND o.host_id || '' = j.host_id AND o.task_id IS NOT NULL AND o.state = 'queued' AND o.id || '' < j.id LIMIT 1) IS NULL
            ORDER BY j.id LIMIT m.most FOR UPDATE OF j SKIP LOCKED) b
        LIMIT m.most) r
)
UPDATE jobs SET state = 'running', epoch = next_epoch() + ready.epoch_lift, attempt = attempt + 1, progress = 0, note = '',
                lease_until = now() + @lease::interval, started_at = COALESCE(started_at, now())
FROM ready WHERE jobs.id = ANY (ARRAY[ready.id])
RETURNING sqlc.embed(jobs), ready.session::bytea AS session, COALESCE(work_of(jobs.subject, jobs.host_id), CASE jobs.kind WHEN 'vm.migrate' THEN work_of(jobs.subject, jobs.args #>> '{migrate,to}') END,
                   work_of_volume(jobs.subject, jobs.host_id))::json AS work,
    COALESCE(network_peers(jobs.subject), '{}')::text[] AS peers,
          work_of_filters(jobs.subject, jobs.host_id)::json AS filters,
          CASE jobs.kind WHEN 'vm.disk.move' THEN pools_of_move(jobs.args) WHEN 'vm.migrate' THEN pools_of_migration(jobs.args) WHEN 'vm.receive' THEN pools_of_migration(jobs.args)
               WHEN 'vm.firmware.receive' THEN pools_of_migration(jobs.args)
               WHEN 'volume.export' THEN pools_of_export(jobs.args)
               WHEN 'found.adopt' THEN (SELECT json_agg(json_build_object('id', p.id, 'name', p.name, 'spec', p.spec, 'generation', p.generation,
                                                                          'createdAt', p.created_at, 'deletedAt', p.deleted_at) ORDER BY p.id)
                                        FROM assignments a JOIN pools p ON p.id = a.pool_id WHERE a.host_id = jobs.host_id AND a.asked = 'assign') END::json AS move_pools,
          CASE WHEN jobs.kind = 'vm.plan' THEN plan_of(jobs.args, jobs.host_id) END::json AS plan,
          source_of_volume(jobs.args)::json AS source,
          COALESCE((SELECT spec_hash(v.name, v.spec) FROM vms v WHERE v.id = substr(jobs.subject, 4) COLLATE "C" AND jobs.subject LIKE 'vm:%' AND jobs.kind <> 'vm.plan'), '')::text AS spec_hash,
          EXISTS (SELECT 1 FROM vms v WHERE v.id = substr(jobs.subject, 4) COLLATE "C" AND jobs.subject LIKE 'vm:%' AND v.adoption IS NOT NULL) AS adopted;

-- name: LockPools :exec
-- Locks the pools while a VM is created on them, so that the pools stay assigned to the host: a release locks the pool
-- first.
SELECT id FROM pools WHERE id = ANY (@ids::text[]) ORDER BY id FOR SHARE;

-- name: PoolsForWork :many
-- The subquery hides the number of IDs from the planner, which would otherwise make a new plan each time.
SELECT * FROM pools WHERE id = ANY ((SELECT @ids::text[])::text[]);

-- name: RenewLeases :many
UPDATE jobs j SET lease_until = now() + @lease::interval
FROM (SELECT unnest(@ids::text[]) AS id, unnest(@epochs::bigint[]) AS epoch) l
WHERE j.id = l.id AND j.epoch = l.epoch AND j.host_id = @host_id AND j.state = 'running'
RETURNING j.id, j.stop;

-- name: NoteProgress :one
UPDATE jobs SET progress = @progress, note = @note, lease_until = now() + @lease::interval
WHERE id = @id AND host_id = @host_id AND epoch = @epoch AND state = 'running'
RETURNING stop;

-- name: LockSubject :one
-- Locks a job's subject. All transactions lock the VM, pool or network before its jobs, to avoid deadlocks.
WITH job AS (SELECT id, subject FROM jobs WHERE jobs.id = @id AND task_id IS NOT NULL),
     vm AS (SELECT v.id FROM job JOIN vms v ON v.id = substr(job.subject, 4) WHERE job.subject LIKE 'vm:%' FOR UPDATE OF v),
     pool AS (SELECT p.id FROM job JOIN pools p ON p.id = (CASE WHEN job.subject LIKE 'pool:%' THEN substr(job.subject, 6)
                  WHEN job.subject LIKE 'volume:%' THEN split_part(substr(job.subject, 8), '/', 1) END) COLLATE "default" FOR UPDATE OF p),
     network AS (SELECT n.id FROM job JOIN networks n ON n.id = substr(job.subject, 5) COLLATE "default" WHERE job.subject LIKE 'net:%' FOR UPDATE OF n)
SELECT (SELECT count(*) FROM vm) + (SELECT count(*) FROM pool) + (SELECT count(*) FROM network);

-- name: LockResults :many
-- Locks all rows that results need, in the common order: host sessions, subjects, jobs. A result without a row has no
-- such job or an ended agent session. session and number identify the agent session whose result is valid; generation
-- is the VM's, or 0 without a VM. What a host did is no request, so the transaction checks no quota.
WITH mine AS MATERIALIZED (
    SELECT a.id, a.session, s.host_id, s.number
    FROM (SELECT unnest(@ids::text[]) AS id, unnest(@hosts::text[]) AS host_id, unnest(@sessions::bytea[]) AS session ORDER BY 2) a
    CROSS JOIN LATERAL (
        SELECT h.host_id, h.number FROM host_sessions h WHERE h.host_id = a.host_id AND h.session = a.session FOR KEY SHARE) s
    WHERE set_config('quantix.quota', 'off', true) = 'off'
), about AS MATERIALIZED (
    SELECT m.id, m.session, m.number, m.host_id, CASE WHEN j.task_id IS NOT NULL THEN j.subject ELSE '' END AS subject
    FROM mine m JOIN jobs j ON j.id = ANY (ARRAY[m.id]) AND j.host_id || '' = m.host_id
), vm AS MATERIALIZED (
    SELECT v.id, v.generation FROM vms v
    WHERE v.id = ANY (ARRAY(SELECT substr(a.subject, 4) FROM about a WHERE a.subject LIKE 'vm:%')) ORDER BY v.id FOR UPDATE OF v
), pool AS MATERIALIZED (
    SELECT p.id FROM pools p
    WHERE p.id = ANY (ARRAY(SELECT CASE WHEN a.subject LIKE 'pool:%' THEN substr(a.subject, 6) ELSE split_part(substr(a.subject, 8), '/', 1) END
                            FROM about a WHERE a.subject LIKE 'pool:%' OR a.subject LIKE 'volume:%')::text[] COLLATE "default") ORDER BY p.id FOR UPDATE OF p
), network AS MATERIALIZED (
    SELECT n.id FROM networks n
    WHERE n.id = ANY (ARRAY(SELECT substr(a.subject, 5) FROM about a WHERE a.subject LIKE 'net:%')::text[] COLLATE "default") ORDER BY n.id FOR UPDATE OF n
)
SELECT sqlc.embed(j), a.session::bytea AS session, a.number::bigint AS number, COALESCE((SELECT v.generation FROM vm v WHERE 'vm:' || v.id = a.subject), 0)::bigint AS generation
FROM about a JOIN jobs j ON j.id = ANY (ARRAY[a.id])
WHERE (SELECT count(*) FROM vm) + (SELECT count(*) FROM pool) + (SELECT count(*) FROM network) >= 0
ORDER BY j.id FOR UPDATE OF j;

-- name: SettleVMs :exec
-- Stores VM states observed after jobs, unless a newer report is stored. If a newer report was skipped as unchanged, a
-- full report is requested, so that no state is lost.
WITH saw AS MATERIALIZED (
    SELECT unnest(@ids::text[]) AS id, unnest(@hosts::text[]) AS host_id, unnest(@generations::bigint[]) AS generation, unnest(@seqs::bigint[]) AS seq,
           unnest(@statuses::text[])::jsonb AS status
), asked AS (
    UPDATE host_sessions s SET digest = '' FROM saw e WHERE s.host_id = ANY (ARRAY[e.host_id]) AND s.report_seq > e.seq
)
UPDATE vms v SET status = e.status, report_seq = e.seq, observed_generation = GREATEST(v.observed_generation, LEAST(e.generation, v.generation))
FROM saw e WHERE v.id = ANY (ARRAY[e.id]) AND v.host_id || '' = e.host_id AND v.report_seq < e.seq;

-- name: SettleAssignments :exec
-- Works like SettleVMs, for assignments. A null status means that the host did not observe one.
WITH saw AS MATERIALIZED (
    SELECT unnest(@nouns::text[]) AS noun, unnest(@ids::text[]) AS id, unnest(@hosts::text[]) AS host_id, unnest(@generations::bigint[]) AS generation,
           unnest(@seqs::bigint[]) AS seq, unnest(@statuses::text[])::jsonb AS status
), asked AS (
    UPDATE host_sessions s SET digest = '' FROM saw e WHERE s.host_id = ANY (ARRAY[e.host_id]) AND s.report_seq > e.seq
)
UPDATE assignments a SET status = COALESCE(NULLIF(e.status, 'null'), a.status), report_seq = e.seq, reported_at = now(),
    observed_generation = GREATEST(a.observed_generation, LEAST(e.generation, (SELECT o.generation FROM objects o WHERE o.noun = a.noun AND o.id = a.object_id)))
FROM saw e WHERE a.noun = ANY (ARRAY[e.noun]) AND a.object_id = ANY (ARRAY[e.id]) AND a.host_id = ANY (ARRAY[e.host_id]) AND a.report_seq < e.seq;

-- name: EndJobs :many
-- Ends jobs that the transaction has locked. A note about unfinished work replaces the last progress note. A received
-- VM has no note, because the task has the note of the job on the source host.
WITH ended AS MATERIALIZED (SELECT unnest(@ids::text[]) AS id, unnest(@states::text[]) AS state, unnest(@errors::text[]) AS error, unnest(@notes::text[]) AS note)
UPDATE jobs SET state = e.state, error = e.error, ended_at = now(), lease_until = NULL,
                progress = CASE WHEN e.state = 'done' THEN 100 ELSE progress END, note = COALESCE(NULLIF(e.note, ''), CASE WHEN e.state = 'done' AND jobs.kind = 'vm.receive' THEN '' ELSE jobs.note END)
FROM ended e WHERE jobs.id = ANY (ARRAY[e.id])
RETURNING jobs.*;

-- name: Overtaken :one
-- Whether a newer job of the same kind, a deletion, or a job for another power state is queued for the job's subject.
SELECT EXISTS (SELECT 1 FROM jobs j JOIN jobs n ON n.subject = j.subject AND n.host_id = j.host_id AND n.state = 'queued' AND n.id <> j.id
    WHERE j.id = @id AND (n.kind = j.kind OR n.kind = 'vm.delete' OR ordered_power(n.kind) IS NOT NULL AND ordered_power(j.kind) IS NOT NULL));

-- name: TryAgain :one
-- Requeues a job with its error, after a pause that doubles with each retry, up to 5 minutes.
UPDATE jobs SET state = 'queued', retries = retries + 1, error = @error, lease_until = NULL, progress = 0, note = '',
                run_after = now() + LEAST(interval '5 minutes', power(2, LEAST(retries, 10)) * sqlc.arg(pause)::interval)
WHERE id = @id
RETURNING *;

-- name: LiftEpochs :exec
SELECT lift_epochs(@host::text, @newest::bigint);

-- name: HastenRetries :exec
-- The hypervisor is reachable again, so queued retries run at once. Locked jobs are skipped.
UPDATE jobs SET run_after = now() WHERE id IN (
    SELECT j.id FROM jobs j WHERE j.host_id = @host_id AND j.state = 'queued' AND j.retries > 0 AND j.run_after > now() FOR UPDATE SKIP LOCKED);

-- name: FailVM :exec
-- For a result without an observed state: the old status stays and gets the error.
UPDATE vms SET status = COALESCE(status, '{"power": "absent", "cpus": 0, "memoryMiB": 0}') || jsonb_build_object('error', @error::text, 'errorOf', @kind::text),
               observed_generation = GREATEST(observed_generation, LEAST(@generation::bigint, generation))
WHERE id = @id AND host_id = @host_id;

-- name: RemoveVM :execrows
DELETE FROM vms WHERE id = @id AND host_id = @host_id AND deleted_at IS NOT NULL;

-- name: UndoDeletion :exec
-- A VM stays in the recycle bin.
UPDATE vms SET deleted_at = NULL WHERE id = @id AND host_id = @host_id AND recycled_at IS NULL;

-- name: ReissueChange :exec
-- A change that a deletion replaced never reached the host. The VM gets a new generation, because the deletion's
-- generation counts as observed.
UPDATE vms SET generation = generation + 1 WHERE id = @id AND host_id = @host_id AND recycled_at IS NULL AND observed_generation < generation - 1;

-- name: MovedOnVM :one
-- The VM, if its generation is newer than @generation and no queued job covers it.
SELECT v.* FROM vms v
WHERE v.id = @id AND v.host_id = @host_id AND v.generation > @generation AND v.deleted_at IS NULL AND (v.elsewhere @> '[{"alarm": true}]') IS NOT TRUE
  AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.host_id = v.host_id AND j.subject = 'vm:' || v.id AND j.state = 'queued' AND j.task_id IS NOT NULL);

-- name: CancelWaiting :exec
UPDATE jobs SET state = 'cancelled', error = @error, ended_at = now()
WHERE subject = @subject AND host_id = @host_id AND state = 'queued' AND kind = ANY (@kinds::text[]);

-- name: BreakOffWaits :exec
-- Cancels running jobs that wait for a guest, because a user now wants the VM off. Their epoch ends. kinds are the
-- kinds of such jobs.
UPDATE jobs SET state = 'cancelled', error = @error, ended_at = now(), lease_until = NULL
WHERE subject = @subject AND host_id = @host_id AND state = 'running' AND kind = ANY (@kinds::text[]);

-- name: ReplaceLapsed :exec
-- Cancels an expired job if its subject has a newer queued job of the same kind, or if the job opens a console.
UPDATE jobs j SET state = 'cancelled', ended_at = now(), lease_until = NULL,
    error = CASE WHEN j.task_id IS NULL THEN 'The agent did not open the console in time.' ELSE 'Replaced by a newer order.' END
WHERE j.id = ANY (ARRAY(SELECT lapsed_jobs(sqlc.narg(host_id)::text)))
  AND j.state = 'running' AND (j.lease_until < now() OR j.host_id = sqlc.narg(host_id))
  AND (j.task_id IS NULL OR (
        SELECT w.id FROM jobs w WHERE w.subject = j.subject AND w.host_id = j.host_id AND w.kind = j.kind AND w.state = 'queued' AND w.task_id IS NOT NULL LIMIT 1) IS NOT NULL);

-- name: WornOut :many
-- Expired jobs with too many attempts, or such jobs of a host whose agent has restarted. Uploads are excluded: they
-- wait for users, possibly for days, and have their own timeout. Disk migrations and received VMs are excluded: only the
-- host knows whether the disk is already in its new pool, or whether the VM already runs there. They wait for the host or
-- for a cancellation.
SELECT j.id FROM jobs j
WHERE j.id = ANY (ARRAY(SELECT lapsed_jobs(sqlc.narg(host_id)::text)))
  AND j.state = 'running' AND j.attempt - j.retries >= 5 AND j.kind NOT IN ('volume.upload', 'vm.disk.move', 'vm.receive') ORDER BY j.id LIMIT 500;

-- name: LockWornOut :one
SELECT * FROM jobs
WHERE id = @id AND state = 'running' AND attempt - retries >= 5 AND (lease_until < now() OR host_id = sqlc.narg(host_id)::text) FOR UPDATE;

-- name: ReturnLapsed :execrows
-- Requeues expired jobs, or all jobs of a host whose agent has restarted.
UPDATE jobs j SET state = 'queued', run_after = now(), lease_until = NULL, progress = 0, note = ''
WHERE j.id = ANY (ARRAY(SELECT lapsed_jobs(sqlc.narg(host_id)::text)))
  AND j.state = 'running' AND (j.lease_until < now() OR j.host_id = sqlc.narg(host_id));
