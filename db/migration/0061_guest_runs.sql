-- +goose Up
-- ordered_power, as it was, and of what shuts a VM down and starts it.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION ordered_power(kind text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE kind WHEN 'vm.start' THEN 'running' WHEN 'vm.resume' THEN 'running' WHEN 'vm.restart' THEN 'running' WHEN 'vm.pause' THEN 'paused'
                     WHEN 'vm.stop' THEN 'stopped' WHEN 'vm.shutdown' THEN 'stopped' END
$$;
-- +goose StatementEnd

-- What a program that was run in a guest left behind; the newest of each VM, kept with their tasks. announced with the task.
CREATE TABLE guest_runs (
    task_id  text COLLATE "C" PRIMARY KEY REFERENCES tasks ON DELETE CASCADE,
    vm_id    text COLLATE "C" NOT NULL REFERENCES vms ON DELETE CASCADE,
    result   jsonb NOT NULL -- fleet.GuestRun
);
CREATE INDEX guest_runs_of ON guest_runs (vm_id, task_id); -- which of a VM's are the oldest

-- A secret ends with its job, whatever it is of.
DROP TRIGGER forget_guest_secret ON jobs;
CREATE TRIGGER forget_guest_secret AFTER UPDATE OF state ON jobs FOR EACH ROW
    WHEN (NEW.kind IN ('vm.password', 'vm.exec') AND NEW.state NOT IN ('queued', 'running')) EXECUTE FUNCTION forget_guest_secret();

-- Children of a task that wait for those of an earlier stage: what starts, or shuts down, in an order. stage_wait is in seconds, between the last end before
-- the stage and its begin.
ALTER TABLE tasks
    ADD COLUMN held       boolean NOT NULL DEFAULT false,
    ADD COLUMN stage      integer NOT NULL DEFAULT 0,
    ADD COLUMN stage_wait integer NOT NULL DEFAULT 0;
CREATE INDEX tasks_held ON tasks (parent_id, stage) WHERE held; -- the pass that lets the next stage begin; empty mostly
