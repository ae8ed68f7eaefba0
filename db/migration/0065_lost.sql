-- +goose Up
-- A guest that runs on while its host's hypervisor takes it for off is a phase of its own: it is not off.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION vm_phase(ordered text, status jsonb, generation bigint, observed bigint, deleted_at timestamptz, fresh boolean)
RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN deleted_at IS NOT NULL THEN 'deleting'
        WHEN status IS NULL OR observed = 0 THEN 'creating'
        WHEN fresh IS NOT TRUE THEN 'unknown'
        WHEN status->>'power' = 'absent' THEN
            CASE WHEN generation > observed OR ordered <> '' THEN 'creating'
                 WHEN COALESCE(status->>'error', '') <> '' THEN 'failed' ELSE 'missing' END
        WHEN ordered <> '' THEN CASE ordered WHEN 'running' THEN 'starting' WHEN 'paused' THEN 'pausing' ELSE 'stopping' END
        WHEN generation > observed THEN 'updating'
        WHEN COALESCE(status->'faults' @> '[{"code": "lost"}]', false) THEN 'lost'
        WHEN status->>'power' = 'running' THEN
            CASE WHEN jsonb_array_length(COALESCE(NULLIF(status->'nextBoot', 'null'), '[]')) > 0 THEN 'needsRestart' ELSE 'running' END
        WHEN status->>'power' = 'paused' THEN 'paused'
        WHEN status->>'power' = 'crashed' THEN 'crashed'
        ELSE 'stopped'
    END
$$;
-- +goose StatementEnd
UPDATE vms SET heard = vm_phase(ordered, status, generation, observed_generation, deleted_at, true) WHERE status->'faults' @> '[{"code": "lost"}]';
