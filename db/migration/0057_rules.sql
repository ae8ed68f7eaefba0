-- +goose Up
-- Which of a VM's required placement rules its place breaks, by their number in the spec: a pass writes it, so that a page, a filter and an index agree
-- on it. VMs that rules name are other rows, which no trigger of this one sees.
ALTER TABLE vms ADD COLUMN misplaced integer[] NOT NULL DEFAULT '{}';
CREATE INDEX vms_with_rules ON vms (project_id, host_id) WHERE spec ? 'rules' OR misplaced <> '{}'; -- the pass over them, and a project's rules when a VM is placed

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION keep_phase() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.heard := vm_phase(NEW.ordered, NEW.status, NEW.generation, NEW.observed_generation, NEW.deleted_at, true);
    NEW.attention := vm_in_need(NEW.ordered, NEW.spec, NEW.status, NEW.generation, NEW.observed_generation, NEW.deleted_at, NEW.elsewhere)
        OR (NEW.expiry <> '' OR NEW.misplaced <> '{}') AND NEW.deleted_at IS NULL AND NEW.status IS NOT NULL AND NEW.observed_generation > 0;
    RETURN NEW;
END $$;
-- +goose StatementEnd
DROP TRIGGER keep_phase_change ON vms;
CREATE TRIGGER keep_phase_change BEFORE UPDATE ON vms FOR EACH ROW
    WHEN (OLD.status IS DISTINCT FROM NEW.status OR OLD.spec IS DISTINCT FROM NEW.spec OR OLD.ordered <> NEW.ordered
        OR OLD.generation <> NEW.generation OR OLD.observed_generation <> NEW.observed_generation
        OR OLD.deleted_at IS DISTINCT FROM NEW.deleted_at OR OLD.elsewhere IS DISTINCT FROM NEW.elsewhere OR OLD.expiry <> NEW.expiry
        OR OLD.misplaced <> NEW.misplaced OR OLD.heard IS DISTINCT FROM NEW.heard OR OLD.attention IS DISTINCT FROM NEW.attention)
    EXECUTE FUNCTION keep_phase();
