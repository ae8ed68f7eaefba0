-- +goose Up
-- What proves to a pool's storage who asks: a password or a key, sealed with a key that is not in this database. by_key says with which.
CREATE TABLE pool_secrets (
    pool_id text PRIMARY KEY REFERENCES pools ON DELETE CASCADE,
    by_key  text NOT NULL,
    sealed  bytea NOT NULL,
    set_at  timestamptz NOT NULL DEFAULT now(),
    set_by  text NOT NULL
);
