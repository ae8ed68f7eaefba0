-- name: SnapshotWork :many
-- What is asked about a VM's snapshots and has not ended, oldest first.
SELECT j.kind FROM jobs j
WHERE j.subject = @subject AND j.kind IN ('vm.snapshot', 'vm.revert', 'vm.snapshot.delete', 'vm.consolidate') AND j.state IN ('queued', 'running') ORDER BY j.id;
