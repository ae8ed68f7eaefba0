-- +goose Up
-- stop is why work ends before its time that a host has begun: who took it back, in words; empty: nobody did.
ALTER TABLE jobs ADD COLUMN stop text NOT NULL DEFAULT '';

-- What is on its way to another place.
CREATE INDEX jobs_of_moves ON jobs (subject) WHERE kind = 'vm.move' AND state IN ('queued', 'running');

-- pools_of_move is the pool that an order moves a disk to, as work_of tells those of the VM's spec. NULL of an order that names none.
-- +goose StatementBegin
CREATE FUNCTION pools_of_move(args jsonb) RETURNS json LANGUAGE sql STABLE AS $$
    SELECT json_agg(json_build_object('id', p.id, 'name', p.name, 'spec', p.spec, 'generation', p.generation, 'createdAt', p.created_at, 'deletedAt', p.deleted_at))
    FROM pools p WHERE p.id = (args #>> '{move,to,poolId}') COLLATE "default";
$$;
-- +goose StatementEnd

-- moves_in are the disks that are on their way into the pool or out of it, with both ends.
-- +goose StatementBegin
CREATE FUNCTION moves_in(pool text) RETURNS TABLE (subject text, volume text, host_id text, state text, takes bigint) LANGUAGE sql STABLE AS $$
    SELECT j.subject, e.at->>'volume', j.host_id, j.state, CASE WHEN e.comes THEN COALESCE((j.args #>> '{move,takesBytes}')::bigint, 0) ELSE 0 END
    FROM jobs j CROSS JOIN LATERAL (VALUES (j.args #> '{move,disk}', false), (j.args #> '{move,to}', true)) AS e (at, comes)
    WHERE j.kind = 'vm.move' AND j.state IN ('queued', 'running') AND e.at->>'poolId' = pool;
$$;
-- +goose StatementEnd
