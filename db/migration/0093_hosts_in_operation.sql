-- +goose Up
-- The discovered VMs of each host: their number, and the memory and vCPUs of those that run. A VM that has been adopted
-- does not count, although its host may not have reported since. A migrating VM does not count either: both hosts may
-- report its domain.
CREATE VIEW discovered_usage AS
SELECT f.host_id, count(*) AS vms, sum(f.running_mib)::bigint AS mib, sum(f.running_cpus)::bigint AS cpus FROM found_vms f
WHERE NOT EXISTS (SELECT 1 FROM vms v WHERE v.id = f.id AND v.host_id = f.host_id)
  AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.subject = 'vm:' || f.id AND j.kind = 'vm.migrate' AND j.state IN ('queued', 'running')) GROUP BY f.host_id;

-- The maintenance of a host without the decisions about its VMs, for queries that read many VMs.
ALTER TABLE hosts ADD COLUMN maintained text NOT NULL
    GENERATED ALWAYS AS (CASE WHEN maintenance IS NULL THEN '' WHEN maintenance ? 'enteredAt' THEN 'entered' ELSE 'entering' END) STORED;

-- When the host accepted Quantix's command to power off, until its agent opens the next session.
ALTER TABLE host_sessions ADD COLUMN powered_off_at timestamptz;

-- fleet.MaintenanceState in SQL. Reports that end more than five minutes after the command ended for another reason.
-- +goose StatementBegin
CREATE FUNCTION maintenance_state(maintained text, seen timestamptz, within interval, powered_off timestamptz) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN maintained = '' THEN '' WHEN maintained = 'entering' THEN 'draining'
        WHEN COALESCE(is_fresh(seen, within), false) THEN 'maintenance'
        WHEN seen < powered_off + interval '5 minutes' THEN 'poweredOff' ELSE 'offline' END
$$;
-- +goose StatementEnd
