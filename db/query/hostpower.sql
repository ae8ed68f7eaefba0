-- name: GetBMC :one
SELECT sqlc.embed(b), h.name, COALESCE(h.status->'inventory'->>'hostUuid', '')::text AS host_uuid, now()::timestamptz AS now FROM host_bmcs b JOIN hosts h ON h.id = b.host_id WHERE b.host_id = @host_id;

-- name: LockBMC :one
SELECT * FROM host_bmcs WHERE host_id = @host_id FOR UPDATE;

-- name: PutBMC :exec
-- Stores the BMC of a host, and lets it be read at once. What was read from the previous one is forgotten.
INSERT INTO host_bmcs (host_id, spec, by_key, sealed, asked_at) VALUES (@host_id, @spec, @by_key, @sealed, now())
ON CONFLICT (host_id) DO UPDATE SET spec = EXCLUDED.spec, by_key = EXCLUDED.by_key, sealed = EXCLUDED.sealed, generation = host_bmcs.generation + 1,
    reading = NULL, read_at = NULL, error = '', checked_at = NULL, asked_at = now(), failures = 0, due_at = now(), leased_until = NULL;

-- name: DeleteBMC :exec
DELETE FROM host_bmcs WHERE host_id = @host_id;

-- name: MarkBMC :exec
UPDATE hosts SET has_bmc = @has_bmc WHERE id = @id AND has_bmc <> @has_bmc;

-- name: AskBMC :exec
UPDATE host_bmcs SET asked_at = now(), due_at = now() WHERE host_id = @host_id;

-- name: WakeBMCs :exec
-- Wakes the portals that read BMCs and execute power orders.
SELECT pg_notify('quantix', 'bmcs');

-- name: LeaseBMCs :many
-- Leases BMCs whose next read is due. A BMC that executes a power order is not read beside it.
UPDATE host_bmcs b SET leased_until = now() + @lease::interval
WHERE b.host_id = ANY (ARRAY(
    SELECT d.host_id FROM host_bmcs d
    WHERE d.due_at <= now() AND (d.leased_until IS NULL OR d.leased_until < now())
      AND NOT EXISTS (SELECT 1 FROM host_power_orders o WHERE o.host_id = d.host_id AND o.step IN ('sending', 'watching'))
    ORDER BY d.due_at LIMIT @most FOR UPDATE SKIP LOCKED))
RETURNING b.host_id, b.spec, b.by_key, b.sealed, b.generation, b.asked_at, b.failures;

-- name: PinBMC :execrows
-- Pins the certificate of a BMC, unless a user has changed the BMC meanwhile.
UPDATE host_bmcs SET spec = spec || jsonb_build_object('fingerprint', @fingerprint::text)
WHERE host_id = @host_id AND generation = @generation AND COALESCE(spec->>'fingerprint', '') = '';

-- name: RecordReading :one
-- Records the end of a read. changed: pages show something else than before, apart from ages.
UPDATE host_bmcs b SET reading = COALESCE(sqlc.narg(reading)::jsonb, b.reading), read_at = CASE WHEN @failed::boolean THEN b.read_at ELSE now() END,
    error = @error, checked_at = now(), leased_until = NULL, failures = CASE WHEN @failed::boolean THEN b.failures + 1 ELSE 0 END,
    due_at = CASE WHEN COALESCE(b.asked_at > sqlc.narg(asked_at)::timestamptz, false) THEN now() ELSE now() + @wait::interval END
FROM host_bmcs o
WHERE o.host_id = b.host_id AND b.host_id = @host_id AND b.generation = @generation
RETURNING (o.error <> b.error OR o.reading IS DISTINCT FROM b.reading OR o.checked_at IS NULL OR COALESCE(o.asked_at >= o.checked_at, false))::boolean AS changed;

-- name: AddPortalTask :exec
-- Adds a task whose work a portal does: see host_power_orders. With a parent it is one of the parent's steps.
INSERT INTO tasks (id, parent_id, listed, host_id, kind, subject, subject_name, created_by, user_id, address, pending, by_portal, note)
VALUES (@id, sqlc.narg(parent_id), @listed, @host_id, @kind, @subject, @subject_name, @created_by, @user_id, @address, true, true, @note);

-- name: AddPowerOrder :exec
INSERT INTO host_power_orders (task_id, host_id, command, fences) VALUES (@task_id, @host_id, @command, @fences);

