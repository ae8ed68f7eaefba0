-- name: Published :many
-- What is published of the pools, for everybody. Narrower scopes are offered to nobody yet.
SELECT pool_id, COALESCE(host_id, '')::text AS host, volume, format, capacity_bytes, published_by, published_at
FROM published_images WHERE pool_id = ANY (@pools::text[]) AND project_id IS NULL;

-- name: PublishImage :exec
-- What was seen of it before is replaced by what is seen now.
INSERT INTO published_images (pool_id, host_id, volume, format, capacity_bytes, published_by)
VALUES (@pool_id, NULLIF(@host::text, ''), @volume, @format, @capacity_bytes, @published_by)
ON CONFLICT ON CONSTRAINT published_once DO UPDATE
SET format = EXCLUDED.format, capacity_bytes = EXCLUDED.capacity_bytes, published_by = EXCLUDED.published_by, published_at = now();

-- name: WithdrawImage :execrows
-- On one host of a local pool, or wherever it is where @host is empty.
DELETE FROM published_images WHERE pool_id = @pool_id AND volume = @volume AND (@host::text = '' OR host_id = @host) AND project_id IS NULL;

-- name: PlainVolumes :many
-- The volumes without a VM's name that these hosts say these pools have.
SELECT w.pool_id::text AS pool_id, w.host_id::text AS host_id, COALESCE(plain_volumes(a.status), '[]')::jsonb AS volumes
FROM (SELECT unnest(@pools::text[]) AS pool_id, unnest(@hosts::text[]) AS host_id) w JOIN assignments a ON a.pool_id = w.pool_id AND a.host_id = w.host_id;
