-- +goose Up
-- Power of hosts through their BMCs, and the termination of hosts: ADR 114.
ALTER TABLE hosts ADD COLUMN has_bmc boolean NOT NULL DEFAULT false; -- host_bmcs has a row of the host

CREATE TABLE host_bmcs (
    host_id      text PRIMARY KEY REFERENCES hosts ON DELETE CASCADE,
    spec         jsonb NOT NULL, -- bmc.Spec with the pinned fingerprint
    by_key       text NOT NULL, -- the key that encrypted sealed
    sealed       bytea NOT NULL, -- the password
    generation   bigint NOT NULL DEFAULT 1,
    reading      jsonb, -- bmc.Reading of the newest successful read
    read_at      timestamptz, -- of reading
    error        text NOT NULL DEFAULT '', -- of the newest attempt
    checked_at   timestamptz, -- end of the newest attempt
    asked_at     timestamptz, -- of the newest test that a user requested
    failures     integer NOT NULL DEFAULT 0, -- attempts without success since the last one with it
    due_at       timestamptz NOT NULL DEFAULT now(), -- of the next attempt
    leased_until timestamptz -- a portal is reading; after this time another one may
);
CREATE INDEX host_bmcs_due ON host_bmcs (due_at);

-- by_portal: a portal does the task's work, which no host gets as a job. It is pending until the work begins, so that it can be
-- cancelled, and BeginTasks leaves it alone.
ALTER TABLE tasks ADD COLUMN by_portal boolean NOT NULL DEFAULT false;

-- The work of a task that switches a host's power through its BMC.
CREATE TABLE host_power_orders (
    task_id      text COLLATE "C" PRIMARY KEY REFERENCES tasks ON DELETE CASCADE,
    host_id      text NOT NULL REFERENCES hosts ON DELETE CASCADE,
    command      text NOT NULL, -- bmc.Command
    fences       boolean NOT NULL, -- ordered while the host was offline without maintenance
    -- waiting: not begun; sending: a portal sends the command, at most once; watching: waits for the power state
    step         text NOT NULL DEFAULT 'waiting' CONSTRAINT power_step_known CHECK (step IN ('waiting', 'sending', 'watching', 'ended')),
    in_doubt     boolean NOT NULL DEFAULT false, -- the BMC may not have got the command
    epoch        integer NOT NULL DEFAULT 0, -- rises with each lease
    deadline_at  timestamptz, -- of the wanted power state
    due_at       timestamptz NOT NULL DEFAULT now(),
    leased_until timestamptz
);
CREATE UNIQUE INDEX host_power_order_open ON host_power_orders (host_id) WHERE step <> 'ended';
CREATE INDEX host_power_orders_due ON host_power_orders (due_at) WHERE step <> 'ended';

-- +goose StatementBegin
-- end_power_task ends the task of an order that goes with its host.
CREATE FUNCTION end_power_task() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE tasks SET state = 'cancelled', pending = false, error = 'Its host was removed.', ended_at = now()
    WHERE id = OLD.task_id AND state IN ('queued', 'running');
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER end_power_task AFTER DELETE ON host_power_orders FOR EACH ROW WHEN (OLD.step <> 'ended') EXECUTE FUNCTION end_power_task();
