-- name: GetDiscoveredVM :one
SELECT sqlc.embed(f), h.name AS host_name, s.looked_at, s.fresh_for, now()::timestamptz AS now
FROM found_vms f JOIN hosts h ON h.id = f.host_id LEFT JOIN host_sessions s ON s.host_id = f.host_id
WHERE f.host_id = @host_id AND f.id = @id;
