-- +goose Up
-- Ids of VMs are compared byte by byte. What is compared with them must be too: PostgreSQL uses no index between two collations.
ALTER TABLE vm_meters ALTER COLUMN vm_id TYPE text COLLATE "C";
ALTER TABLE console_tickets ALTER COLUMN vm_id TYPE text COLLATE "C";
ALTER TABLE jobs ALTER COLUMN subject TYPE text COLLATE "C";
ALTER TABLE audit ALTER COLUMN subject TYPE text COLLATE "C";
