-- +goose Up
-- Disks are made once: those that a host has said to be there and whole, at any time. PostgreSQL keeps it by itself from what
-- hosts report; a job tells the host, which then makes none of them anew in silence.
CREATE TABLE made_disks (
    vm_id   text COLLATE "C" NOT NULL REFERENCES vms ON DELETE CASCADE,
    pool_id text NOT NULL,
    volume  text NOT NULL,
    PRIMARY KEY (vm_id, pool_id, volume)
);

-- +goose StatementBegin
CREATE FUNCTION keep_made() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- Only disks of the spec: a host's word adds nothing that people did not ask for.
    INSERT INTO made_disks (vm_id, pool_id, volume)
    SELECT NEW.id, d->>'poolId', d->>'volume' FROM jsonb_path_query(NEW.spec, '$.disks[*]') AS d
    WHERE EXISTS (SELECT 1 FROM jsonb_path_query(NEW.status, '$.disks[*].volume') AS m
                  WHERE m->>'poolId' = d->>'poolId' AND m->>'volume' = d->>'volume')
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- Of VMs that are there already nobody has said which disks are whole. Their hosts have made them all.
INSERT INTO made_disks (vm_id, pool_id, volume)
SELECT v.id, d->>'poolId', d->>'volume' FROM vms v, jsonb_path_query(v.spec, '$.disks[*]') AS d
WHERE v.status IS NOT NULL AND v.status->>'power' <> 'absent' AND d->>'volume' <> '' ON CONFLICT DO NOTHING;

CREATE TRIGGER keep_made AFTER INSERT ON vms FOR EACH ROW WHEN (NEW.status IS NOT NULL) EXECUTE FUNCTION keep_made();
-- Reports come all the time; most tell of the same disks.
CREATE TRIGGER keep_made_change AFTER UPDATE OF spec, status ON vms FOR EACH ROW
    WHEN (OLD.status->'disks' IS DISTINCT FROM NEW.status->'disks' OR OLD.spec->'disks' IS DISTINCT FROM NEW.spec->'disks')
    EXECUTE FUNCTION keep_made();

-- Convergent work that failed only because the hypervisor was not reached waits in the queue for another try.
ALTER TABLE jobs ADD COLUMN retries integer NOT NULL DEFAULT 0; -- how many of its attempts ended so
CREATE INDEX jobs_tried_again ON jobs (host_id) WHERE state = 'queued' AND retries > 0;

-- What is derived of a VM also asks which power a person ordered: the order is one thing until it has ended or failed, whatever
-- the host reports by the way. The columns that are kept of it are made anew, all at once: each rewrites the table.
ALTER TABLE vms DROP COLUMN heard, DROP COLUMN attention; -- and the indexes that have them
DROP FUNCTION vm_phase(jsonb, jsonb, bigint, bigint, timestamptz, boolean);

-- vm_phase is fleet.VM.Phase in SQL, for filters; a test holds the two together. fresh: its host has looked within 30 s.
-- +goose StatementBegin
CREATE FUNCTION vm_phase(ordered text, status jsonb, generation bigint, observed bigint, deleted_at timestamptz, fresh boolean)
RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN deleted_at IS NOT NULL THEN 'deleting'
        WHEN status IS NULL OR observed = 0 THEN 'creating'
        WHEN fresh IS NOT TRUE THEN 'unknown'
        WHEN status->>'power' = 'absent' THEN
            CASE WHEN generation > observed OR ordered <> '' THEN 'creating'
                 WHEN COALESCE(status->>'error', '') <> '' THEN 'failed' ELSE 'missing' END
        WHEN ordered <> '' THEN CASE ordered WHEN 'running' THEN 'starting' WHEN 'paused' THEN 'pausing' ELSE 'stopping' END
        WHEN generation > observed THEN 'updating'
        WHEN status->>'power' = 'running' THEN
            CASE WHEN jsonb_array_length(COALESCE(NULLIF(status->'nextBoot', 'null'), '[]')) > 0 THEN 'needsRestart' ELSE 'running' END
        WHEN status->>'power' = 'paused' THEN 'paused'
        WHEN status->>'power' = 'crashed' THEN 'crashed'
        ELSE 'stopped'
    END
$$;
-- +goose StatementEnd

