-- +goose Up
-- Health of hosts: what the health checks of their agents find. ADR 110.

-- One row for a host that has sent a health report: the agent's run and the number of the last accepted occurrence.
-- Occurrences up to it are repetitions.
CREATE TABLE host_health (
    host_id     text COLLATE "C" PRIMARY KEY REFERENCES hosts ON DELETE CASCADE,
    instance    text NOT NULL,
    number      bigint NOT NULL,
    reported_at timestamptz NOT NULL DEFAULT now()
);

-- The newest state of each check of a host.
CREATE TABLE host_checks (
    host_id     text COLLATE "C" NOT NULL REFERENCES hosts ON DELETE CASCADE,
    check_name  text COLLATE "C" NOT NULL,
    state       text NOT NULL, -- healthevent.CheckState
    reason      text NOT NULL DEFAULT '',
    since       timestamptz NOT NULL DEFAULT now(), -- since when the check has this state
    PRIMARY KEY (host_id, check_name)
);

-- Findings that hold, and occurrences that nobody has resolved.
CREATE TABLE host_conditions (
    host_id    text COLLATE "C" NOT NULL REFERENCES hosts ON DELETE CASCADE,
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
    host_id    text COLLATE "C" NOT NULL REFERENCES hosts ON DELETE CASCADE,
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

-- +goose StatementBegin
CREATE FUNCTION announce_host_health() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE told text;
BEGIN
    told := tell('host:' || COALESCE(NEW.host_id, OLD.host_id));
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER announce AFTER INSERT OR UPDATE OF severity, text, count OR DELETE ON host_conditions FOR EACH ROW EXECUTE FUNCTION announce_host_health();
CREATE TRIGGER announce AFTER INSERT OR UPDATE OF state, reason ON host_checks FOR EACH ROW EXECUTE FUNCTION announce_host_health();
