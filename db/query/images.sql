-- name: LibraryOf :many
-- The files of these pools that are copies of images, each with the projects of its image.
SELECT c.pool_id, COALESCE(c.host_id, '')::text AS host, c.volume, v.id AS version_id, v.image_id, i.name, v.number, v.format, v.capacity_bytes, v.sha256, c.added_by, c.added_at,
       EXISTS (SELECT 1 FROM image_open g WHERE g.image_id = i.id AND g.project_id IS NULL)::boolean AS to_all,
       ARRAY(SELECT g.project_id FROM image_open g WHERE g.image_id = i.id AND g.project_id IS NOT NULL)::text[] AS projects
FROM image_copies c JOIN image_versions v ON v.id = c.version_id JOIN images i ON i.id = v.image_id WHERE c.pool_id = ANY (@pools::text[]);

-- name: AddImage :exec
INSERT INTO images (id, project_id, name, description, os, created_by) VALUES (@id, sqlc.narg(project_id), @name, @description, @os, @created_by);

-- name: LockImage :one
SELECT * FROM images WHERE id = @id FOR UPDATE;

-- name: LockImages :many
-- Locks the images while a VM is created from them, so that their copies stay: a deletion locks the image first. open
-- is set if the image is published to the project.
SELECT i.id, EXISTS (SELECT 1 FROM image_open g WHERE g.image_id = i.id AND (g.project_id IS NULL OR g.project_id = @project_id::text))::boolean AS open
FROM images i WHERE i.id = ANY (@ids::text[]) ORDER BY i.id FOR SHARE OF i;

-- name: VersionsThere :many
-- The image versions among these IDs that exist. The query must follow LockImages, because a deletion locks the image
-- first.
SELECT id FROM image_versions WHERE id = ANY (@ids::text[]);

-- name: ChangeImage :exec
UPDATE images SET name = @name, description = @description, os = @os WHERE id = @id;

-- name: DeleteImage :exec
DELETE FROM images WHERE id = @id;

-- name: AddImageVersion :one
-- Assigns the next version number.
INSERT INTO image_versions (id, image_id, number, format, capacity_bytes, sha256, source, created_by, start_id)
SELECT @id, @image_id, COALESCE(max(v.number), 0) + 1, @format, @capacity_bytes, @sha256, @source, @created_by, sqlc.narg(start_id) FROM image_versions v WHERE v.image_id = @image_id
RETURNING number;

-- name: GetImageVersion :one
SELECT sqlc.embed(v), sqlc.embed(i) FROM image_versions v JOIN images i ON i.id = v.image_id WHERE v.id = @id;

-- name: AddImageCopy :execrows
INSERT INTO image_copies (version_id, pool_id, host_id, volume, added_by) VALUES (@version_id, @pool_id, NULLIF(@host::text, ''), @volume, @added_by)
ON CONFLICT ON CONSTRAINT image_copy_once DO NOTHING;

-- name: ForgetCopies :execrows
-- Removes copies on one host of a local pool, or on all hosts if @host is empty.
DELETE FROM image_copies WHERE pool_id = @pool_id AND volume = @volume AND (@host::text = '' OR host_id = @host);

-- name: DropEmptyImages :exec
-- Deletes versions without copies, and images without versions.
WITH gone AS (
    DELETE FROM image_versions v WHERE v.id = ANY (@versions::text[]) AND NOT EXISTS (SELECT 1 FROM image_copies c WHERE c.version_id = v.id) RETURNING v.id, v.image_id
)
DELETE FROM images i WHERE i.id IN (SELECT g.image_id FROM gone g) AND NOT EXISTS (SELECT 1 FROM image_versions v WHERE v.image_id = i.id AND v.id NOT IN (SELECT g.id FROM gone g));

-- name: CopiesAt :many
-- The image versions that have the file as a copy.
SELECT c.version_id, COALESCE(c.host_id, '')::text AS host FROM image_copies c WHERE c.pool_id = @pool_id AND c.volume = @volume AND (@host::text = '' OR c.host_id = @host);

-- name: GrantImage :execrows
-- project_id NULL grants to all projects.
INSERT INTO image_grants (image_id, project_id, granted_by) VALUES (@image_id, sqlc.narg(project_id), @granted_by) ON CONFLICT DO NOTHING;

-- name: RevokeImage :execrows
DELETE FROM image_grants WHERE image_id = @image_id AND project_id IS NOT DISTINCT FROM sqlc.narg(project_id);

