-- name: MovesOf :many
-- The open disk migrations of a VM.
SELECT j.task_id::text AS task_id, j.args, j.state, j.progress, j.note FROM jobs j
WHERE j.subject = @subject AND j.kind = 'vm.disk.move' AND j.state IN ('queued', 'running') ORDER BY j.id;

-- name: StopMoves :execrows
-- Cancels disk migrations and migrations of a VM, and merges of its deleted snapshots. Jobs not yet started end at
-- once; hosts undo started jobs.
UPDATE jobs SET stop = @error, note = CASE WHEN attempt > 0 THEN 'being cancelled' ELSE note END,
    state = CASE WHEN attempt > 0 THEN state ELSE 'cancelled' END, error = CASE WHEN attempt > 0 THEN error ELSE @error END,
    ended_at = CASE WHEN attempt > 0 THEN ended_at ELSE now() END, run_after = CASE WHEN attempt > 0 AND state = 'queued' THEN now() ELSE run_after END
WHERE subject = @subject AND kind IN ('vm.disk.move', 'vm.migrate', 'vm.snapshot.delete', 'vm.consolidate') AND state IN ('queued', 'running') AND stop = '';

-- name: StopTaskWork :execrows
-- Makes hosts undo the started jobs of a task: see fleet.JobKindInfo.Stoppable.
UPDATE jobs SET stop = @error, note = 'being cancelled', run_after = CASE WHEN state = 'queued' THEN now() ELSE run_after END
WHERE task_id = @task_id::text AND kind = ANY (@kinds::text[]) AND attempt > 0 AND state IN ('queued', 'running') AND stop = '';

-- name: DiskMoved :one
-- Updates the spec after a disk migration, once. It changes nothing if the VM is on another host by now, or the disk
-- was removed.
UPDATE vms SET generation = generation + 1, spec = jsonb_set(spec, '{disks}', (
    SELECT jsonb_agg(CASE WHEN d.value @> @disk::jsonb THEN d.value || @moved::jsonb ELSE d.value END ORDER BY d.ordinality)
    FROM jsonb_array_elements(spec->'disks') WITH ORDINALITY d))
WHERE id = @id AND host_id = @host_id AND spec @> jsonb_build_object('disks', jsonb_build_array(@disk::jsonb))
RETURNING name;

-- name: PoolAwaited :many
-- The first few VMs with a disk that is migrating into the pool, on one host, or on any host if @host is empty.
SELECT v.name FROM jobs j JOIN vms v ON v.id = substr(j.subject, 4)
WHERE j.kind = 'vm.disk.move' AND j.state IN ('queued', 'running') AND j.args #>> '{move,to,poolId}' = @pool_id::text AND (@host::text = '' OR j.host_id = @host)
UNION ALL SELECT v.name FROM jobs j JOIN vms v ON v.id = substr(j.subject, 4)
WHERE j.kind = 'vm.migrate' AND j.state IN ('queued', 'running') AND (@host = '' OR j.args #>> '{migrate,to}' = @host)
  AND (j.args #> '{migrate,disks}' @> jsonb_build_array(jsonb_build_object('to', jsonb_build_object('poolId', @pool_id)))
    OR j.args #> '{migrate,stay}' @> jsonb_build_array(jsonb_build_object('poolId', @pool_id)))
LIMIT 4;

-- name: NoteLeftVolume :exec
-- Adds a note to the disk migration's task: the old volume could not be deleted.
UPDATE jobs SET note = 'The old volume ' || @volume::text || ' is still in the pool ' || COALESCE((SELECT p.name FROM pools p WHERE p.id = @pool_id), @pool_id) || ': ' || @why::text || '.'
WHERE jobs.id = @id AND jobs.kind = 'vm.disk.move' AND jobs.state = 'done';
