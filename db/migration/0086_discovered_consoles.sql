-- +goose Up
-- The console of a domain that Quantix does not manage: found_on is the host, and found_id the domain's UUID. Such a domain has no row in
-- vms, and its row in found_vms comes and goes with the host's reports.
ALTER TABLE console_tickets
    ALTER COLUMN vm_id DROP NOT NULL,
    ADD COLUMN found_on text REFERENCES hosts ON DELETE CASCADE,
    ADD COLUMN found_id text COLLATE "C",
    ADD CHECK ((found_on IS NULL) = (found_id IS NULL) AND (vm_id IS NULL) = (found_id IS NOT NULL));
