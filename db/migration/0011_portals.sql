-- +goose Up
-- What a POST answered is kept with its key, sealed by the API token that asked: only who shows that token and key reads it again.
-- Releases before this one write subject_id instead.
ALTER TABLE idempotency ADD COLUMN answer bytea NOT NULL DEFAULT '', ALTER COLUMN subject_id SET DEFAULT '';

-- The row that a portal writes to prove that its database takes changes.
CREATE TABLE pulse (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    at  timestamptz NOT NULL DEFAULT now()
);

-- What follows a session ends with it, on every portal. Key: session:<hash of its token>.
-- +goose StatementBegin
CREATE FUNCTION announce_session() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('quantix', 'session:' || OLD.token);
    RETURN NULL;
END $$;
-- +goose StatementEnd

CREATE TRIGGER announce AFTER DELETE ON sessions FOR EACH ROW EXECUTE FUNCTION announce_session();
