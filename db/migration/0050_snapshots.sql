-- +goose Up
-- What is done about snapshots of VMs: one order at a time for each. The snapshots themselves are what hosts report, in vms.status.
CREATE INDEX jobs_of_snapshots ON jobs (subject) WHERE kind IN ('vm.snapshot', 'vm.revert', 'vm.snapshot.delete', 'vm.consolidate') AND state IN ('queued', 'running');
