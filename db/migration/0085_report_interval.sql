-- +goose Up
-- A host's labels are those of its spec and those of its agent's settings, which win. Its report interval in seconds is that of the agent's
-- settings, else that of the spec, else fleet.DefaultReportInterval; agents without settings are too old to take another one.
ALTER TABLE hosts
    ADD COLUMN labels jsonb NOT NULL GENERATED ALWAYS AS (COALESCE(spec->'labels', '{}') || COALESCE(status->'settings'->'labels', '{}')) STORED,
    ADD COLUMN report_interval integer NOT NULL GENERATED ALWAYS AS (CASE WHEN status ? 'settings'
        THEN COALESCE((status->'settings'->>'reportInterval')::integer, (spec->>'reportInterval')::integer, 10) ELSE 10 END) STORED;

DROP INDEX hosts_by_label;
CREATE INDEX hosts_by_label ON hosts USING gin (labels);
DROP TRIGGER announce_labels ON hosts;
DROP TRIGGER announce_labels_change ON hosts;
CREATE TRIGGER announce_labels AFTER INSERT ON hosts FOR EACH ROW WHEN (NEW.labels <> '{}') EXECUTE FUNCTION announce_labels();
CREATE TRIGGER announce_labels_change AFTER UPDATE OF spec, status ON hosts FOR EACH ROW WHEN (OLD.labels <> NEW.labels) EXECUTE FUNCTION announce_labels();

-- fresh_for: for how long the host's reports are valid, three of the intervals that its agent was last answered. Only reports change it, so
-- that a shorter interval counts only once the agent knows it.
ALTER TABLE host_sessions ADD COLUMN fresh_for interval NOT NULL DEFAULT '30 seconds';

-- drifted_vms as before, with the freshness limit of each host.
DROP FUNCTION drifted_vms(interval);
-- +goose StatementBegin
CREATE FUNCTION drifted_vms() RETURNS SETOF text LANGUAGE plpgsql STABLE ROWS 100
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
    RETURN QUERY SELECT v.id FROM vms v JOIN host_sessions s ON s.host_id = v.host_id
    WHERE (v.generation > v.observed_generation OR v.deleted_at IS NOT NULL)
      AND s.looked_at > now() - s.fresh_for AND s.looked_at <= now() + interval '5 seconds'
      AND (v.elsewhere @> '[{"alarm": true}]') IS NOT TRUE
      AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.host_id = v.host_id AND j.subject = 'vm:' || v.id
                      AND j.state IN ('queued', 'running') AND j.task_id IS NOT NULL)
    LIMIT 500;
END $$;
-- +goose StatementEnd

-- The memory and vCPUs of a running discovered VM, which count in its host's capacity; 0 while it does not run.
ALTER TABLE found_vms
    ADD COLUMN running_mib bigint NOT NULL GENERATED ALWAYS AS (CASE WHEN status->>'power' IN ('running', 'paused') THEN COALESCE((status->>'memoryMiB')::bigint, 0) ELSE 0 END) STORED,
    ADD COLUMN running_cpus bigint NOT NULL GENERATED ALWAYS AS (CASE WHEN status->>'power' IN ('running', 'paused') THEN COALESCE((status->>'cpus')::bigint, 0) ELSE 0 END) STORED;
