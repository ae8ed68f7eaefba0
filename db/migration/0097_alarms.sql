-- +goose Up
-- Alarm rules state when an alarm is raised: ADR 103. The pass of internal/control/alarms evaluates them.

-- builtin names a rule of the default set (alarm.DefaultRules), empty: made by a user.
CREATE TABLE alarm_rules (
    id         text PRIMARY KEY,
    name       text COLLATE "C" NOT NULL CONSTRAINT alarm_rule_name_taken UNIQUE,
    builtin    text COLLATE "C" NOT NULL DEFAULT '',
    spec       jsonb NOT NULL, -- fleet.AlarmRuleSpec
    generation bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- Default rules that were added once. A default rule that a user has deleted does not come back.
CREATE TABLE alarm_defaults (builtin text COLLATE "C" PRIMARY KEY);

-- One row: when the rules were last evaluated. After a pause, no condition counts as held during the pause.
CREATE TABLE alarm_evaluation (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    at       timestamptz NOT NULL
);

-- An alarm is one condition of one rule on one object, from its first evaluation to its end. raised_at is NULL while the
-- condition has not held for the duration of the rule: such a row is no alarm yet, and is deleted when the condition ends.
-- Alarms with equal rule and cause are shown as one group.
CREATE TABLE alarms (
    id              text PRIMARY KEY, -- ascends with time
    rule_id         text NOT NULL REFERENCES alarm_rules ON DELETE CASCADE,
    subject         text COLLATE "C" NOT NULL, -- "<resource type>:<id>"
    subject_name    text COLLATE "C" NOT NULL,
    project_id      text REFERENCES projects ON DELETE CASCADE, -- of the object; NULL: an object of the fleet
    host_id         text NOT NULL DEFAULT '', -- the host where the condition of a pool or network holds; empty: no single host
    cause           text COLLATE "C" NOT NULL, -- the text without names of objects
    severity        text NOT NULL, -- fleet.AlarmSeverity
    text            text NOT NULL,
    plain           text NOT NULL, -- the text without names of objects and details of hosts, for users who do not see hosts
    remedy          text NOT NULL DEFAULT '',
    value           double precision, -- the newest value; NULL: the condition has no value
    count           bigint NOT NULL DEFAULT 1, -- how often the same failure occurred
    since           timestamptz NOT NULL DEFAULT now(), -- the condition holds since then
    raised_at       timestamptz,
    clear_since     timestamptz, -- the condition of a raised alarm does not hold since then; NULL: it holds
    acknowledged_at timestamptz,
    acknowledged_by text NOT NULL DEFAULT '',
    note            text NOT NULL DEFAULT '',
    silenced_until  timestamptz,
    cleared_at      timestamptz
);
CREATE UNIQUE INDEX alarms_open ON alarms (rule_id, subject, host_id, cause) WHERE cleared_at IS NULL;
CREATE INDEX alarms_by_severity ON alarms (severity, raised_at DESC, id DESC) WHERE cleared_at IS NULL AND raised_at IS NOT NULL;
CREATE INDEX alarms_by_subject ON alarms (subject, id DESC);
CREATE INDEX alarms_by_project ON alarms (project_id, id DESC);
CREATE INDEX alarms_by_age ON alarms (cleared_at) WHERE cleared_at IS NOT NULL;

-- The history of alarms, and the source of notifications. Rows are only added.
CREATE TABLE alarm_events (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    alarm_id text NOT NULL REFERENCES alarms ON DELETE CASCADE,
    at       timestamptz NOT NULL DEFAULT now(),
    kind     text NOT NULL, -- fleet.AlarmEventKind
    actor    text NOT NULL DEFAULT '', -- name of the user; empty: the portal
    text     text NOT NULL DEFAULT ''
);
CREATE INDEX alarm_events_by_alarm ON alarm_events (alarm_id, id);

-- End of the certificate that the agent used at its last hello or received at its last renewal; NULL: unknown.
ALTER TABLE host_sessions ADD COLUMN certificate_end timestamptz;

-- When pools on hosts will be full, as PredictPools of internal/control/metrics predicts. full_at NULL: no prediction.
CREATE TABLE pool_predictions (
    pool_id      text NOT NULL REFERENCES pools ON DELETE CASCADE,
    host_id      text NOT NULL REFERENCES hosts ON DELETE CASCADE,
    full_at      timestamptz,
    predicted_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (pool_id, host_id)
);
CREATE INDEX pool_predictions_full ON pool_predictions (full_at) WHERE full_at IS NOT NULL;

-- Keys: alarms, for each statement that changes alarms; alarm-rules.
-- +goose StatementBegin
CREATE FUNCTION announce_alarms() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE told text;
BEGIN
    told := tell(TG_ARGV[0]);
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER announce AFTER INSERT OR UPDATE OR DELETE ON alarms FOR EACH STATEMENT EXECUTE FUNCTION announce_alarms('alarms');
CREATE TRIGGER announce AFTER INSERT OR UPDATE OR DELETE ON alarm_rules FOR EACH STATEMENT EXECUTE FUNCTION announce_alarms('alarm-rules');
