-- name: ChangeNetwork :exec
-- Each change of the spec raises the generation by one.
UPDATE networks SET spec = @spec, generation = generation + 1 WHERE id = @id;

-- name: NICsOn :many
-- VMs with NICs on the network, with their reported state, on one host, or on all hosts if @host is empty.
SELECT v.id, v.name, v.host_id, h.name AS host_name, s.looked_at, s.fresh_for, COALESCE(is_fresh(s.looked_at, s.fresh_for), false)::boolean AS fresh,
       jsonb_path_query_array(v.spec, '$.nics[*] ? (@.networkId == $n).mac', jsonb_build_object('n', @network_id::text))::jsonb AS macs,
       COALESCE(v.status->'nics', '[]')::jsonb AS seen
FROM vms v JOIN hosts h ON h.id = v.host_id LEFT JOIN host_sessions s ON s.host_id = v.host_id
WHERE v.recycled_at IS NULL AND v.id IN (
    SELECT a.id FROM vms a WHERE a.host_id = @host::text AND a.spec @> jsonb_build_object('nics', jsonb_build_array(jsonb_build_object('networkId', @network_id)))
    UNION ALL
    SELECT a.id FROM vms a WHERE @host = '' AND a.spec @> jsonb_build_object('nics', jsonb_build_array(jsonb_build_object('networkId', @network_id)))
    LIMIT @most)
ORDER BY v.name, v.id;

-- name: LeasesOf :many
-- The DHCP leases that hosts report for the network, for one host, or for all hosts if @host is empty. Networks that
-- are not assigned, or are different networks of the same name, are excluded.
SELECT a.host_id, h.name AS host_name, s.looked_at, s.fresh_for, COALESCE(is_fresh(s.looked_at, s.fresh_for), false)::boolean AS fresh, (a.status->'leases')::jsonb AS leases
FROM assignments a JOIN hosts h ON h.id = a.host_id LEFT JOIN host_sessions s ON s.host_id = a.host_id
WHERE a.network_id = @network_id::text AND (@host::text = '' OR a.host_id = @host) AND a.status->'leases' IS NOT NULL AND a.asked <> '' AND NOT a.status ? 'foreign'
ORDER BY h.name LIMIT @most;

-- name: MACOwners :many
-- The VMs that have the MAC addresses by spec or by report, including unmanaged VMs.
SELECT m.mac::text AS mac, v.id, (v.name || in_bin(v.recycled_at))::text AS name, h.name AS host_name FROM unnest(@macs::text[]) AS m (mac)
JOIN vm_words w ON w.word = m.mac AND w.kind = 'mac' JOIN vms v ON v.id = w.vm_id JOIN hosts h ON h.id = v.host_id
UNION ALL
SELECT m.mac::text, '', f.name, h.name FROM unnest(@macs::text[]) AS m (mac)
JOIN found_vms f ON f.status->'nics' @> jsonb_build_array(jsonb_build_object('mac', m.mac)) JOIN hosts h ON h.id = f.host_id
ORDER BY 1, 3, 4;

-- name: NetworkSpecs :many
SELECT n.id, n.spec FROM networks n WHERE n.id = ANY (@ids::text[]);
