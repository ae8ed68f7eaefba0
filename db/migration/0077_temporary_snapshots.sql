-- +goose Up
-- Snapshots of VMs from which disks of clones and templates are copied while the VM runs. Each is deleted when nothing is copied from it any more, and
-- its row goes when its host has it no more.
CREATE TABLE temporary_snapshots (
    snapshot_id text COLLATE "C" PRIMARY KEY,
    vm_id       text COLLATE "C" NOT NULL REFERENCES vms ON DELETE CASCADE,
    job_id      text COLLATE "C" NOT NULL,               -- that takes it
    order_id    text COLLATE "C" NOT NULL,               -- the task that asked for the copies; of many VMs, the parent task
    look_at     timestamptz NOT NULL DEFAULT now(),      -- when a pass looks at it next
    deletions   integer NOT NULL DEFAULT 0               -- how often its deletion was asked for
);
CREATE INDEX temporary_snapshots_to_look ON temporary_snapshots (look_at);
CREATE INDEX temporary_snapshots_of_vm ON temporary_snapshots (vm_id);

-- end_waits, as it was, but that copies which wait for a snapshot end with it where it is not taken.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION end_waits() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- In order, so that of two that end at once the second sees that the first has.
    PERFORM 1 FROM jobs j WHERE j.id IN (SELECT w.job_id FROM job_waits w WHERE w.for_id = OLD.id) ORDER BY j.id FOR NO KEY UPDATE;
    IF TG_OP = 'UPDATE' AND OLD.kind IN ('volume.hash', 'vm.snapshot') AND NEW.state <> 'done' THEN
        UPDATE jobs j SET state = 'failed', ended_at = now(),
            error = CASE OLD.kind WHEN 'volume.hash' THEN 'The image could not be verified, so nothing was made from it'
                                  ELSE 'The temporary snapshot was not taken, so nothing was copied' END || COALESCE(': ' || NULLIF(NEW.error, ''), '.')
        WHERE j.id IN (SELECT w.job_id FROM job_waits w WHERE w.for_id = OLD.id) AND j.state = 'queued' AND j.run_after = never();
    END IF;
    UPDATE jobs j SET run_after = now()
    WHERE j.id IN (SELECT w.job_id FROM job_waits w WHERE w.for_id = OLD.id) AND j.state = 'queued' AND j.run_after = never()
      AND NOT EXISTS (SELECT 1 FROM job_waits w JOIN jobs o ON o.id = w.for_id WHERE w.job_id = j.id AND o.id <> OLD.id AND o.state IN ('queued', 'running'));
    IF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;
    DELETE FROM job_waits w WHERE w.for_id = OLD.id;
    RETURN NEW;
END $$;
-- +goose StatementEnd
DROP TRIGGER end_waits ON jobs;
DROP TRIGGER end_waits_gone ON jobs;
CREATE TRIGGER end_waits AFTER UPDATE OF state ON jobs FOR EACH ROW
    WHEN ((OLD.kind LIKE 'volume.%' OR OLD.kind = 'vm.snapshot') AND OLD.state <> NEW.state AND NEW.state NOT IN ('queued', 'running')) EXECUTE FUNCTION end_waits();
CREATE TRIGGER end_waits_gone BEFORE DELETE ON jobs FOR EACH ROW WHEN (OLD.kind LIKE 'volume.%' OR OLD.kind = 'vm.snapshot') EXECUTE FUNCTION end_waits();
