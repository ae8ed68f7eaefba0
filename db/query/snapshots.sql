-- name: SnapshotWork :many
-- What is asked about a VM's snapshots and has not ended, oldest first: with the copies that are made of them.
SELECT o.kind FROM (
    SELECT j.id, j.kind FROM jobs j
    WHERE j.subject = @subject AND j.kind IN ('vm.snapshot', 'vm.revert', 'vm.snapshot.delete', 'vm.consolidate') AND j.state IN ('queued', 'running')
    UNION ALL
    SELECT j.id, j.kind FROM jobs j
    WHERE 'vm:' || (j.args #>> '{volume,snapshot,vmId}') = @subject AND j.kind = 'volume.copy' AND j.args #>> '{volume,snapshot,vmId}' IS NOT NULL AND j.state IN ('queued', 'running')
) o ORDER BY o.id;
