-- name: AddTemplate :exec
INSERT INTO templates (id, project_id, name, description, os, created_by) VALUES (@id, @project_id, @name, @description, @os, @created_by);

-- name: LockTemplate :one
SELECT * FROM templates WHERE id = @id FOR UPDATE;

-- name: CountProjectTemplates :one
-- Locks the project, so that concurrent creations are counted.
SELECT count(t.id) FROM (SELECT p.id FROM projects p WHERE p.id = @project_id::text FOR NO KEY UPDATE) o LEFT JOIN templates t ON t.project_id = o.id;

-- name: ChangeTemplate :exec
UPDATE templates SET name = @name, description = @description, os = @os WHERE id = @id;

-- name: DeleteTemplate :exec
DELETE FROM templates WHERE id = @id;

-- name: AddTemplateVersion :one
-- Assigns the next version number.
INSERT INTO template_versions (id, template_id, number, spec, source, note, created_by)
SELECT @id, @template_id, COALESCE(max(v.number), 0) + 1, @spec, @source, @note, @created_by FROM template_versions v WHERE v.template_id = @template_id
RETURNING number;

-- name: TemplateVersions :many
SELECT * FROM template_versions WHERE template_id = @template_id ORDER BY number;

-- name: DeprecateTemplateVersion :execrows
-- An empty @by clears the deprecated flag.
UPDATE template_versions SET deprecated_at = CASE WHEN @by::text <> '' THEN now() END, deprecated_by = @by
WHERE id = @id AND template_id = @template_id AND (deprecated_at IS NULL) = (@by <> '');

-- name: DeleteTemplateVersion :execrows
DELETE FROM template_versions WHERE id = @id AND template_id = @template_id;

-- name: GrantTemplate :execrows
-- project_id NULL grants to all projects.
INSERT INTO template_grants (template_id, project_id, granted_by) VALUES (@template_id, sqlc.narg(project_id), @granted_by) ON CONFLICT DO NOTHING;

-- name: RevokeTemplate :execrows
DELETE FROM template_grants WHERE template_id = @template_id AND project_id IS NOT DISTINCT FROM sqlc.narg(project_id);

-- name: AddTemplateImage :exec
INSERT INTO images (id, project_id, template_id, name, description, os, created_by) VALUES (@id, @project_id, @template_id, @name, '', @os, @created_by);

-- name: RenameTemplateImages :exec
-- The name of an image is the template's name followed by the disk number.
UPDATE images SET name = @name::text || substring(name FROM ' disk [0-9]+$'), os = @os WHERE template_id = @template_id;

-- name: LockTemplateImages :many
-- Locks the images that belong to a template.
SELECT id, name FROM images WHERE template_id = @template_id ORDER BY id FOR UPDATE;

-- name: DeleteImageVersions :exec
-- Deletes versions with their copies, and the template's images without further versions.
WITH gone AS (
    DELETE FROM image_versions v USING images i WHERE v.id = ANY (@ids::text[]) AND i.id = v.image_id AND i.template_id = @template_id::text RETURNING v.id, v.image_id
)
DELETE FROM images i WHERE i.id IN (SELECT g.image_id FROM gone g) AND NOT EXISTS (SELECT 1 FROM image_versions v WHERE v.image_id = i.id AND v.id NOT IN (SELECT g.id FROM gone g));

-- name: VMsCreatedFrom :many
-- VMs with a disk created from each of the image versions, at most 200 each. linked: the disk is an overlay backed by
-- the version.
SELECT w.id::text AS version_id, v.id, (v.name || in_bin(v.recycled_at))::text AS name, v.project_id, v.linked
FROM (SELECT unnest(@versions::text[]) AS id) w CROSS JOIN LATERAL (
    SELECT m.id, m.name, m.project_id, m.recycled_at, (m.spec @> jsonb_build_object('disks', jsonb_build_array(jsonb_build_object('versionId', w.id, 'overlay', true))))::boolean AS linked FROM vms m
    WHERE m.spec @> jsonb_build_object('disks', jsonb_build_array(jsonb_build_object('versionId', w.id))) ORDER BY m.name, m.id LIMIT 200) v;

-- name: NamesInUse :many
-- The names among these that VMs of the project have.
SELECT name FROM vms WHERE project_id = @project_id::text AND recycled_at IS NULL AND name = ANY (@names::text[]) ORDER BY name LIMIT 200;

-- name: AddVMOrder :exec
INSERT INTO vm_orders (task_id, request) VALUES (@task_id, @request);

-- name: VMOrder :one
SELECT request FROM vm_orders WHERE task_id = @task_id;

-- name: DropVMOrders :exec
-- Deletes the stored input of tasks without pending subtasks.
DELETE FROM vm_orders o WHERE o.task_id = ANY (@task_ids::text[]) AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.parent_id = o.task_id AND t.pending);

-- name: AddCreatedDisks :exec
-- Records disks created by a separate job, so that the host never creates them again.
INSERT INTO made_disks (vm_id, pool_id, volume) SELECT @vm_id, d.pool_id, d.volume
FROM (SELECT unnest(@pools::text[]) AS pool_id, unnest(@volumes::text[]) AS volume) d ON CONFLICT DO NOTHING;

-- name: CopiesOfDisks :many
-- The open jobs that create the disks of a VM from other disks.
SELECT j.id, j.subject, j.state FROM (SELECT unnest(@subjects::text[]) AS subject ORDER BY 1) s CROSS JOIN LATERAL (
    SELECT w.id, w.subject, w.state FROM jobs w WHERE w.subject = s.subject AND w.kind IN ('volume.copy', 'volume.convert') AND w.state IN ('queued', 'running') AND w.task_id IS NOT NULL FOR UPDATE) j;

-- name: HasCreatedDisks :one
SELECT EXISTS (SELECT 1 FROM made_disks WHERE vm_id = @vm_id)::boolean;
