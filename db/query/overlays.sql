-- name: Overlays :many
-- The overlays with the addresses by which their hosts take packets, as those say.
SELECT n.id, n.spec, n.peers, COALESCE((SELECT array_agg(DISTINCT a.status->>'vtep') FROM assignments a
    WHERE a.network_id = n.id AND a.asked = 'assign' AND a.status ? 'vtep'), '{}')::text[] AS told
FROM networks n WHERE n.spec->>'mode' = 'vxlan' AND n.deleted_at IS NULL ORDER BY n.id;

-- name: SetPeers :one
-- The next generation, which the network's hosts are told.
UPDATE networks SET peers = @peers, generation = generation + 1 WHERE id = @id AND peers IS DISTINCT FROM @peers::text[] RETURNING generation;

-- name: HostsGiven :many
-- The hosts that are to have the object.
SELECT host_id FROM assignments WHERE noun = @noun AND object_id = @object_id AND asked = 'assign' ORDER BY host_id;
