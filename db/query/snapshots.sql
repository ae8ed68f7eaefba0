-- name: SnapshotWork :many
-- What is asked about a VM's snapshots and has not ended, oldest first: with the copies that are made of them.
SELECT o.kind FROM (
    SELECT j.id, j.kind FROM jobs j
    WHERE j.subject = @subject AND j.kind IN ('vm.snapshot', 'vm.revert', 'vm.snapshot.delete', 'vm.consolidate') AND j.state IN ('queued', 'running')
    UNION ALL
    SELECT j.id, j.kind FROM jobs j
    WHERE 'vm:' || (j.args #>> '{volume,snapshot,vmId}') = @subject AND j.kind = 'volume.copy' AND j.args #>> '{volume,snapshot,vmId}' IS NOT NULL AND j.state IN ('queued', 'running')
) o ORDER BY o.id;

-- name: AddSchedule :exec
INSERT INTO snapshot_schedules (id, vm_id, spec, created_by, next_at, look_at) VALUES (@id, @vm_id, @spec, @created_by, sqlc.narg(next_at), sqlc.narg(next_at));

-- name: ChangeSchedule :exec
UPDATE snapshot_schedules SET spec = @spec, next_at = sqlc.narg(next_at), look_at = sqlc.narg(look_at), trouble = '', attention = false WHERE id = @id;

-- name: DeleteSchedule :execrows
DELETE FROM snapshot_schedules WHERE id = @id AND vm_id = @vm_id;

-- name: SchedulesOf :many
SELECT * FROM snapshot_schedules WHERE vm_id = @vm_id ORDER BY created_at, id;

-- name: ScheduleRunsOf :many
-- What the schedules of a VM have asked for and the VM may have, newest first. What became of it in a task that is not kept any more is no trouble now.
SELECT r.*, COALESCE(t.state, 'done')::text AS state, COALESCE(t.error, '')::text AS error, COALESCE(d.state, '')::text AS tidy_state, COALESCE(d.error, '')::text AS tidy_error
FROM snapshot_schedules s JOIN snapshot_runs r ON r.schedule_id = s.id
LEFT JOIN tasks t ON t.id = r.task_id LEFT JOIN tasks d ON d.id = r.tidy_task
WHERE s.vm_id = @vm_id ORDER BY r.due DESC;

-- name: ScheduleToLook :one
-- The next that a pass looks at. Those of VMs that are being deleted wait for that.
SELECT s.id, s.vm_id FROM snapshot_schedules s JOIN vms v ON v.id = s.vm_id
WHERE s.look_at <= now() AND v.deleted_at IS NULL ORDER BY s.look_at LIMIT 1;

-- name: LookedSchedule :exec
UPDATE snapshot_schedules SET next_at = sqlc.narg(next_at), look_at = sqlc.narg(look_at), missed = @missed, trouble = @trouble, attention = @attention WHERE id = @id;

-- name: ScheduleFailed :exec
-- What the pass could not do about one, it tries again later.
UPDATE snapshot_schedules SET look_at = now() + interval '5 minutes', trouble = @trouble WHERE id = @id;

-- name: AddScheduleRun :execrows
INSERT INTO snapshot_runs (schedule_id, due, snapshot_id, task_id) VALUES (@schedule_id, @due, @snapshot_id, @task_id) ON CONFLICT DO NOTHING;

-- name: SettleScheduleRun :exec
UPDATE snapshot_runs SET settled = true WHERE schedule_id = @schedule_id AND due = @due;

-- name: TidyScheduleRun :exec
UPDATE snapshot_runs SET tidy_task = @tidy_task, tidy_at = now() + @wait::interval, tidied = tidied + 1 WHERE schedule_id = @schedule_id AND due = @due;

-- name: ForgetScheduleRuns :exec
DELETE FROM snapshot_runs WHERE schedule_id = @schedule_id AND due = ANY (@dues::timestamptz[]);

-- name: TellScheduleTrouble :exec
-- What a person is needed for among the schedules of a VM, for its row.
UPDATE vms v SET schedule_trouble = n.trouble, attention = CASE WHEN n.trouble = '' THEN NOT v.attention ELSE v.attention END
FROM (SELECT COALESCE((SELECT s.trouble FROM snapshot_schedules s WHERE s.vm_id = @vm_id AND s.attention ORDER BY s.created_at LIMIT 1), '') AS trouble) n
WHERE v.id = @vm_id AND v.schedule_trouble <> n.trouble;
