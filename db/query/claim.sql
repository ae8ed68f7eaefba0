-- name: CheckForWork :one
-- Whether the session is the host's, and whether there may be work for it.
SELECT EXISTS (SELECT 1 FROM host_sessions s WHERE s.host_id = @host_id AND s.session = @session) AS proven,
       EXISTS (SELECT 1 FROM jobs j WHERE j.host_id = @host_id AND j.state = 'queued' AND j.run_after <= now()) AS waits;

-- name: ClaimJobs :many
-- For each of the hosts that ask: one job a subject, oldest first; a job of no task (a console) never waits behind other work. The claim raises
-- the epoch, above all that its host has seen. session: whose it is; work: what its host is told of the job's subject. Where there is work the
-- session is held first: a hello waits until it can see what is taken here, and an ended session takes nothing. What is before a job of its subject is asked one by one: as a join it
-- was planned, while little ran, to read all that runs.
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
RETURNING sqlc.embed(jobs), ready.session::bytea AS session, COALESCE(work_of(jobs.subject, jobs.host_id), work_of_volume(jobs.subject, jobs.host_id))::json AS work,
    COALESCE(network_peers(jobs.subject), '{}')::text[] AS peers,
          work_of_filters(jobs.subject, jobs.host_id)::json AS filters,
          CASE jobs.kind WHEN 'vm.move' THEN pools_of_move(jobs.args) WHEN 'volume.export' THEN pools_of_export(jobs.args) END::json AS move_pools,
          CASE WHEN jobs.kind = 'vm.plan' THEN plan_of(jobs.args, jobs.host_id) END::json AS plan,
          source_of_volume(jobs.args)::json AS source,
          COALESCE((SELECT spec_hash(v.name, v.spec) FROM vms v WHERE v.id = substr(jobs.subject, 4) COLLATE "C" AND jobs.subject LIKE 'vm:%' AND jobs.kind <> 'vm.plan'), '')::text AS spec_hash;

-- name: LockPools :exec
-- The pools stay assigned while a VM is put on them: who releases one locks it first.
SELECT id FROM pools WHERE id = ANY (@ids::text[]) ORDER BY id FOR SHARE;

-- name: PoolsForWork :many
-- The planner cannot count ids in a select of their own: else it would plan anew each time.
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
-- Locks what a job is about. Whoever changes a VM, a pool or a network locks it before its jobs; so must whoever begins with a job, or
-- the two wait for each other.
WITH job AS (SELECT id, subject FROM jobs WHERE jobs.id = @id AND task_id IS NOT NULL),
     vm AS (SELECT v.id FROM job JOIN vms v ON v.id = substr(job.subject, 4) WHERE job.subject LIKE 'vm:%' FOR UPDATE OF v),
     pool AS (SELECT p.id FROM job JOIN pools p ON p.id = (CASE WHEN job.subject LIKE 'pool:%' THEN substr(job.subject, 6)
                  WHEN job.subject LIKE 'volume:%' THEN split_part(substr(job.subject, 8), '/', 1) END) COLLATE "default" FOR UPDATE OF p),
     network AS (SELECT n.id FROM job JOIN networks n ON n.id = substr(job.subject, 5) COLLATE "default" WHERE job.subject LIKE 'net:%' FOR UPDATE OF n)
SELECT (SELECT count(*) FROM vm) + (SELECT count(*) FROM pool) + (SELECT count(*) FROM network);

