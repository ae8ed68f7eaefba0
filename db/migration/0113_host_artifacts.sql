-- +goose Up
-- Archives that agents sent for host.diagnose and host.agent.log: see package hostcommand. The newest five of each host and
-- kind are kept. task_id is that of the task, which may be deleted before the archive.
CREATE TABLE host_artifacts (
    id         text PRIMARY KEY,
    host_id    text NOT NULL REFERENCES hosts ON DELETE CASCADE,
    kind       text NOT NULL CONSTRAINT host_artifact_kind_known CHECK (kind IN ('diagnostics', 'agent-log')),
    job_id     text NOT NULL UNIQUE,                  -- a job that sends again replaces its archive
    task_id    text NOT NULL,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    size       bigint NOT NULL,
    summary    jsonb NOT NULL,                        -- hostcommand.Summary
    archive    bytea NOT NULL CONSTRAINT host_artifact_bounded CHECK (length(archive) <= 8388608)
);
ALTER TABLE host_artifacts ALTER COLUMN archive SET STORAGE EXTERNAL; -- a zip, which is compressed already
CREATE INDEX host_artifacts_by_host ON host_artifacts (host_id, kind, created_at DESC);

-- Commands to agents that have not ended.
CREATE INDEX jobs_of_host_commands ON jobs (kind, created_at)
    WHERE kind IN ('host.diagnose', 'host.agent.log', 'host.agent.restart') AND state IN ('queued', 'running');
