-- +goose Up
-- Copies that are made of disks as they are in snapshots of a VM, of which nothing changes meanwhile.
CREATE INDEX jobs_reading_snapshots ON jobs (('vm:' || (args #>> '{volume,snapshot,vmId}')))
    WHERE kind = 'volume.copy' AND args #>> '{volume,snapshot,vmId}' IS NOT NULL AND state IN ('queued', 'running');
