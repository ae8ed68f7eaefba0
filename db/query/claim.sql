-- name: LookForWork :one
-- Whether the session is the host's, and whether there may be work for it.
SELECT EXISTS (SELECT 1 FROM host_sessions s WHERE s.host_id = @host_id AND s.session = @session) AS proven,
       EXISTS (SELECT 1 FROM jobs j WHERE j.host_id = @host_id AND j.state = 'queued' AND j.run_after <= now()) AS waits;

-- name: ClaimJobs :many
-- One job a subject, oldest first; a job of no task (a console) never waits behind other work. The claim raises the epoch. Where there is work the
-- session is held first: a hello waits until it can see what is taken here, and an ended session takes nothing.
WITH mine AS MATERIALIZED (
    SELECT s.host_id FROM host_sessions s
    WHERE s.host_id = @host_id AND s.session = @session
      AND EXISTS (SELECT 1 FROM jobs w WHERE w.host_id = @host_id AND w.state = 'queued' AND w.run_after <= now())
    FOR KEY SHARE
), ready AS (
    SELECT j.id FROM mine JOIN jobs j ON j.host_id = mine.host_id
    WHERE j.state = 'queued' AND j.run_after <= now()
      AND (j.task_id IS NULL OR NOT EXISTS (
            SELECT 1 FROM jobs o
            WHERE o.host_id = j.host_id AND o.subject = j.subject AND o.task_id IS NOT NULL
              AND (o.state = 'running' OR o.state = 'queued' AND o.id < j.id)))
    ORDER BY j.task_id IS NOT NULL, j.id
    LIMIT @max_jobs FOR UPDATE OF j SKIP LOCKED
)
UPDATE jobs SET state = 'running', epoch = next_epoch(), attempt = attempt + 1, progress = 0, note = '',
                lease_until = now() + @lease::interval, started_at = COALESCE(started_at, now())
FROM ready WHERE jobs.id = ready.id
RETURNING jobs.*;

-- name: HoldPools :exec
-- The pools stay assigned while a VM is put on them: who releases one locks it first.
SELECT id FROM pools WHERE id = ANY (@ids::text[]) ORDER BY id FOR SHARE;

