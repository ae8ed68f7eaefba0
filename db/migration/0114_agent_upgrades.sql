-- +goose Up
-- The unfinished upgrades of hosts' agents: few at any time.
CREATE INDEX jobs_of_agent_upgrades ON jobs (subject) WHERE kind = 'host.agent.upgrade' AND state IN ('queued', 'running');
