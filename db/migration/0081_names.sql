-- +goose Up
-- Job kinds and JSON fields get the names of their field: migrate, disk move, reapply. Audit lines are never changed, so old ones keep
-- their actions.
UPDATE jobs SET kind = n.now FROM (VALUES ('vm.move', 'vm.disk.move'), ('vm.leave', 'vm.migrate'), ('vm.putback', 'vm.reapply')) AS n (was, now) WHERE kind = n.was;
UPDATE tasks SET kind = n.now FROM (VALUES ('vm.move', 'vm.disk.move'), ('vm.leave', 'vm.migrate'), ('vm.putback', 'vm.reapply')) AS n (was, now) WHERE kind = n.was;
UPDATE jobs SET args = args - 'leave' || jsonb_build_object('migrate', args->'leave') WHERE args ? 'leave';
UPDATE vms SET spec = jsonb_set(spec #- '{memory,floorMiB}', '{memory,minMiB}', spec #> '{memory,floorMiB}') WHERE spec->'memory' ? 'floorMiB';
UPDATE template_versions SET spec = jsonb_set(spec #- '{memory,floorMiB}', '{memory,minMiB}', spec #> '{memory,floorMiB}') WHERE spec->'memory' ? 'floorMiB';
UPDATE vms SET status = status - 'heldBack' || jsonb_build_object('pendingUnplug', status->'heldBack') WHERE status ? 'heldBack';

DROP INDEX jobs_of_moves;
CREATE INDEX jobs_of_disk_moves ON jobs (subject) WHERE kind = 'vm.disk.move' AND state IN ('queued', 'running');
DROP INDEX jobs_of_leaving;
CREATE INDEX jobs_of_migrations ON jobs (subject) WHERE kind = 'vm.migrate' AND state IN ('queued', 'running');

-- moves_in are the disks that move into the pool or out of it, with both ends.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION moves_in(pool text) RETURNS TABLE (subject text, volume text, host_id text, state text, takes bigint) LANGUAGE sql STABLE AS $$
    SELECT j.subject, e.at->>'volume', j.host_id, j.state, CASE WHEN e.comes THEN COALESCE((j.args #>> '{move,takesBytes}')::bigint, 0) ELSE 0 END
    FROM jobs j CROSS JOIN LATERAL (VALUES (j.args #> '{move,disk}', false), (j.args #> '{move,to}', true)) AS e (at, comes)
    WHERE j.kind = 'vm.disk.move' AND j.state IN ('queued', 'running') AND e.at->>'poolId' = pool;
$$;
-- +goose StatementEnd

ALTER TABLE assignments DROP COLUMN promised_bytes;
UPDATE assignments SET status = status - 'promisedBytes' || jsonb_build_object('provisionedBytes', status->'promisedBytes') WHERE status ? 'promisedBytes';
UPDATE assignments SET status = status - 'cards' || jsonb_build_object('nics', status->'cards') WHERE status ? 'cards';
ALTER TABLE host_filter_counts RENAME COLUMN cards TO nics;
ALTER TABLE assignments ADD COLUMN provisioned_bytes bigint NOT NULL GENERATED ALWAYS AS (COALESCE((status->>'provisionedBytes')::bigint, 0)) STORED;
