-- name: GetQuota :one
-- The project's limits; no row: it has none.
SELECT limits FROM project_quotas WHERE project_id = @project_id;

-- name: SetQuota :exec
-- Replaces the limits. A concurrent request that makes the project use more waits, or has been counted.
INSERT INTO project_quotas (project_id, limits, changed_by) VALUES (@project_id, @limits, @changed_by)
ON CONFLICT (project_id) DO UPDATE SET limits = EXCLUDED.limits, changed_by = EXCLUDED.changed_by, changed_at = now();

-- name: DropQuota :exec
DELETE FROM project_quotas WHERE project_id = @project_id;

-- name: ProjectUse :one
-- What a project uses, as a quota.Usage.
SELECT project_use(@project_id::text)::jsonb AS used;

-- name: ProjectUses :many
-- What projects use, with their limits.
SELECT p.id AS project_id, project_use(p.id)::jsonb AS used, COALESCE(q.limits, '{}')::jsonb AS limits
FROM projects p LEFT JOIN project_quotas q ON q.project_id = p.id WHERE p.id = ANY (@ids::text[]);

-- name: CheckQuota :exec
-- Refuses what would exceed the quota when it is added: see check_quota. Other requests of the project wait until the
-- transaction ends.
SELECT check_quota(@project_id::text, @grown::jsonb, true);

-- name: QuotaExcess :one
-- The limits that would be exceeded when this is added, as a list of quota.Excess: see quota_excess.
SELECT COALESCE(quota_excess(@project_id::text, @grown::jsonb, true), '[]')::jsonb AS over;

-- name: RecountUse :one
-- Corrects what is counted wrongly of the first VMs after an ID. Last is the last of these VMs; empty: there are none.
-- Wrong has the projects that are corrected.
SELECT COALESCE(r.last, '')::text AS last, r.wrong::text[] AS wrong FROM recount_vm_use(@after::text, @most::integer) r;

-- name: SkipQuota :exec
-- Makes the transaction check no quota, because what a host reports is no request.
SELECT set_config('quantix.quota', 'off', true);
