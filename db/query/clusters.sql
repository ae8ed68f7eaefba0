-- name: AddCluster :exec
INSERT INTO clusters (id, name, spec) VALUES (@id, @name, @spec);

-- name: LockClusterList :exec
-- Serializes additions, so that each counts the previous ones.
SELECT pg_advisory_xact_lock(hashtextextended('clusters', 0));

-- name: CountClusters :one
SELECT count(*)::bigint FROM clusters;

-- name: AllClusters :many
SELECT * FROM clusters ORDER BY name;

-- name: GetCluster :one
SELECT * FROM clusters WHERE id = @id;

-- name: LockCluster :one
-- No host can join the cluster until the transaction ends.
SELECT * FROM clusters WHERE id = @id FOR UPDATE;

-- name: ShareCluster :one
-- The cluster cannot change until the transaction ends.
SELECT * FROM clusters WHERE id = @id FOR SHARE;

-- name: ChangeCluster :exec
UPDATE clusters SET name = @name, spec = @spec, generation = generation + 1 WHERE id = @id;

-- name: DeleteCluster :exec
DELETE FROM clusters WHERE id = @id;

-- name: HostsOfCluster :many
-- The first few hosts that prevent the deletion of a cluster, and the number of all.
SELECT name, count(*) OVER ()::bigint AS hosts FROM hosts WHERE cluster_id = @cluster_id ORDER BY name LIMIT 4;

-- name: SetHostCluster :exec
UPDATE hosts SET cluster_id = @cluster_id, generation = generation + 1 WHERE id = @id;

-- name: HostsBelowModel :many
-- The first hosts of the cluster, or of these hosts, that do not support the CPU model, with the features that they
-- lack, and the number of all such hosts. Hosts whose agents report no models are left out.
SELECT h.id, h.name, g.missing::text[] AS missing, count(*) OVER ()::bigint AS hosts
FROM hosts h CROSS JOIN LATERAL (SELECT missing_cpu_features(h.status, @model::text) AS missing) g
WHERE (h.cluster_id = @cluster::text OR h.id = ANY (@ids::text[])) AND g.missing IS NOT NULL
ORDER BY h.name LIMIT @most;

-- name: ActiveInCluster :many
-- The pools and networks that are active on a host of the cluster.
SELECT o.id::text AS object_id FROM (SELECT 'pool' AS noun, p.id FROM pools p UNION ALL SELECT 'net', n.id FROM networks n) o
WHERE EXISTS (SELECT 1 FROM hosts h JOIN assignments a ON a.noun = o.noun AND a.object_id = o.id AND a.host_id = h.id
    WHERE h.cluster_id = @cluster_id AND (a.noun = 'pool' AND a.asked = 'assign' AND a.status->>'state' = 'active' OR a.noun = 'net' AND a.status->>'active' = 'true'));
