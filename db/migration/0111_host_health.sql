-- +goose Up
-- Health of hosts: what the health checks of their agents find. ADR 110.

-- One row for a host that has sent a health report: the agent's run and the number of the last accepted occurrence.
-- Occurrences up to it are repetitions.
CREATE TABLE host_health (
    host_id     text PRIMARY KEY REFERENCES hosts ON DELETE CASCADE,
    instance    text NOT NULL DEFAULT '',
    number      bigint NOT NULL DEFAULT 0,
    reported_at timestamptz NOT NULL DEFAULT now(),
    -- Token bucket of the host's events: the events that it might store at allowance_at. Further events are dropped.
    allowance    double precision NOT NULL DEFAULT 'Infinity',
    allowance_at timestamptz NOT NULL DEFAULT now(),
    stored       bigint NOT NULL DEFAULT 0 -- events since they were last counted; at least the number in host_events
);

-- The newest state of each check of a host.
CREATE TABLE host_checks (
    host_id     text NOT NULL REFERENCES hosts ON DELETE CASCADE,
    check_name  text COLLATE "C" NOT NULL,
    state       text NOT NULL, -- healthevent.CheckState
    reason      text NOT NULL DEFAULT '',
    since       timestamptz NOT NULL DEFAULT now(), -- since when the check has this state
    PRIMARY KEY (host_id, check_name)
);

-- Findings that hold, and occurrences that nobody has resolved.
CREATE TABLE host_conditions (
    host_id    text NOT NULL REFERENCES hosts ON DELETE CASCADE,
    check_name text COLLATE "C" NOT NULL,
    object     text COLLATE "C" NOT NULL,
    code       text COLLATE "C" NOT NULL,
    severity   text NOT NULL, -- fleet.AlarmSeverity
    text       text NOT NULL,
    numbers    jsonb NOT NULL, -- Finding.Values
    attributes jsonb NOT NULL,
    since      timestamptz NOT NULL,
    last_at    timestamptz NOT NULL,
    count      bigint NOT NULL DEFAULT 1,
    occurrence boolean NOT NULL, -- ends when a user resolves it
    PRIMARY KEY (host_id, check_name, object, code)
);

-- The history. Rows are only added, and deleted by age.
CREATE TABLE host_events (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    host_id    text NOT NULL REFERENCES hosts ON DELETE CASCADE,
    at         timestamptz NOT NULL,
    kind       text NOT NULL, -- healthevent.Kind
    check_name text COLLATE "C" NOT NULL,
    object     text COLLATE "C" NOT NULL,
    code       text COLLATE "C" NOT NULL,
    severity   text NOT NULL,
    text       text NOT NULL,
    numbers    jsonb NOT NULL,
    attributes jsonb NOT NULL,
    repeats    bigint NOT NULL DEFAULT 1,
    actor      text NOT NULL DEFAULT '' -- of kind resolved: the user
);
CREATE INDEX host_events_by_host ON host_events (host_id, id DESC);
CREATE INDEX host_events_by_age ON host_events (at);
CREATE INDEX host_conditions_critical ON host_conditions (host_id) WHERE severity = 'critical';

-- Each statement announces a host once, however many rows it changes.
-- +goose StatementBegin
CREATE FUNCTION announce_host_health() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE told text;
BEGIN
    SELECT max(tell('host:' || h.host_id)) INTO told FROM (SELECT DISTINCT c.host_id FROM changed c) h;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER announce AFTER INSERT ON host_events REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announce_host_health();
CREATE TRIGGER announce_insert AFTER INSERT ON host_conditions REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announce_host_health();
CREATE TRIGGER announce_update AFTER UPDATE ON host_conditions REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announce_host_health();
CREATE TRIGGER announce_delete AFTER DELETE ON host_conditions REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announce_host_health();
CREATE TRIGGER announce_insert AFTER INSERT ON host_checks REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announce_host_health();
CREATE TRIGGER announce_update AFTER UPDATE ON host_checks REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION announce_host_health();
