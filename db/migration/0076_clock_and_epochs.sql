-- +goose Up
-- drifted_vms as before, and a host that was seen in the future is not online: the database's clock was set back, so nobody knows how old
-- its report is. The bound is fleet.ClockStep.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION drifted_vms(fresh interval) RETURNS SETOF text LANGUAGE plpgsql STABLE ROWS 100
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
    RETURN QUERY SELECT v.id FROM vms v JOIN host_sessions s ON s.host_id = v.host_id
    WHERE (v.generation > v.observed_generation OR v.deleted_at IS NOT NULL)
      AND s.looked_at > now() - fresh AND s.looked_at <= now() + interval '5 seconds'
      AND (v.elsewhere @> '[{"alarm": true}]') IS NOT TRUE
      AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.host_id = v.host_id AND j.subject = 'vm:' || v.id
                      AND j.state IN ('queued', 'running') AND j.task_id IS NOT NULL)
    LIMIT 500;
END $$;
-- +goose StatementEnd
