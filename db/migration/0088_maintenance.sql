-- +goose Up
-- The requested maintenance of a host (fleet.HostMaintenance), until a user ends it.
ALTER TABLE hosts ADD COLUMN maintenance jsonb;

-- begin_after: until when a pending child of a task waits, because the limit of its host's parallel migrations is reached. The end of
-- another child of the task ends the wait.
ALTER TABLE tasks ADD COLUMN begin_after timestamptz;
CREATE INDEX tasks_waiting ON tasks (parent_id) WHERE begin_after IS NOT NULL AND pending;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION keep_parent() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE settled text := COALESCE(current_setting('quantix.settled', true), '');
BEGIN
    IF position(OLD.parent_id IN settled) = 0 THEN
        PERFORM set_config('quantix.settled', settled || ' ' || OLD.parent_id, true), settle_parent(OLD.parent_id);
    END IF;
    IF TG_OP = 'UPDATE' AND NEW.state NOT IN ('queued', 'running') THEN
        UPDATE tasks SET begin_after = NULL WHERE parent_id = OLD.parent_id AND pending AND begin_after IS NOT NULL;
        IF FOUND THEN
            PERFORM pg_notify('quantix', 'orders');
        END IF;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- VMs on a host with a NoExecute taint that they do not tolerate: the last attempt to migrate them away. reason is why it was not
-- possible; empty: a migration was queued. next_at is the time of the next attempt.
CREATE TABLE vm_evictions (
    vm_id   text COLLATE "C" PRIMARY KEY REFERENCES vms ON DELETE CASCADE,
    host_id text NOT NULL REFERENCES hosts ON DELETE CASCADE,
    reason  text NOT NULL,
    tries   integer NOT NULL,
    next_at timestamptz NOT NULL
);
CREATE INDEX vm_evictions_by_host ON vm_evictions (host_id);