-- name: VMsForWork :many
-- made: the disks that were once seen whole, as {pool id, volume}.
SELECT sqlc.embed(v), p.name AS project_name,
       (SELECT COALESCE(jsonb_agg(jsonb_build_object('poolId', m.pool_id, 'volume', m.volume) ORDER BY m.pool_id, m.volume), '[]')
        FROM made_disks m WHERE m.vm_id = v.id)::jsonb AS made,
       ARRAY(SELECT n.id || ' ' || n.kind || ' ' || n.name FROM networks n
             WHERE n.id = ANY (ARRAY(SELECT jsonb_path_query(v.spec, '$.nics[*].networkId') #>> '{}')))::text[] AS networks,
       (SELECT m.mark FROM vm_marks m WHERE m.vm_id = v.id)::text AS mark
FROM vms v JOIN projects p ON p.id = v.project_id
WHERE v.id = ANY (@ids::text[]) AND v.host_id = @host_id;

-- name: PoolsForWork :many
SELECT * FROM pools WHERE id = ANY (@ids::text[]);

-- name: RenewLeases :many
UPDATE jobs j SET lease_until = now() + @lease::interval
FROM (SELECT unnest(@ids::text[]) AS id, unnest(@epochs::bigint[]) AS epoch) l
WHERE j.id = l.id AND j.epoch = l.epoch AND j.host_id = @host_id AND j.state = 'running'
RETURNING j.id;

-- name: NoteProgress :execrows
UPDATE jobs SET progress = @progress, note = @note, lease_until = now() + @lease::interval
WHERE id = @id AND host_id = @host_id AND epoch = @epoch AND state = 'running';

-- name: HoldSubject :one
-- Locks what a job is about. Whoever changes a VM or a pool locks it before its jobs; so must whoever begins with a job, or
-- the two wait for each other.
WITH job AS (SELECT id, subject FROM jobs WHERE jobs.id = @id AND task_id IS NOT NULL),
     vm AS (SELECT v.id FROM job JOIN vms v ON v.id = substr(job.subject, 4) WHERE job.subject LIKE 'vm:%' FOR UPDATE OF v),
     pool AS (SELECT p.id FROM job JOIN pools p ON p.id = substr(job.subject, 6) WHERE job.subject LIKE 'pool:%' FOR UPDATE OF p)
SELECT (SELECT count(*) FROM vm) + (SELECT count(*) FROM pool);

-- name: HoldResult :one
-- What a result needs, locked in everybody's order: the host's session, what the job is about, the job. No row: the session has ended, or the
-- host has no such job. number is the session's; generation is the VM's, 0 where it is gone or the job about none.
WITH mine AS MATERIALIZED (
    SELECT s.host_id, s.number FROM host_sessions s WHERE s.host_id = @host_id AND s.session = @session FOR KEY SHARE
), about AS MATERIALIZED (
    SELECT j.subject FROM mine m JOIN jobs j ON j.host_id = m.host_id WHERE j.id = @id AND j.task_id IS NOT NULL
), vm AS MATERIALIZED (
    SELECT v.generation FROM about a JOIN vms v ON v.id = substr(a.subject, 4) WHERE a.subject LIKE 'vm:%' FOR UPDATE OF v
), pool AS MATERIALIZED (
    SELECT p.id FROM about a JOIN pools p ON p.id = substr(a.subject, 6) WHERE a.subject LIKE 'pool:%' FOR UPDATE OF p
)
SELECT sqlc.embed(j), (SELECT m.number FROM mine m)::bigint AS number, COALESCE((SELECT v.generation FROM vm v), 0)::bigint AS generation
FROM jobs j
WHERE j.id = @id AND j.host_id = (SELECT m.host_id FROM mine m) AND (SELECT count(*) FROM vm) + (SELECT count(*) FROM pool) >= 0
FOR UPDATE OF j;

-- name: EndJob :one
-- With what the host saw after it of a VM, or of what is assigned to it; an empty noun: nothing. Only forward: a report that was read after
-- this result stands. A newer one that was taken as unchanged is asked for again, so that the truth is not lost between the two.
WITH vm AS (
    UPDATE vms v SET status = sqlc.narg(status)::jsonb, report_seq = @seq,
                     observed_generation = GREATEST(v.observed_generation, LEAST(@generation::bigint, v.generation))
    WHERE @noun::text = 'vm' AND v.id = @object_id::text AND v.host_id = @host_id::text AND v.report_seq < @seq
), assignment AS ( -- status NULL: the host did not look
    UPDATE assignments a SET status = COALESCE(sqlc.narg(status), a.status), report_seq = @seq, reported_at = now(),
        observed_generation = GREATEST(a.observed_generation, LEAST(@generation::bigint, (SELECT o.generation FROM objects o WHERE o.noun = a.noun AND o.id = a.object_id)))
    WHERE @noun <> 'vm' AND a.noun = @noun AND a.object_id = @object_id AND a.host_id = @host_id AND a.report_seq < @seq
), asked AS (
    UPDATE host_sessions s SET digest = '' WHERE @noun <> '' AND s.host_id = @host_id AND s.report_seq > @seq
)
UPDATE jobs SET state = @state, error = @error, ended_at = now(), lease_until = NULL,
                progress = CASE WHEN @state = 'done' THEN 100 ELSE progress END
WHERE jobs.id = @id
RETURNING jobs.*;

-- name: Overtaken :one
-- Whether a newer order of the job's kind waits, or one that asks for another power.
SELECT EXISTS (SELECT 1 FROM jobs j JOIN jobs n ON n.subject = j.subject AND n.host_id = j.host_id AND n.state = 'queued' AND n.id <> j.id
    WHERE j.id = @id AND (n.kind = j.kind OR n.kind = 'vm.delete' OR ordered_power(n.kind) IS NOT NULL AND ordered_power(j.kind) IS NOT NULL));

-- name: TryAgain :one
-- Back to the queue with its words: after 5 s, twice as long each time, at most 5 minutes.
UPDATE jobs SET state = 'queued', retries = retries + 1, error = @error, lease_until = NULL, progress = 0, note = '',
                run_after = now() + LEAST(interval '5 minutes', interval '5 seconds' * power(2, LEAST(retries, 10)))
WHERE id = @id
RETURNING *;

-- name: HastenRetries :exec
-- The hypervisor is there again: what waited for it is tried at once. Nobody waits here for whoever holds one of the jobs.
UPDATE jobs SET run_after = now() WHERE id IN (
    SELECT j.id FROM jobs j WHERE j.host_id = @host_id AND j.state = 'queued' AND j.retries > 0 AND j.run_after > now() FOR UPDATE SKIP LOCKED);

-- name: FailVM :exec
-- A result without a fresh look: the old status stands, with the words of the failure.
UPDATE vms SET status = COALESCE(status, '{"power": "absent", "cpus": 0, "memoryMiB": 0}') || jsonb_build_object('error', @error::text, 'errorOf', @kind::text),
               observed_generation = GREATEST(observed_generation, LEAST(@generation::bigint, generation))
WHERE id = @id AND host_id = @host_id;

-- name: RemoveVM :execrows
DELETE FROM vms WHERE id = @id AND host_id = @host_id AND deleted_at IS NOT NULL;

-- name: UndoDeletion :exec
UPDATE vms SET deleted_at = NULL WHERE id = @id AND host_id = @host_id;

-- name: AskAgain :exec
-- A change that gave way to a deletion has never reached the host. It is asked for anew, at a generation of its own: the
-- deletion's counts as acted on.
UPDATE vms SET generation = generation + 1 WHERE id = @id AND host_id = @host_id AND observed_generation < generation - 1;

-- name: MovedOnVM :one
-- The VM, when its generation has moved on and nothing waits to carry that to the host.
SELECT v.* FROM vms v
WHERE v.id = @id AND v.host_id = @host_id AND v.generation > @generation AND v.deleted_at IS NULL AND (v.elsewhere @> '[{"alarm": true}]') IS NOT TRUE
  AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.host_id = v.host_id AND j.subject = 'vm:' || v.id AND j.state = 'queued' AND j.task_id IS NOT NULL);

-- name: CancelWaiting :exec
UPDATE jobs SET state = 'cancelled', error = @error, ended_at = now()
WHERE subject = @subject AND host_id = @host_id AND state = 'queued' AND kind = ANY (@kinds::text[]);

-- name: BreakOffShutdown :exec
-- A guest that takes its time must not hold up whoever wants it off now: the wait for it ends, its epoch is over.
UPDATE jobs SET state = 'cancelled', error = @error, ended_at = now(), lease_until = NULL
WHERE subject = @subject AND host_id = @host_id AND state = 'running' AND kind = 'vm.shutdown';

-- name: ReplaceLapsed :exec
-- A lapsed job whose subject already has a newer waiting job of its kind, or that was a console, is over.
UPDATE jobs j SET state = 'cancelled', ended_at = now(), lease_until = NULL,
    error = CASE WHEN j.task_id IS NULL THEN 'The agent did not open the console in time.' ELSE 'Replaced by a newer order.' END
WHERE j.state = 'running' AND (j.lease_until < now() OR j.host_id = sqlc.narg(host_id)::text)
  AND (j.task_id IS NULL OR EXISTS (
        SELECT 1 FROM jobs w WHERE w.subject = j.subject AND w.host_id = j.host_id AND w.kind = j.kind AND w.state = 'queued'));

-- name: WornOut :many
-- Lapsed jobs, or those of a host whose agent was started anew, that were taken too often without an answer.
SELECT id FROM jobs
WHERE state = 'running' AND attempt - retries >= 5 AND (lease_until < now() OR host_id = sqlc.narg(host_id)::text) ORDER BY id LIMIT 500;

-- name: LockWornOut :one
SELECT * FROM jobs
WHERE id = @id AND state = 'running' AND attempt - retries >= 5 AND (lease_until < now() OR host_id = sqlc.narg(host_id)::text) FOR UPDATE;

-- name: ReturnLapsed :execrows
-- Back to the queue: after the lease, or at once when the host's agent has started anew.
UPDATE jobs SET state = 'queued', run_after = now(), lease_until = NULL, progress = 0, note = ''
WHERE state = 'running' AND (lease_until < now() OR host_id = sqlc.narg(host_id)::text);
