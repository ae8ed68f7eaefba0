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

-- By how much a host's epochs are above those of the sequence: after this database was restored, the host has seen higher ones. It is the host's
-- alone, so that what one host says costs no other host anything.
ALTER TABLE host_sessions ADD COLUMN epoch_lift bigint NOT NULL DEFAULT 0 CHECK (epoch_lift BETWEEN 0 AND 1::bigint << 62);

-- lift_epochs makes the host's next epochs higher than newest. Each epoch is at least one more than the sequence's last value in its upper bits.
-- +goose StatementBegin
CREATE FUNCTION lift_epochs(host text, newest bigint) RETURNS void LANGUAGE sql AS $$
    UPDATE host_sessions SET epoch_lift = GREATEST(epoch_lift, newest - ((SELECT last_value FROM job_epoch) << 28)) WHERE host_id = host
$$;
-- +goose StatementEnd

-- spec_hash is of what a VM's host makes its definition of. Two hashes of one generation are of two histories: the database was restored between them.
CREATE FUNCTION spec_hash(name text, spec jsonb) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT md5(name || ' ' || (spec - 'power')::text)
$$;
