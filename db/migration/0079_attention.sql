-- +goose Up
-- drifted: the VM's definition on its host differs from the spec, as the host reported last. A drifted VM needs attention. The filter drift:yes and the
-- dashboard's count read this column, not the status.
ALTER TABLE vms ADD COLUMN drifted boolean NOT NULL DEFAULT false;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION keep_phase() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE acted boolean := NEW.deleted_at IS NULL AND NEW.status IS NOT NULL AND NEW.observed_generation > 0;
BEGIN
    NEW.heard := vm_phase(NEW.ordered, NEW.status, NEW.generation, NEW.observed_generation, NEW.deleted_at, true);
    NEW.drifted := acted AND COALESCE(NEW.status->'drift' NOT IN ('null', '[]'), false);
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
        OR OLD.misplaced <> NEW.misplaced OR OLD.drifted <> NEW.drifted OR OLD.heard IS DISTINCT FROM NEW.heard OR OLD.attention IS DISTINCT FROM NEW.attention)
    EXECUTE FUNCTION keep_phase();

UPDATE vms SET drifted = true WHERE status->'drift' NOT IN ('null', '[]');
CREATE INDEX vms_by_drift ON vms (name, id) WHERE drifted;
CREATE INDEX vms_in_trouble ON vms (name, id) WHERE attention AND NOT drifted; -- the dashboard's causes but drift

-- error is why a pool or network does not work on a host, in the host's words, so that the dashboard groups by it without reading the reports.
-- file_system identifies the file system that a pool lies on: one that a server exports by its source, a local one by its host and device.
ALTER TABLE assignments
    ADD COLUMN error       text NOT NULL GENERATED ALWAYS AS (left(COALESCE(status->>'error', ''), 1000)) STORED,
    ADD COLUMN file_system text COLLATE "C" GENERATED ALWAYS AS (
        CASE WHEN status->'fileSystem'->>'shared' = 'true' THEN status->'fileSystem'->>'id'
             WHEN status ? 'fileSystem' THEN host_id || ' ' || (status->'fileSystem'->>'id') END) STORED;
