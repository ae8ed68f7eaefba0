-- +goose Up
-- What pages sum up over hosts stands in plain columns, which PostgreSQL keeps itself: a pool's volumes or a host's inventory are much to
-- open for a number. They are in no index, so that a report that changes nothing else rewrites its row where it is.
-- +goose StatementBegin
-- plain_volumes are a pool's volumes that do not bear the name of a VM's disk, as a host reports them.
CREATE FUNCTION plain_volumes(status jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT jsonb_path_query_array(status, '$.volumes[*] ? (!(@.name like_regex "-[0-9a-f]{12}-[0-9]+\\.qcow2$"))')
$$;

-- digest_of is text in short. A database keeps its encoding, so that it is always the same.
CREATE FUNCTION digest_of(text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT encode(sha256(convert_to($1, 'UTF8')), 'hex')
$$;
-- +goose StatementEnd

ALTER TABLE assignments
    ADD COLUMN said            text COLLATE "C" GENERATED ALWAYS AS (CASE WHEN noun = 'pool' THEN status->>'state' WHEN status->>'active' = 'true' THEN 'active' WHEN status IS NOT NULL THEN 'inactive' END) STORED,
    ADD COLUMN faulty          boolean NOT NULL GENERATED ALWAYS AS (COALESCE(status->>'error', '') <> '') STORED,
    ADD COLUMN by_others       boolean NOT NULL GENERATED ALWAYS AS (COALESCE(status->>'byOthers', '') = 'true') STORED,
    ADD COLUMN capacity_bytes  bigint NOT NULL GENERATED ALWAYS AS (COALESCE((status->>'capacityBytes')::bigint, 0)) STORED,
    ADD COLUMN used_bytes      bigint NOT NULL GENERATED ALWAYS AS (COALESCE((status->>'usedBytes')::bigint, 0)) STORED,
    ADD COLUMN available_bytes bigint NOT NULL GENERATED ALWAYS AS (COALESCE((status->>'availableBytes')::bigint, 0)) STORED,
    ADD COLUMN promised_bytes  bigint NOT NULL GENERATED ALWAYS AS (COALESCE((status->>'promisedBytes')::bigint, 0)) STORED,
    -- As fleet.Room.UsedPercent.
    ADD COLUMN used_percent    smallint NOT NULL GENERATED ALWAYS AS (CASE WHEN COALESCE((status->>'capacityBytes')::bigint, 0) > 0
        THEN LEAST(trunc(COALESCE((status->>'usedBytes')::bigint, 0)::float8 / (status->>'capacityBytes')::bigint::float8 * 100), 1000)::smallint ELSE 0 END) STORED,
    ADD COLUMN volumes         integer NOT NULL GENERATED ALWAYS AS (CASE WHEN jsonb_typeof(status->'volumes') = 'array' THEN jsonb_array_length(status->'volumes') ELSE 0 END) STORED,
    -- Hosts that see the same files share this text: what one of them says of the files is what all of them say.
    ADD COLUMN plain_digest    text COLLATE "C" GENERATED ALWAYS AS (CASE WHEN noun = 'pool' THEN digest_of(plain_volumes(status)::text) END) STORED,
    ADD COLUMN forward         text GENERATED ALWAYS AS (CASE WHEN noun = 'net' THEN status->>'forward' END) STORED,
    ADD COLUMN subnets         text GENERATED ALWAYS AS (CASE WHEN noun = 'net' THEN status->>'subnets' END) STORED;

-- A network that leads out is known by the first of its hosts, and one that does not by none: neither asks each of them.
CREATE INDEX assignments_leading_out ON assignments (network_id)
WHERE network_id IS NOT NULL AND status->>'forward' IN ('bridge', 'vepa', 'private', 'passthrough', 'hostdev');

ALTER TABLE hosts
    ADD COLUMN threads      bigint NOT NULL GENERATED ALWAYS AS (COALESCE((status->'inventory'->'cpu'->>'threads')::bigint, 0)) STORED,
    ADD COLUMN memory_bytes bigint NOT NULL GENERATED ALWAYS AS (COALESCE((status->'inventory'->>'memoryBytes')::bigint, 0)) STORED;

-- Whose disk a file is that Quantix did not make is asked by its path.
CREATE INDEX found_vms_by_disk ON found_vms USING gin ((jsonb_path_query_array(status, '$.disks[*].path')));
