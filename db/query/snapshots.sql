-- name: SnapshotWork :many
-- The kinds of open jobs on a VM's snapshots, oldest first, including copies from snapshots.
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
-- The runs of a VM's schedules, newest first. The result of a run whose task was deleted counts as done.
SELECT r.*, COALESCE(t.state, 'done')::text AS state, COALESCE(t.error, '')::text AS error, COALESCE(d.state, '')::text AS tidy_state, COALESCE(d.error, '')::text AS tidy_error
FROM snapshot_schedules s JOIN snapshot_runs r ON r.schedule_id = s.id
LEFT JOIN tasks t ON t.id = r.task_id LEFT JOIN tasks d ON d.id = r.tidy_task
WHERE s.vm_id = @vm_id ORDER BY r.due DESC;

-- name: ScheduleToCheck :one
-- The next schedule that the portal must check. VMs being deleted are skipped.
SELECT s.id, s.vm_id FROM snapshot_schedules s JOIN vms v ON v.id = s.vm_id
WHERE s.look_at <= now() AND v.deleted_at IS NULL ORDER BY s.look_at LIMIT 1;

-- name: ScheduleChecked :exec
UPDATE snapshot_schedules SET next_at = sqlc.narg(next_at), look_at = sqlc.narg(look_at), missed = @missed, trouble = @trouble, attention = @attention WHERE id = @id;

-- name: ScheduleFailed :exec
-- The portal retries the schedule after five minutes.
UPDATE snapshot_schedules SET look_at = now() + interval '5 minutes', trouble = @trouble WHERE id = @id;

-- name: AddScheduleRun :execrows
INSERT INTO snapshot_runs (schedule_id, due, snapshot_id, task_id) VALUES (@schedule_id, @due, @snapshot_id, @task_id) ON CONFLICT DO NOTHING;

-- name: SettleScheduleRun :exec
UPDATE snapshot_runs SET settled = true WHERE schedule_id = @schedule_id AND due = @due;

-- name: TidyScheduleRun :exec
UPDATE snapshot_runs SET tidy_task = @tidy_task, tidy_at = now() + @wait::interval, tidied = tidied + 1 WHERE schedule_id = @schedule_id AND due = @due;

-- name: ForgetScheduleRuns :exec
DELETE FROM snapshot_runs WHERE schedule_id = @schedule_id AND due = ANY (@dues::timestamptz[]);

-- name: SetScheduleTrouble :exec
-- Copies the first schedule problem that needs attention to the VM's row.
UPDATE vms v SET schedule_trouble = n.trouble, attention = CASE WHEN n.trouble = '' THEN NOT v.attention ELSE v.attention END
FROM (SELECT COALESCE((SELECT s.trouble FROM snapshot_schedules s WHERE s.vm_id = @vm_id AND s.attention ORDER BY s.created_at LIMIT 1), '') AS trouble) n
WHERE v.id = @vm_id AND v.schedule_trouble <> n.trouble;

-- name: AddTemporarySnapshot :exec
-- Records a snapshot that is taken only for copies. All VMs of one bulk task are copied from the same snapshot.
INSERT INTO temporary_snapshots (snapshot_id, vm_id, job_id, order_id)
SELECT @snapshot_id, @vm_id, @job_id, COALESCE(t.parent_id, t.id) FROM tasks t WHERE t.id = @task_id;

-- name: TemporarySnapshotOf :one
-- The snapshot of the VM that the bulk task has already requested and that is not being deleted, with its job. The job
-- is locked until the transaction ends: a copy that waits for an ended job would wait forever.
SELECT s.snapshot_id, j.id AS job_id, j.state FROM temporary_snapshots s JOIN tasks t ON t.id = @task_id AND s.order_id = COALESCE(t.parent_id, t.id)
JOIN jobs j ON j.id = s.job_id
WHERE s.vm_id = @vm_id AND s.deletions = 0 AND j.state IN ('queued', 'running', 'done') FOR SHARE OF j;

-- name: TemporarySnapshotToCheck :one
-- The next temporary snapshot that the portal must check. VMs being deleted are skipped.
SELECT s.snapshot_id, s.vm_id FROM temporary_snapshots s JOIN vms v ON v.id = s.vm_id
WHERE s.look_at <= now() AND v.deleted_at IS NULL ORDER BY s.look_at LIMIT 1;

-- name: TemporarySnapshot :one
-- awaited: VMs not yet created will be copied from the snapshot. settled: the VM's reported state is newer than the job
-- that takes the snapshot.
SELECT s.deletions, EXISTS (SELECT 1 FROM tasks t WHERE t.parent_id = s.order_id AND t.pending) AS awaited,
       COALESCE(j.state IN ('done', 'failed', 'cancelled') OR j.ended_at < now() - interval '5 minutes', true)::boolean AS settled
FROM temporary_snapshots s LEFT JOIN jobs j ON j.id = s.job_id WHERE s.snapshot_id = @snapshot_id;

-- name: TemporarySnapshotChecked :exec
UPDATE temporary_snapshots SET look_at = now() + @wait::interval, deletions = @deletions WHERE snapshot_id = @snapshot_id;

-- name: ForgetTemporarySnapshot :exec
DELETE FROM temporary_snapshots WHERE snapshot_id = @snapshot_id;
