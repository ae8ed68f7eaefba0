-- +goose Up
-- A token for a host that is there already: its agent was lost, or its certificate lapsed. NULL: for a new host.
ALTER TABLE join_tokens ADD COLUMN host_id text REFERENCES hosts ON DELETE CASCADE;
-- sha256 of the public key that the host's agent joined with; NULL: of a host that joined before this was kept, any key.
ALTER TABLE hosts ADD COLUMN key_hash bytea;
CREATE INDEX join_tokens_by_host ON join_tokens (host_id) WHERE host_id IS NOT NULL;    -- what goes with a host
