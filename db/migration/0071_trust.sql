-- +goose Up
-- What was seen further in the future than a clock may step is of nobody knows when: see fleet.Fresh.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION drifted_vms(fresh interval) RETURNS SETOF text LANGUAGE plpgsql STABLE ROWS 100
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
    RETURN QUERY SELECT v.id FROM vms v JOIN host_sessions s ON s.host_id = v.host_id
    WHERE (v.generation > v.observed_generation OR v.deleted_at IS NOT NULL)
      AND s.looked_at BETWEEN now() - fresh AND now() + interval '5 seconds'
      AND (v.elsewhere @> '[{"alarm": true}]') IS NOT TRUE
      AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.host_id = v.host_id AND j.subject = 'vm:' || v.id
                      AND j.state IN ('queued', 'running') AND j.task_id IS NOT NULL)
    LIMIT 500;
END $$;
-- +goose StatementEnd

-- The key of the authority is sealed with a key that is not in this database, as other secrets are; by_key says with which. One that an
-- older release left in clear is sealed by the first portal that reads it.
ALTER TABLE authority ALTER COLUMN key_pem DROP NOT NULL, ADD COLUMN by_key text, ADD COLUMN sealed bytea,
    ADD CONSTRAINT authority_has_one_key CHECK ((key_pem IS NULL) = (sealed IS NOT NULL) AND (sealed IS NULL) = (by_key IS NULL));
