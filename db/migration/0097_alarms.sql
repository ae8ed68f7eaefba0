-- +goose Up
-- Alarm rules state when an alarm is raised: ADR 103. The pass of internal/control/alarms evaluates them.

-- builtin names a rule of the default set (fleet.DefaultAlarmRules), empty: made by a user. A rule without a project is for
-- all of the fleet.
CREATE TABLE alarm_rules (
    id         text PRIMARY KEY,
    name       text COLLATE "C" NOT NULL,
    project_id text REFERENCES projects ON DELETE CASCADE,
    builtin    text COLLATE "C" NOT NULL DEFAULT '',
    spec       jsonb NOT NULL, -- fleet.AlarmRuleSpec
    generation bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT alarm_rule_name_taken UNIQUE NULLS NOT DISTINCT (project_id, name)
);
CREATE UNIQUE INDEX alarm_rules_builtin ON alarm_rules (builtin) WHERE builtin <> '';

-- An alarm is one condition of one rule on one object, from its first evaluation to its end. raised_at is NULL while the
-- condition has not held for the duration of the rule: such a row is no alarm yet, and is deleted when the condition ends.
-- Alarms with equal rule and cause are shown as one group.
CREATE TABLE alarms (
    id              text PRIMARY KEY, -- ascends with time
    rule_id         text NOT NULL REFERENCES alarm_rules ON DELETE CASCADE,
    subject         text COLLATE "C" NOT NULL, -- "<resource type>:<id>"
    subject_name    text COLLATE "C" NOT NULL,
    project_id      text REFERENCES projects ON DELETE CASCADE, -- of the object; NULL: an object of the fleet
    host_id         text, -- the host where the condition holds; NULL: no single host
    cause           text COLLATE "C" NOT NULL, -- the text without names of objects
    severity        text NOT NULL, -- fleet.AlarmSeverity
    text            text NOT NULL,
    remedy          text NOT NULL DEFAULT '',
    value           double precision, -- the newest value of the metric; NULL: the condition is a state
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
CREATE UNIQUE INDEX alarms_open ON alarms (rule_id, subject, cause) WHERE cleared_at IS NULL;
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