-- name: LockResults :many
-- What results need, locked in everybody's order: the hosts' sessions, what the jobs are about, the jobs. Who is not in the answer has no such
-- job, or a session that has ended. session is whose result may count, number is its number; generation is the VM's, 0 where it is gone or the job about none.
WITH mine AS MATERIALIZED (
    SELECT a.id, a.session, s.host_id, s.number
    FROM (SELECT unnest(@ids::text[]) AS id, unnest(@hosts::text[]) AS host_id, unnest(@sessions::bytea[]) AS session ORDER BY 2) a
    CROSS JOIN LATERAL (
        SELECT h.host_id, h.number FROM host_sessions h WHERE h.host_id = a.host_id AND h.session = a.session FOR KEY SHARE) s
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
-- What hosts saw of VMs after their jobs. Only forward: a report that was read after a result stands. A newer one that was taken as unchanged is
-- asked for again, so that the truth is not lost between the two.
WITH saw AS MATERIALIZED (
    SELECT unnest(@ids::text[]) AS id, unnest(@hosts::text[]) AS host_id, unnest(@generations::bigint[]) AS generation, unnest(@seqs::bigint[]) AS seq,
           unnest(@statuses::text[])::jsonb AS status
), asked AS (
    UPDATE host_sessions s SET digest = '' FROM saw e WHERE s.host_id = ANY (ARRAY[e.host_id]) AND s.report_seq > e.seq
)
UPDATE vms v SET status = e.status, report_seq = e.seq, observed_generation = GREATEST(v.observed_generation, LEAST(e.generation, v.generation))
FROM saw e WHERE v.id = ANY (ARRAY[e.id]) AND v.host_id || '' = e.host_id AND v.report_seq < e.seq;

-- name: SettleAssignments :exec
-- SettleVMs for what is assigned to hosts. status null: the host did not look.
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
-- Ends jobs that the transaction has locked. What one left undone is told in place of what it did last.
WITH ended AS MATERIALIZED (SELECT unnest(@ids::text[]) AS id, unnest(@states::text[]) AS state, unnest(@errors::text[]) AS error, unnest(@notes::text[]) AS note)
UPDATE jobs SET state = e.state, error = e.error, ended_at = now(), lease_until = NULL,
                progress = CASE WHEN e.state = 'done' THEN 100 ELSE progress END, note = COALESCE(NULLIF(e.note, ''), jobs.note)
FROM ended e WHERE jobs.id = ANY (ARRAY[e.id])
RETURNING jobs.*;

-- name: Overtaken :one
-- Whether a newer order of the job's kind waits, or one that asks for another power.
SELECT EXISTS (SELECT 1 FROM jobs j JOIN jobs n ON n.subject = j.subject AND n.host_id = j.host_id AND n.state = 'queued' AND n.id <> j.id
    WHERE j.id = @id AND (n.kind = j.kind OR n.kind = 'vm.delete' OR ordered_power(n.kind) IS NOT NULL AND ordered_power(j.kind) IS NOT NULL));

-- name: TryAgain :one
-- Back to the queue with its words: after the pause, twice as long each time, at most 5 minutes.
UPDATE jobs SET state = 'queued', retries = retries + 1, error = @error, lease_until = NULL, progress = 0, note = '',
                run_after = now() + LEAST(interval '5 minutes', power(2, LEAST(retries, 10)) * sqlc.arg(pause)::interval)
WHERE id = @id
RETURNING *;

-- name: LiftEpochs :exec
SELECT lift_epochs(@host::text, @newest::bigint);

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

-- name: ReissueChange :exec
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

-- name: BreakOffWaits :exec
-- A guest that takes its time must not hold up whoever wants it off now: the wait for it ends, its epoch is over. kinds: those that wait for it.
UPDATE jobs SET state = 'cancelled', error = @error, ended_at = now(), lease_until = NULL
WHERE subject = @subject AND host_id = @host_id AND state = 'running' AND kind = ANY (@kinds::text[]);

-- name: ReplaceLapsed :exec
-- A lapsed job whose subject already has a newer waiting job of its kind, or that was a console, is over.
UPDATE jobs j SET state = 'cancelled', ended_at = now(), lease_until = NULL,
    error = CASE WHEN j.task_id IS NULL THEN 'The agent did not open the console in time.' ELSE 'Replaced by a newer order.' END
WHERE j.id = ANY (ARRAY(SELECT lapsed_jobs(sqlc.narg(host_id)::text)))
  AND j.state = 'running' AND (j.lease_until < now() OR j.host_id = sqlc.narg(host_id))
  AND (j.task_id IS NULL OR (
        SELECT w.id FROM jobs w WHERE w.subject = j.subject AND w.host_id = j.host_id AND w.kind = j.kind AND w.state = 'queued' AND w.task_id IS NOT NULL LIMIT 1) IS NOT NULL);

-- name: WornOut :many
-- Lapsed jobs, or those of a host whose agent was started anew, that were taken too often without an answer. An upload waits for people, for
-- days perhaps, and ends by its own patience. A disk that moves may be in its new place already, which its host alone knows, and all that comes
-- behind would bring the VM back to the old one: it waits for its host, or for people who cancel it.
SELECT j.id FROM jobs j
WHERE j.id = ANY (ARRAY(SELECT lapsed_jobs(sqlc.narg(host_id)::text)))
  AND j.state = 'running' AND j.attempt - j.retries >= 5 AND j.kind NOT IN ('volume.upload', 'vm.move') ORDER BY j.id LIMIT 500;

-- name: LockWornOut :one
SELECT * FROM jobs
WHERE id = @id AND state = 'running' AND attempt - retries >= 5 AND (lease_until < now() OR host_id = sqlc.narg(host_id)::text) FOR UPDATE;

-- name: ReturnLapsed :execrows
-- Back to the queue: after the lease, or at once when the host's agent has started anew.
UPDATE jobs j SET state = 'queued', run_after = now(), lease_until = NULL, progress = 0, note = ''
WHERE j.id = ANY (ARRAY(SELECT lapsed_jobs(sqlc.narg(host_id)::text)))
  AND j.state = 'running' AND (j.lease_until < now() OR j.host_id = sqlc.narg(host_id));
