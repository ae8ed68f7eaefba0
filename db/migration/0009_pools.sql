-- +goose Up
-- VMs that QEMU paused, because their storage is full or fails: few, and asked for with every cell of every pool.
CREATE INDEX vms_starved ON vms (host_id)
WHERE status->>'power' = 'paused' AND (status->>'reason' = 'I/O error' OR status @> '{"faults": [{"code": "io"}]}');
