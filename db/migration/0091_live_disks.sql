-- +goose Up
-- Live migrations copy local disks over their own connection. The target volumes are reserved until the migration ends,
-- and both hosts get the pools of the target volumes with their jobs.

-- moves_in are the disks that move into the pool or out of it, with both ends: disk migrations and live migrations.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION moves_in(pool text) RETURNS TABLE (subject text, volume text, host_id text, state text, takes bigint) LANGUAGE sql STABLE AS $$
    SELECT j.subject, e.at->>'volume', j.host_id, j.state, CASE WHEN e.comes THEN COALESCE((j.args #>> '{move,takesBytes}')::bigint, 0) ELSE 0 END
    FROM jobs j CROSS JOIN LATERAL (VALUES (j.args #> '{move,disk}', false), (j.args #> '{move,to}', true)) AS e (at, comes)
    WHERE j.kind = 'vm.disk.move' AND j.state IN ('queued', 'running') AND e.at->>'poolId' = pool
    UNION ALL
    SELECT j.subject, e.at->>'volume', CASE WHEN e.comes THEN j.args #>> '{migrate,to}' ELSE j.host_id END, j.state,
           CASE WHEN e.comes THEN COALESCE((d->>'takesBytes')::bigint, 0) ELSE 0 END
    FROM jobs j CROSS JOIN LATERAL jsonb_path_query(j.args, '$.migrate ? (exists (@.live)).disks[*]') d
    CROSS JOIN LATERAL (VALUES (d->'disk', false), (d->'to', true)) AS e (at, comes)
    WHERE j.kind = 'vm.migrate' AND j.state IN ('queued', 'running') AND e.at->>'poolId' = pool;
$$;
-- +goose StatementEnd

-- pools_of_migration are the pools of the volumes that a migration creates. NULL if it creates none.
-- +goose StatementBegin
CREATE FUNCTION pools_of_migration(args jsonb) RETURNS json LANGUAGE sql STABLE AS $$
    SELECT json_agg(json_build_object('id', p.id, 'name', p.name, 'spec', p.spec, 'generation', p.generation, 'createdAt', p.created_at, 'deletedAt', p.deleted_at))
    FROM pools p WHERE p.id = ANY (ARRAY(SELECT jsonb_path_query(args, '$.migrate.disks[*].to.poolId') #>> '{}'));
$$;
-- +goose StatementEnd

-- The rate of the newest transfers between two hosts, in bytes per second, for estimates.
CREATE TABLE transfer_rates (
    from_host        text NOT NULL REFERENCES hosts ON DELETE CASCADE,
    to_host          text NOT NULL REFERENCES hosts ON DELETE CASCADE,
    bytes_per_second bigint NOT NULL CONSTRAINT transfer_rate_positive CHECK (bytes_per_second > 0),
    measured_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (from_host, to_host)
);
CREATE INDEX transfer_rates_by_target ON transfer_rates (to_host);
