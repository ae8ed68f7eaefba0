-- +goose Up
-- How a VM came under the control of Quantix: fleet.Adoption. NULL: Quantix created it.
ALTER TABLE vms ADD COLUMN adoption jsonb;