-- name: OpenPowerOrder :one
-- The command of the host's power order that has not ended; empty: there is none.
SELECT COALESCE((SELECT command FROM host_power_orders WHERE host_id = @host_id AND step <> 'ended'), '')::text AS command;

-- name: DuePowerOrders :many
SELECT o.task_id, o.host_id, o.command, o.fences, o.step, o.in_doubt, o.epoch, COALESCE(o.deadline_at < now(), false)::boolean AS late, b.spec, b.by_key, b.sealed, b.generation
FROM host_power_orders o JOIN host_bmcs b ON b.host_id = o.host_id
WHERE o.step <> 'ended' AND o.due_at <= now() AND (o.leased_until IS NULL OR o.leased_until < now())
ORDER BY o.due_at LIMIT @most FOR UPDATE OF o SKIP LOCKED;

-- name: LeasePowerOrder :exec
UPDATE host_power_orders SET step = @step, in_doubt = @in_doubt, epoch = epoch + 1, leased_until = now() + @lease::interval,
    deadline_at = COALESCE(deadline_at, now() + @within::interval)
WHERE task_id = @task_id;

-- name: StepPowerOrder :execrows
-- Records the end of a step, unless another portal has begun a later one.
UPDATE host_power_orders SET step = @step, in_doubt = @in_doubt, leased_until = NULL, due_at = now() + @wait::interval
WHERE task_id = @task_id AND epoch = @epoch AND step <> 'ended';

-- name: BeginPortalTask :execrows
-- Begins the work of a task; 0 rows: the task was cancelled.
UPDATE tasks SET pending = false, state = 'running', attempt = 1, started_at = now(), note = @note WHERE id = @id AND pending AND state = 'queued';

-- name: NotePortalTask :exec
UPDATE tasks SET note = @note WHERE id = @id AND state IN ('queued', 'running') AND note <> @note;

-- name: EndPortalTask :execrows
UPDATE tasks SET state = @state, pending = false, note = @note, error = @error, ended_at = now(), started_at = COALESCE(started_at, now()),
    progress = CASE WHEN @state::text = 'done' THEN 100 ELSE progress END
WHERE id = @id AND state IN ('queued', 'running');

-- name: TakeStep :exec
-- Makes a task the step of another one.
UPDATE tasks SET parent_id = @parent_id::text, listed = false WHERE id = @id;

-- name: AddTermination :exec
INSERT INTO tasks (id, host_id, kind, subject, subject_name, created_by, user_id, address) VALUES (@id::text, @host_id, 'host.terminate', 'task:' || @id::text, @name, @created_by, @user_id, @address);

-- name: OpenTerminations :many
SELECT id FROM tasks WHERE kind = 'host.terminate' AND state IN ('queued', 'running') ORDER BY id;

-- name: OpenTerminationOf :one
-- The open termination of a host; empty: there is none.
SELECT COALESCE((SELECT id FROM tasks WHERE kind = 'host.terminate' AND state IN ('queued', 'running') AND host_id = @host_id ORDER BY id LIMIT 1), '')::text AS id;

-- name: LockTermination :one
-- An open termination that no other portal advances.
SELECT id, host_id, subject_name, user_id, created_by, address FROM tasks WHERE id = @id AND state IN ('queued', 'running') FOR UPDATE SKIP LOCKED;

-- name: StepsOf :many
-- ordered: the step is a power order, which is pending until a portal begins to carry it out.
SELECT t.id, t.kind, t.state, t.pending, t.ended_at, now()::timestamptz AS now, EXISTS (SELECT 1 FROM host_power_orders o WHERE o.task_id = t.id) AS ordered
FROM tasks t WHERE t.parent_id = @parent_id ORDER BY t.id;

-- name: LocalVolumes :many
-- The pools of a host with the number of their volumes there, apart from the disks of the host's VMs.
SELECT p.id, p.name, p.spec, (SELECT count(*) FROM jsonb_path_query(a.status, '$.volumes[*]') v WHERE NOT EXISTS (
    SELECT 1 FROM vms m WHERE m.host_id = a.host_id AND m.spec->'disks' @> jsonb_build_array(jsonb_build_object('poolId', p.id, 'volume', v->'name'))))::bigint AS volumes
FROM assignments a JOIN pools p ON p.id = a.pool_id
WHERE a.host_id = @host_id AND a.asked = 'assign' AND p.deleted_at IS NULL
ORDER BY p.name;
