-- +goose Up
-- What is derived of a VM stands in plain columns that a trigger keeps: another phase is another function and one UPDATE of the
-- VMs that it changes, not a new table with new indexes. Dropping the expression keeps the values and rewrites nothing.
ALTER TABLE vms ALTER COLUMN heard DROP EXPRESSION, ALTER COLUMN attention DROP EXPRESSION;

-- A VM is its UUID; where it is, hosts say. But UUIDs are no secret: a host that reports a domain of another host's VM is believed
-- by the VM's mark alone, which goes with the domain's metadata wherever that goes. It stands apart, so that no read of a VM has it.
-- +goose StatementBegin
CREATE FUNCTION new_mark() RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT left(encode(sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8')), 'hex'), 32)
$$;
-- +goose StatementEnd

-- vm_proof is wire.Proof in SQL: what a host shows of a mark. A test holds the two together.
-- +goose StatementBegin
CREATE FUNCTION vm_proof(id text, mark text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT encode(sha256(convert_to(id || ' ' || mark, 'UTF8')), 'hex')
$$;
-- +goose StatementEnd

CREATE TABLE vm_marks (
    vm_id text COLLATE "C" PRIMARY KEY REFERENCES vms ON DELETE CASCADE,
    mark  text NOT NULL DEFAULT new_mark() -- 128 bit, in hexadecimal digits
);
INSERT INTO vm_marks (vm_id) SELECT id FROM vms;

-- +goose StatementBegin
CREATE FUNCTION mark_vm() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO vm_marks (vm_id) VALUES (NEW.id);
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER mark_vm AFTER INSERT ON vms FOR EACH ROW EXECUTE FUNCTION mark_vm();

-- Domains of a VM on other hosts than its own. Their reports write it, but for settled, which people write, and alarm.
CREATE TABLE vm_sightings (
    vm_id      text COLLATE "C" NOT NULL REFERENCES vms ON DELETE CASCADE,
    host_id    text NOT NULL REFERENCES hosts ON DELETE CASCADE,
    power      text NOT NULL,
    generation bigint NOT NULL,
    proven     boolean NOT NULL,                    -- it carries the VM's mark
    began      timestamptz NOT NULL DEFAULT now(),  -- when the host was first heard to have it on
    since      timestamptz NOT NULL DEFAULT now(),  -- when it was first heard to be in this power
    alarm      boolean NOT NULL DEFAULT false,      -- two hosts run it
    settled    boolean NOT NULL DEFAULT false,      -- a person has said that the VM is elsewhere
    PRIMARY KEY (vm_id, host_id)
);
CREATE INDEX vm_sightings_by_host ON vm_sightings (host_id);

ALTER TABLE vms ADD COLUMN elsewhere jsonb; -- the VM's sightings as fleet.Sighting; NULL: none. Kept by keep_elsewhere

-- +goose StatementBegin
CREATE FUNCTION keep_elsewhere() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    vm text := COALESCE(NEW.vm_id, OLD.vm_id);
    seen jsonb;
BEGIN
    SELECT jsonb_agg(jsonb_build_object('hostId', s.host_id, 'hostName', h.name, 'power', s.power, 'proven', s.proven,
        'since', s.since, 'alarm', s.alarm, 'settled', s.settled) ORDER BY s.began, s.host_id)
    INTO seen FROM vm_sightings s JOIN hosts h ON h.id = s.host_id WHERE s.vm_id = vm;
    UPDATE vms v SET elsewhere = seen WHERE v.id = vm AND v.elsewhere IS DISTINCT FROM seen;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER keep_elsewhere AFTER INSERT OR UPDATE OR DELETE ON vm_sightings FOR EACH ROW EXECUTE FUNCTION keep_elsewhere();

-- vm_in_need is fleet.VM.NeedsAttention, if the host is heard; a test holds the two together.
DROP FUNCTION vm_in_need(text, jsonb, jsonb, bigint, bigint, timestamptz);
-- +goose StatementBegin
CREATE FUNCTION vm_in_need(ordered text, spec jsonb, status jsonb, generation bigint, observed bigint, deleted_at timestamptz, elsewhere jsonb)
RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT deleted_at IS NULL AND status IS NOT NULL AND observed > 0 AND (
        jsonb_array_length(COALESCE(NULLIF(status->'faults', 'null'), '[]')) > 0
        OR COALESCE(elsewhere @> '[{"alarm": true}]', false)
        OR ordered = '' AND generation <= observed
            AND (COALESCE(status->>'power', '') IN ('absent', 'crashed') OR COALESCE(status->>'error', '') <> '' AND NOT (
                ordered_power(status->>'errorOf') IS NOT NULL AND COALESCE(spec->>'power' = status->>'power', false))))
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION keep_phase() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.heard := vm_phase(NEW.ordered, NEW.status, NEW.generation, NEW.observed_generation, NEW.deleted_at, true);
    NEW.attention := vm_in_need(NEW.ordered, NEW.spec, NEW.status, NEW.generation, NEW.observed_generation, NEW.deleted_at, NEW.elsewhere);
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER keep_phase BEFORE INSERT ON vms FOR EACH ROW EXECUTE FUNCTION keep_phase();
-- Where nothing that they come from changes, nothing is computed; and nobody writes them by hand: to compute them anew, for
-- another phase, is UPDATE vms SET heard = vm_phase(…) WHERE heard <> vm_phase(…).
CREATE TRIGGER keep_phase_change BEFORE UPDATE ON vms FOR EACH ROW
    WHEN (OLD.status IS DISTINCT FROM NEW.status OR OLD.spec IS DISTINCT FROM NEW.spec OR OLD.ordered <> NEW.ordered
        OR OLD.generation <> NEW.generation OR OLD.observed_generation <> NEW.observed_generation
        OR OLD.deleted_at IS DISTINCT FROM NEW.deleted_at OR OLD.elsewhere IS DISTINCT FROM NEW.elsewhere
        OR OLD.heard IS DISTINCT FROM NEW.heard OR OLD.attention IS DISTINCT FROM NEW.attention)
    EXECUTE FUNCTION keep_phase();
