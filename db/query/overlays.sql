-- name: Overlays :many
-- The overlay networks with the tunnel addresses (VTEPs) that their hosts report.
SELECT n.id, n.spec, n.peers, COALESCE((SELECT array_agg(DISTINCT a.status->>'vtep') FROM assignments a
    WHERE a.network_id = n.id AND a.asked = 'assign' AND a.status ? 'vtep'), '{}')::text[] AS told
FROM networks n WHERE n.spec->>'mode' = 'vxlan' AND n.deleted_at IS NULL ORDER BY n.id;

-- name: SetPeers :one
-- Sets the peers and raises the generation, but only if the peers have changed.
UPDATE networks SET peers = @peers, generation = generation + 1 WHERE id = @id AND peers IS DISTINCT FROM @peers::text[] RETURNING generation;

-- name: HostsGiven :many
-- The hosts that have the object assigned.
SELECT host_id FROM assignments WHERE noun = @noun AND object_id = @object_id AND asked = 'assign' ORDER BY host_id;