-- ordered_power is fleet.JobKind.Power in SQL: NULL for kinds that order none. A test holds the two together.
-- +goose StatementBegin
CREATE FUNCTION ordered_power(kind text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE kind WHEN 'vm.start' THEN 'running' WHEN 'vm.resume' THEN 'running' WHEN 'vm.pause' THEN 'paused'
                     WHEN 'vm.stop' THEN 'stopped' WHEN 'vm.shutdown' THEN 'stopped' END
$$;
-- +goose StatementEnd

-- vm_in_need is fleet.VM.NeedsAttention, if the host is heard; a test holds the two together.
-- +goose StatementBegin
CREATE FUNCTION vm_in_need(ordered text, spec jsonb, status jsonb, generation bigint, observed bigint, deleted_at timestamptz)
RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT deleted_at IS NULL AND status IS NOT NULL AND observed > 0 AND (
        jsonb_array_length(COALESCE(NULLIF(status->'faults', 'null'), '[]')) > 0
        OR ordered = '' AND generation <= observed
            AND (COALESCE(status->>'power', '') IN ('absent', 'crashed') OR COALESCE(status->>'error', '') <> '' AND NOT (
                ordered_power(status->>'errorOf') IS NOT NULL AND COALESCE(spec->>'power' = status->>'power', false))))
$$;
-- +goose StatementEnd

ALTER TABLE vms
    ADD COLUMN ordered text NOT NULL DEFAULT '' -- the power of the newest order that has not ended; '': none. Kept by keep_ordered
        CONSTRAINT vm_ordered_known CHECK (ordered IN ('', 'running', 'paused', 'stopped')),
    ADD COLUMN heard text COLLATE "C" NOT NULL  -- the phase if the host is heard; never shown: the page's word also asks how fresh the host is
        GENERATED ALWAYS AS (vm_phase(ordered, status, generation, observed_generation, deleted_at, true)) STORED,
    ADD COLUMN attention boolean NOT NULL
        GENERATED ALWAYS AS (vm_in_need(ordered, spec, status, generation, observed_generation, deleted_at)) STORED;
CREATE INDEX vms_by_heard ON vms (heard, name, id);         -- phase filters, also for phases that few VMs are in
CREATE INDEX vms_in_need ON vms (name, id) WHERE attention;
CREATE INDEX vms_counted ON vms (host_id, project_id, heard) INCLUDE (cpus, memory_mib, attention);    -- what a host's VMs add up to, from the index alone

-- +goose StatementBegin
CREATE FUNCTION keep_ordered() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE asked text;
BEGIN
    SELECT ordered_power(j.kind) INTO asked FROM jobs j
    WHERE j.subject = COALESCE(NEW.subject, OLD.subject) AND j.state IN ('queued', 'running') AND ordered_power(j.kind) IS NOT NULL
    ORDER BY j.id DESC LIMIT 1;
    UPDATE vms v SET ordered = COALESCE(asked, '')
    WHERE v.id = substr(COALESCE(NEW.subject, OLD.subject), 4) AND v.ordered <> COALESCE(asked, '');
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- Whoever begins or ends an order has locked its VM.
CREATE TRIGGER keep_ordered AFTER INSERT ON jobs FOR EACH ROW
    WHEN (ordered_power(NEW.kind) IS NOT NULL AND NEW.state IN ('queued', 'running')) EXECUTE FUNCTION keep_ordered();
CREATE TRIGGER keep_ordered_change AFTER UPDATE OF state ON jobs FOR EACH ROW
    WHEN (ordered_power(NEW.kind) IS NOT NULL AND (OLD.state IN ('queued', 'running')) <> (NEW.state IN ('queued', 'running')))
    EXECUTE FUNCTION keep_ordered();
CREATE TRIGGER keep_ordered_end AFTER DELETE ON jobs FOR EACH ROW
    WHEN (ordered_power(OLD.kind) IS NOT NULL AND OLD.state IN ('queued', 'running')) EXECUTE FUNCTION keep_ordered();

UPDATE vms v SET ordered = o.power FROM (
    SELECT DISTINCT ON (j.subject) j.subject, ordered_power(j.kind) AS power FROM jobs j
    WHERE j.state IN ('queued', 'running') AND ordered_power(j.kind) IS NOT NULL ORDER BY j.subject, j.id DESC) o
WHERE o.subject = 'vm:' || v.id;

-- How old what a host says about VMs, pools and networks is: since it last looked at its hypervisor with success, not since it
-- was last heard. The look that is counted is one whose outcome is stored.
ALTER TABLE host_sessions ADD COLUMN last_look timestamptz;
UPDATE host_sessions SET last_look = looked_at;
ALTER TABLE host_sessions DROP COLUMN looked_at;
ALTER TABLE host_sessions ADD COLUMN looked_at timestamptz GENERATED ALWAYS AS (LEAST(seen_at, blind_since, last_look)) STORED;
