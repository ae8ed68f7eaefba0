-- +goose Up
-- ignored_drift: drift that a user ignores, as the host reported it then. It counts neither as drift nor as a need for attention until
-- the host's value of the field changes. A user's change of a VM's field ends the ignoring of its drift.
ALTER TABLE vms ADD COLUMN ignored_drift jsonb NOT NULL DEFAULT '[]';
ALTER TABLE assignments ADD COLUMN ignored_drift jsonb NOT NULL DEFAULT '[]';

-- open_drift: whether a report has drift that nobody ignores. A security group's drift is a text, which cannot be ignored and does not
-- count here.
-- +goose StatementBegin
CREATE FUNCTION open_drift(drift jsonb, ignored jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE jsonb_typeof(drift) WHEN 'array' THEN EXISTS (
        SELECT 1 FROM jsonb_array_elements(drift) AS d (field)
        WHERE NOT ignored @> jsonb_build_array(jsonb_build_object('field', d.field->'field', 'actual', d.field->'actual'))
    ) ELSE false END;
$$;

-- without_ignored: the ignored drift without that of these fields.
CREATE FUNCTION without_ignored(ignored jsonb, fields text[]) RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT COALESCE(jsonb_agg(i.drift ORDER BY i.n), '[]') FROM jsonb_array_elements(ignored) WITH ORDINALITY AS i (drift, n)
    WHERE i.drift->>'field' <> ALL (fields);
$$;

CREATE OR REPLACE FUNCTION keep_phase() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE acted boolean := NEW.deleted_at IS NULL AND NEW.status IS NOT NULL AND NEW.observed_generation > 0;
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.ignored_drift <> '[]' AND (OLD.name <> NEW.name OR OLD.spec IS DISTINCT FROM NEW.spec) THEN
        NEW.ignored_drift := without_ignored(NEW.ignored_drift, ARRAY(
            SELECT i->>'field' FROM jsonb_array_elements(NEW.ignored_drift) AS i
            WHERE i->>'field' = 'name' AND OLD.name <> NEW.name
               OR OLD.spec #> string_to_array(i->>'field', '.') IS DISTINCT FROM NEW.spec #> string_to_array(i->>'field', '.')));
    END IF;
    NEW.heard := vm_phase(NEW.ordered, NEW.status, NEW.generation, NEW.observed_generation, NEW.deleted_at, true);
    NEW.drifted := acted AND COALESCE(NEW.status->'drift' NOT IN ('null', '[]'), false) AND open_drift(NEW.status->'drift', NEW.ignored_drift);
    NEW.attention := vm_in_need(NEW.ordered, NEW.spec, NEW.status, NEW.generation, NEW.observed_generation, NEW.deleted_at, NEW.elsewhere)
        OR acted AND (NEW.expiry <> '' OR NEW.misplaced <> '{}' OR NEW.drifted);
    RETURN NEW;
END $$;
-- +goose StatementEnd
DROP TRIGGER keep_phase_change ON vms;
CREATE TRIGGER keep_phase_change BEFORE UPDATE ON vms FOR EACH ROW
    WHEN (OLD.status IS DISTINCT FROM NEW.status OR OLD.spec IS DISTINCT FROM NEW.spec OR OLD.ordered <> NEW.ordered
        OR OLD.generation <> NEW.generation OR OLD.observed_generation <> NEW.observed_generation
        OR OLD.deleted_at IS DISTINCT FROM NEW.deleted_at OR OLD.elsewhere IS DISTINCT FROM NEW.elsewhere OR OLD.expiry <> NEW.expiry
        OR OLD.misplaced <> NEW.misplaced OR OLD.drifted <> NEW.drifted OR OLD.heard IS DISTINCT FROM NEW.heard OR OLD.attention IS DISTINCT FROM NEW.attention
        OR OLD.name <> NEW.name OR OLD.ignored_drift <> NEW.ignored_drift)
    EXECUTE FUNCTION keep_phase();

-- changed: the object's definition on the host differs from what Quantix applied. drifted: it does so in a field that nobody ignores.
ALTER TABLE assignments
    ADD COLUMN changed boolean NOT NULL GENERATED ALWAYS AS (COALESCE(jsonb_typeof(status->'drift') = 'array', false)) STORED,
    ADD COLUMN drifted boolean NOT NULL GENERATED ALWAYS AS (open_drift(status->'drift', ignored_drift)) STORED;
CREATE INDEX assignments_changed ON assignments (noun, object_id, host_id) INCLUDE (drifted) WHERE changed;
