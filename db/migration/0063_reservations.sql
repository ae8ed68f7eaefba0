-- +goose Up
CREATE INDEX vms_reserving ON vms (host_id) WHERE spec->'cpu' ? 'reserved'; -- what is kept of a host's processors; few VMs reserve any
