-- +goose Up
-- The key of the authority is sealed with a key that is not in this database, as other secrets are; by_key says with which. One that an
-- older release left in clear is sealed by the first portal that reads it.
ALTER TABLE authority ALTER COLUMN key_pem DROP NOT NULL, ADD COLUMN by_key text, ADD COLUMN sealed bytea,
    ADD CONSTRAINT authority_has_one_key CHECK ((key_pem IS NULL) = (sealed IS NOT NULL) AND (sealed IS NULL) = (by_key IS NULL));
