-- +goose Up
-- What a person keeps of the lists: views under names, and the outcome of what was asked of many VMs at once.

CREATE TABLE saved_views (
    id      text PRIMARY KEY,
    user_id text NOT NULL REFERENCES users ON DELETE CASCADE,
    list    text NOT NULL,
    name    text NOT NULL CONSTRAINT view_name_length CHECK (char_length(name) BETWEEN 1 AND 60),
    query   text NOT NULL CONSTRAINT view_query_length CHECK (octet_length(query) <= 2000),    -- of the list's address
    CONSTRAINT view_name_taken UNIQUE (user_id, list, name)
);

-- One row for each time that an action was asked of many VMs. The tasks tell how it goes on; this also keeps what was refused.
CREATE TABLE bulk_actions (
    id         text PRIMARY KEY,
    user_id    text NOT NULL REFERENCES users ON DELETE CASCADE,
    action     text NOT NULL,
    results    jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX bulk_actions_by_user ON bulk_actions (user_id);
CREATE INDEX bulk_actions_by_age ON bulk_actions (created_at);