-- name: NoteVersion :exec
-- Records the properties that a host reports for its copy of a version whose properties are unknown. A checksum is
-- recorded only if the hosts of all other existing copies report the same one. Known values never change, because a
-- host's report must not affect another host's copy.
UPDATE image_versions v
SET format = CASE v.format WHEN '' THEN @format::text ELSE v.format END, capacity_bytes = CASE v.format WHEN '' THEN @capacity_bytes::bigint ELSE v.capacity_bytes END,
    sha256 = CASE WHEN v.sha256 = '' AND @digest::text ~ '^[0-9a-f]{64}$' AND NOT EXISTS (
        SELECT 1 FROM image_copies o CROSS JOIN LATERAL (
            SELECT bool_or(x->>'sha256' = @digest) AS same, count(*) AS files FROM assignments a
            CROSS JOIN LATERAL jsonb_path_query(a.status, '$.volumes[*] ? (@.name == $name)', jsonb_build_object('name', o.volume)) x
            WHERE a.pool_id = o.pool_id AND (o.host_id IS NULL OR a.host_id = o.host_id)) said
        WHERE o.version_id = v.id AND (o.pool_id, o.volume, COALESCE(o.host_id, @host::text)) <> (@pool_id::text, @volume::text, @host) AND said.files > 0 AND said.same IS NOT TRUE)
      THEN @digest ELSE v.sha256 END
WHERE v.id IN (SELECT c.version_id FROM image_copies c WHERE c.pool_id = @pool_id AND c.volume = @volume AND (c.host_id IS NULL OR c.host_id = @host)) AND (v.format = '' OR v.sha256 = '');

-- name: ImagesCreated :many
-- The first few VMs with a disk created from each of the versions.
SELECT w.id::text AS version_id, m.names
FROM (SELECT unnest(@versions::text[]) AS id) w CROSS JOIN LATERAL (
    SELECT COALESCE((array_agg(v.name || in_bin(v.recycled_at) ORDER BY v.name))[1:20], '{}')::text[] AS names FROM vms v
    WHERE v.spec @> jsonb_build_object('disks', jsonb_build_array(jsonb_build_object('versionId', w.id)))) m;

-- name: OverlaysOn :many
-- The first few VMs with a disk backed by each of the files, including disks not created yet. A file without a host
-- matches on all hosts.
SELECT w.pool_id::text AS pool_id, w.volume::text AS volume, w.host::text AS host, m.names
FROM (SELECT unnest(@pools::text[]) AS pool_id, unnest(@volumes::text[]) AS volume, unnest(@hosts::text[]) AS host) w CROSS JOIN LATERAL (
    SELECT COALESCE((array_agg(v.name || in_bin(v.recycled_at) ORDER BY v.name))[1:8], '{}')::text[] AS names FROM vms v
    WHERE (w.host = '' OR v.host_id = w.host)
      AND v.spec @> jsonb_build_object('disks', jsonb_build_array(jsonb_build_object('overlay', true, 'image', jsonb_build_object('poolId', w.pool_id, 'volume', w.volume))))) m
WHERE m.names <> '{}';

-- name: WorkOnVolumes :many
-- Works like VolumesAtWork, for several pools.
SELECT w.pool_id::text AS pool_id, w.subject, w.kind, w.host_id, w.state, COALESCE(w.args->'volume'->>'source', '')::text AS source FROM volume_work w
WHERE w.pool_id = ANY (@pools::text[]) ORDER BY w.id;

-- name: PlainVolumes :many
-- The volumes that these hosts report in these pools, without those named like VM disks.
SELECT w.pool_id::text AS pool_id, w.host_id::text AS host_id, COALESCE(plain_volumes(a.status), '[]')::jsonb AS volumes
FROM (SELECT unnest(@pools::text[]) AS pool_id, unnest(@hosts::text[]) AS host_id) w JOIN assignments a ON a.pool_id = w.pool_id AND a.host_id = w.host_id;

-- name: LockImageSteps :exec
-- Serializes jobs that create or read copies, so that a second VM uses the copy requested for the first.
SELECT pg_advisory_xact_lock(hashtextextended('steps of images', 0));

-- name: CopiesIn :many
-- The copies of a version in a pool; in a local pool only those of one host. coming is set if a job is creating the
-- copy.
SELECT c.volume, EXISTS (SELECT 1 FROM jobs j WHERE j.subject = 'volume:' || c.pool_id || '/' || c.volume AND j.kind IN ('volume.copy', 'volume.receive')
    AND j.state IN ('queued', 'running') AND (c.host_id IS NULL OR j.host_id = c.host_id))::boolean AS coming
FROM image_copies c WHERE c.version_id = @version_id AND c.pool_id = @pool_id AND COALESCE(c.host_id, '') = @host::text ORDER BY c.volume;

-- name: FreeImageName :one
-- The name, with the first number that makes it unique among global images, if any is needed.
SELECT n.name::text FROM (
    SELECT @name::text AS name, 0 AS nth UNION ALL SELECT @name::text || ' (' || g || ')', g FROM generate_series(2, 1000) g) n
WHERE NOT EXISTS (SELECT 1 FROM images i WHERE i.project_id IS NULL AND i.template_id IS NULL AND i.name = n.name COLLATE "C") ORDER BY n.nth LIMIT 1;

-- name: CountProjectImages :one
-- Locks the project, so that concurrent creations are counted.
SELECT count(i.id) FROM (SELECT p.id FROM projects p WHERE p.id = @project_id::text FOR NO KEY UPDATE) o LEFT JOIN images i ON i.project_id = o.id AND i.template_id IS NULL;
