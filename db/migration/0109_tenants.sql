-- +goose Up
-- What each project used: one row a day, with the newest values of the day. Pages show it as a trend. A pass keeps the
-- rows for a year.
CREATE TABLE project_days (
    project_id  text NOT NULL REFERENCES projects ON DELETE CASCADE,
    day         date NOT NULL, -- in UTC
    vms         bigint NOT NULL,
    running_vms bigint NOT NULL,
    cpus        bigint NOT NULL,
    memory_mib  bigint NOT NULL,
    disk_bytes  bigint NOT NULL,
    PRIMARY KEY (project_id, day)
);
CREATE INDEX project_days_by_day ON project_days (day); -- the pass deletes old rows
