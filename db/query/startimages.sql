-- name: StartImages :many
-- The image catalog with the result of each entry's last pull.
SELECT sqlc.embed(s), COALESCE(t.state, '')::text AS state, COALESCE(t.progress, 0)::integer AS progress, COALESCE(t.note, '')::text AS note,
       COALESCE(t.error, '')::text AS error, t.ended_at
FROM start_images s LEFT JOIN tasks t ON t.id = s.task_id ORDER BY s.name;

-- name: LockStartImage :one
SELECT * FROM start_images WHERE id = @id FOR UPDATE;

-- name: AddStartImage :execrows
-- Inserts no row if the catalog is full.
INSERT INTO start_images (id, name, os, url, file, checksum, checksum_url, changed_by)
SELECT @id, @name, @os, @url, @file, @checksum, @checksum_url, @changed_by WHERE (SELECT count(*) FROM start_images) < @most::bigint;

-- name: ChangeStartImage :exec
UPDATE start_images SET name = @name, os = @os, url = @url, file = @file, checksum = @checksum, checksum_url = @checksum_url, changed_by = @changed_by, changed_at = now()
WHERE id = @id;

-- name: RemoveStartImage :execrows
DELETE FROM start_images WHERE id = @id;

-- name: RestoreStartImages :one
-- Returns the number of restored entries.
SELECT restore_start_images()::bigint;

-- name: NotePull :exec
UPDATE start_images SET task_id = @task_id WHERE id = @id;

-- name: PullAtWork :one
-- Whether a job of the entry's last pull is open.
SELECT EXISTS (SELECT 1 FROM start_images s JOIN jobs j ON j.task_id = s.task_id WHERE s.id = @id AND j.state IN ('queued', 'running'))::boolean;

-- name: ImageOfStart :one
-- The global image pulled from the entry; the newest if there are several.
SELECT i.id, i.name FROM images i JOIN image_versions v ON v.image_id = i.id WHERE v.start_id = @start_id AND i.project_id IS NULL ORDER BY v.created_at DESC, v.id DESC LIMIT 1;

-- name: DropFailedPulls :exec
-- Deletes versions of the entry whose pull failed.
DELETE FROM image_versions v WHERE v.start_id = @start_id AND v.format = '';

-- name: VersionWithBytes :one
-- The version of the image with this checksum; no row if there is none.
SELECT v.number FROM image_versions v WHERE v.image_id = @image_id AND v.sha256 = @sha256 LIMIT 1;
