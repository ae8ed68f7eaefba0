-- +goose Up
-- What a guest said last that changes by itself: a row a VM, written anew with each look, announced to nobody. After a crash guests say it again.
CREATE UNLOGGED TABLE vm_guests (
    vm_id   text COLLATE "C" PRIMARY KEY REFERENCES vms ON DELETE CASCADE,
    host_id text NOT NULL,
    at      timestamptz NOT NULL,
    reading jsonb NOT NULL
) WITH (fillfactor = 50, toast_tuple_target = 8160);

-- What a job bears to a guest alone, sealed with a key that is not in this database; it ends with the job.
CREATE TABLE guest_secrets (
    job_id text COLLATE "C" PRIMARY KEY REFERENCES jobs ON DELETE CASCADE,
    by_key text NOT NULL,
    sealed bytea NOT NULL
);
-- +goose StatementBegin
CREATE FUNCTION forget_guest_secret() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM guest_secrets WHERE job_id = NEW.id;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER forget_guest_secret AFTER UPDATE OF state ON jobs FOR EACH ROW
    WHEN (NEW.kind = 'vm.password' AND NEW.state NOT IN ('queued', 'running')) EXECUTE FUNCTION forget_guest_secret();

-- What guards a VM, of which no host knows. expiry is how far it is: a pass brings it forward, so that a page, a filter and an index agree on it.
ALTER TABLE vms
    ADD COLUMN protected    boolean NOT NULL DEFAULT false, -- it is not deleted
    ADD COLUMN lock         jsonb,                          -- fleet.VMLock: nobody but who set it, and administrators, changes it
    ADD COLUMN expires_at   timestamptz,
    ADD COLUMN expiry_stops boolean NOT NULL DEFAULT false, -- it is then shut down; else only told
    ADD COLUMN expiry       text NOT NULL DEFAULT '' CONSTRAINT expiry_known CHECK (expiry IN ('', 'soon', 'over'));
CREATE INDEX vms_expiring ON vms (expires_at) WHERE expires_at IS NOT NULL AND expiry <> 'over'; -- the pass over them

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION keep_phase() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.heard := vm_phase(NEW.ordered, NEW.status, NEW.generation, NEW.observed_generation, NEW.deleted_at, true);
    NEW.attention := vm_in_need(NEW.ordered, NEW.spec, NEW.status, NEW.generation, NEW.observed_generation, NEW.deleted_at, NEW.elsewhere)
        OR NEW.expiry <> '' AND NEW.deleted_at IS NULL AND NEW.status IS NOT NULL AND NEW.observed_generation > 0;
    RETURN NEW;
END $$;
-- +goose StatementEnd
DROP TRIGGER keep_phase_change ON vms;
CREATE TRIGGER keep_phase_change BEFORE UPDATE ON vms FOR EACH ROW
    WHEN (OLD.status IS DISTINCT FROM NEW.status OR OLD.spec IS DISTINCT FROM NEW.spec OR OLD.ordered <> NEW.ordered
        OR OLD.generation <> NEW.generation OR OLD.observed_generation <> NEW.observed_generation
        OR OLD.deleted_at IS DISTINCT FROM NEW.deleted_at OR OLD.elsewhere IS DISTINCT FROM NEW.elsewhere OR OLD.expiry <> NEW.expiry
        OR OLD.heard IS DISTINCT FROM NEW.heard OR OLD.attention IS DISTINCT FROM NEW.attention)
    EXECUTE FUNCTION keep_phase();
