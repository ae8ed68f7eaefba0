-- +goose Up
-- A token for a host that is there already: its agent was lost, or its certificate lapsed. NULL: for a new host.
ALTER TABLE join_tokens ADD COLUMN host_id text REFERENCES hosts ON DELETE CASCADE;
CREATE INDEX join_tokens_by_host ON join_tokens (host_id) WHERE host_id IS NOT NULL;    -- what goes with a host
