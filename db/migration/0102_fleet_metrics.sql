-- +goose Up
-- The sums over the fleet and its clusters are samples of no host, so their layout belongs to none. The layouts of a host
-- that is deleted stay until no sample needs them.
ALTER TABLE metric_layouts DROP CONSTRAINT metric_layouts_host_id_fkey;

-- growth is usage.Growth, days the days of the values; empty: of an older portal, which the next pass replaces.
ALTER TABLE pool_predictions ADD COLUMN growth text NOT NULL DEFAULT '', ADD COLUMN days integer NOT NULL DEFAULT 0;
UPDATE pool_predictions SET predicted_at = predicted_at - interval '1 hour';
