-- +goose Up
-- Health policies: what the portal does about health events of hosts. ADR 111.

CREATE TABLE health_policies (
    id            text COLLATE "C" PRIMARY KEY,
    name          text COLLATE "C" NOT NULL CONSTRAINT health_policy_name_taken UNIQUE,
    builtin       text NOT NULL DEFAULT '', -- name of a default policy; empty: made by a user
    spec          jsonb NOT NULL,           -- healthpolicy.Spec
    generation    bigint NOT NULL DEFAULT 1,
    created_at    timestamptz NOT NULL DEFAULT now(),
    last_error    text NOT NULL DEFAULT '', -- newest error of an evaluation since the last change
    last_error_at timestamptz
);

-- Default policies that were added once. A deleted one is not added again.
CREATE TABLE health_policy_defaults (builtin text PRIMARY KEY);

-- One row. version rises with each change of a policy's spec, so that portals compile the policies again.
CREATE TABLE health_settings (
    one       boolean PRIMARY KEY DEFAULT true CHECK (one),
    version   bigint NOT NULL DEFAULT 1,
    max_hosts integer NOT NULL DEFAULT 1 CHECK (max_hosts BETWEEN 0 AND 1000) -- hosts that policies evacuate at the same time
);
INSERT INTO health_settings DEFAULT VALUES;

-- Conditions of hosts that a policy has matched. Repeated events of a condition count up one row.
CREATE TABLE health_matches (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    policy_id   text COLLATE "C" NOT NULL REFERENCES health_policies ON DELETE CASCADE,
    host_id     text COLLATE "C" NOT NULL REFERENCES hosts ON DELETE CASCADE,
    check_name  text COLLATE "C" NOT NULL,
    object      text COLLATE "C" NOT NULL,
    code        text COLLATE "C" NOT NULL,
    event_id    bigint NOT NULL DEFAULT 0, -- newest event; 0: the policy was saved while the condition held
    text        text NOT NULL,
    severity    text NOT NULL,             -- of the policy
    actions     jsonb NOT NULL,            -- healthpolicy.Actions
    dry_run     boolean NOT NULL,
    momentary   boolean NOT NULL,          -- of an occurrence that is no condition: the pass ends it
    state       text NOT NULL DEFAULT 'new' CONSTRAINT health_match_state_known CHECK (state IN ('new', 'active', 'waiting', 'released')),
    reason      text NOT NULL DEFAULT '',
    notified    boolean NOT NULL DEFAULT false,
    since       timestamptz NOT NULL DEFAULT now(),
    last_at     timestamptz NOT NULL DEFAULT now(),
    count       bigint NOT NULL DEFAULT 1,
    ended_at    timestamptz,
    released_by text NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX health_match_once ON health_matches (policy_id, host_id, check_name, object, code) WHERE ended_at IS NULL;
CREATE INDEX health_matches_open ON health_matches (host_id) WHERE ended_at IS NULL;
CREATE INDEX health_matches_by_policy ON health_matches (policy_id, id DESC);
CREATE INDEX health_matches_by_host ON health_matches (host_id, id DESC);
CREATE INDEX health_matches_by_age ON health_matches (last_at);

-- What policies have done to the specs of hosts. held: the portal added it and removes it. found: the host had it already.
-- removed: a user removed it, and it is not added again before the conditions end.
CREATE TABLE health_acts (
    host_id  text COLLATE "C" NOT NULL REFERENCES hosts ON DELETE CASCADE,
    act      text COLLATE "C" NOT NULL, -- "cordon", or a taint such as "gpu-failed:NoExecute"
    state    text NOT NULL CONSTRAINT health_act_state_known CHECK (state IN ('held', 'found', 'removed')),
    policies text[] NOT NULL,           -- names of the policies, for pages
    cause    text NOT NULL,             -- the first condition
    since    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (host_id, act)
);

-- Names of the policies that an event has matched.
ALTER TABLE host_events ADD COLUMN policies text[] NOT NULL DEFAULT '{}';

-- +goose StatementBegin
CREATE FUNCTION announce_health_match() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE told text;
BEGIN
    told := tell('host:' || COALESCE(NEW.host_id, OLD.host_id));
    RETURN NULL;
END $$;

CREATE FUNCTION count_health_policy_versions() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE health_settings SET version = version + 1;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER count_versions AFTER INSERT OR DELETE OR UPDATE OF name, spec, generation ON health_policies FOR EACH STATEMENT EXECUTE FUNCTION count_health_policy_versions();

-- Key: policies.
CREATE TRIGGER announce AFTER INSERT OR UPDATE OR DELETE ON health_policies FOR EACH STATEMENT EXECUTE FUNCTION announce_alarms('policies');
CREATE TRIGGER announce AFTER INSERT OR UPDATE OR DELETE ON health_matches FOR EACH STATEMENT EXECUTE FUNCTION announce_alarms('policies');
CREATE TRIGGER announce AFTER UPDATE OF max_hosts ON health_settings FOR EACH STATEMENT EXECUTE FUNCTION announce_alarms('policies');
CREATE TRIGGER announce_host AFTER INSERT OR DELETE OR UPDATE OF state, reason, ended_at, dry_run ON health_matches FOR EACH ROW EXECUTE FUNCTION announce_health_match();
CREATE TRIGGER log_object AFTER INSERT OR DELETE ON health_policies FOR EACH ROW EXECUTE FUNCTION log_object('health-policy');
CREATE TRIGGER log_object_change AFTER UPDATE ON health_policies FOR EACH ROW WHEN (OLD.generation <> NEW.generation) EXECUTE FUNCTION log_object('health-policy');
