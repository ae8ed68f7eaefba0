-- +goose Up
-- The tasks that passes over hosts read each time.
CREATE INDEX tasks_terminating ON tasks (id) WHERE kind = 'host.terminate' AND state IN ('queued', 'running');
CREATE INDEX tasks_of_upgrades ON tasks (id) WHERE kind = 'host.agent.upgrade';
