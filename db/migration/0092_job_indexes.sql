-- +goose Up
-- Small indexes for the open jobs that matter to a host's maintenance: transfers to and from the host, and power actions.
CREATE INDEX jobs_of_transfers ON jobs (host_id) WHERE kind IN ('vm.migrate', 'vm.receive', 'volume.send', 'volume.receive') AND state IN ('queued', 'running');
CREATE INDEX jobs_of_host_power ON jobs (host_id) WHERE kind IN ('host.reboot', 'host.shutdown') AND state = 'queued';
