-- +goose Up
-- Copies that are made of disks as they are in snapshots of a VM, of which nothing changes meanwhile.
CREATE INDEX jobs_reading_snapshots ON jobs (('vm:' || (args #>> '{volume,snapshot,vmId}')))
    WHERE kind = 'volume.copy' AND args #>> '{volume,snapshot,vmId}' IS NOT NULL AND state IN ('queued', 'running');

-- When snapshots of VMs are taken by themselves. Intent alone: hosts know of no schedule.
CREATE TABLE snapshot_schedules (
    id         text COLLATE "C" PRIMARY KEY,
    vm_id      text COLLATE "C" NOT NULL REFERENCES vms ON DELETE CASCADE,
    spec       jsonb NOT NULL,                     -- fleet.SnapshotSchedule
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    next_at    timestamptz,                        -- for when the next is asked for; NULL: it is not enabled
    look_at    timestamptz,                        -- when a pass looks at it next; NULL: not before somebody changes it
    missed     integer NOT NULL DEFAULT 0,         -- times that passed before the last one was asked for
    trouble    text NOT NULL DEFAULT '',           -- why it waits, or what went wrong, in a sentence
    attention  boolean NOT NULL DEFAULT false      -- and a person is needed
);
CREATE INDEX snapshot_schedules_of_vm ON snapshot_schedules (vm_id, created_at);                   -- a VM's page
CREATE INDEX snapshot_schedules_to_look ON snapshot_schedules (look_at) WHERE look_at IS NOT NULL; -- the pass over them

-- What a schedule has asked for, and so which snapshots are its own to delete: never two for one time.
CREATE TABLE snapshot_runs (
    schedule_id text COLLATE "C" NOT NULL REFERENCES snapshot_schedules ON DELETE CASCADE,
    due         timestamptz NOT NULL,
    snapshot_id text COLLATE "C" NOT NULL,
    task_id     text COLLATE "C" NOT NULL,             -- that takes it
    settled     boolean NOT NULL DEFAULT false,        -- that has ended
    tidy_task   text COLLATE "C" NOT NULL DEFAULT '',  -- that deletes it; '': nothing does yet
    tidy_at     timestamptz,                           -- not before then it is asked for again
    tidied      integer NOT NULL DEFAULT 0,            -- how often it was asked for
    PRIMARY KEY (schedule_id, due)
);

-- tell the VM's page of what its schedules do.
-- +goose StatementBegin
CREATE FUNCTION announce_schedule() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE told text := tell('vm:' || COALESCE(NEW.vm_id, OLD.vm_id));
BEGIN
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER announce AFTER INSERT OR DELETE ON snapshot_schedules FOR EACH ROW EXECUTE FUNCTION announce_schedule();
CREATE TRIGGER announce_change AFTER UPDATE ON snapshot_schedules FOR EACH ROW
    WHEN (OLD.spec <> NEW.spec OR OLD.next_at IS DISTINCT FROM NEW.next_at OR OLD.trouble <> NEW.trouble) EXECUTE FUNCTION announce_schedule();

-- A schedule of a VM that a person is needed for: attention is the VM's, too. It is added behind keep_phase, which triggers' names order; whoever ends it
-- sets attention anew with it, so that keep_phase decides.
ALTER TABLE vms ADD COLUMN schedule_trouble text NOT NULL DEFAULT '';
-- +goose StatementBegin
CREATE FUNCTION keep_schedule_trouble() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.attention := NEW.attention OR NEW.deleted_at IS NULL AND NEW.status IS NOT NULL AND NEW.observed_generation > 0;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER keep_schedule_trouble BEFORE UPDATE ON vms FOR EACH ROW WHEN (NEW.schedule_trouble <> '') EXECUTE FUNCTION keep_schedule_trouble();
