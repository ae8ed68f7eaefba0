-- name: LockRequestList :exec
-- Serializes the additions in a project, so that each counts the previous ones.
SELECT pg_advisory_xact_lock(hashtextextended('requests of ' || @project_id::text, 0));

-- name: OpenRequests :one
-- The number of open requests of a user in a project, and the one with the same kind and key; empty: there is none.
SELECT count(*)::bigint AS total, COALESCE(max(r.id) FILTER (WHERE r.kind = @kind AND r.key = @key), '')::text AS same
FROM requests r WHERE r.project_id = @project_id AND r.user_id = @user_id::text AND r.state = 'open';

-- name: AddRequest :exec
INSERT INTO requests (id, project_id, user_id, requested_by, kind, name, reason, wanted, input, key)
VALUES (@id, @project_id, @user_id, @requested_by, @kind, @name, @reason, @wanted, sqlc.narg(input), @key);

-- name: RenewRequest :execrows
-- Replaces an open request by a newer one of the same kind and key, of which channels are notified again.
UPDATE requests SET name = @name, reason = @reason, wanted = @wanted, input = sqlc.narg(input), generation = generation + 1, created_at = now(), notified = false
WHERE id = @id AND state = 'open';

-- name: LockRequest :one
SELECT r.id, r.project_id, p.name AS project_name, r.user_id, r.requested_by, r.kind, r.name, r.wanted, r.input, r.generation, r.state, r.decided_by
FROM requests r JOIN projects p ON p.id = r.project_id WHERE r.id = @id FOR UPDATE OF r;

-- name: DecideRequest :exec
UPDATE requests SET state = @state, decided_at = now(), decided_by = @decided_by, comment = @comment, result = @result, input = NULL, notified = @state::text = 'withdrawn'
WHERE id = @id;

-- name: ExpireRequests :many
-- Ends open requests that nobody decided.
UPDATE requests SET state = 'expired', decided_at = now(), input = NULL, notified = false
WHERE id IN (SELECT o.id FROM requests o WHERE o.state = 'open' AND o.created_at < now() - @age::interval ORDER BY o.created_at LIMIT @most FOR UPDATE SKIP LOCKED)
RETURNING id, project_id, name;

-- name: SweepRequests :execrows
DELETE FROM requests WHERE id IN (SELECT o.id FROM requests o WHERE o.state <> 'open' AND o.created_at < now() - @age::interval ORDER BY o.created_at LIMIT @most);

-- name: RequestsToNotify :many
-- New and decided requests that no channel was notified about.
SELECT r.id, r.project_id, p.name AS project_name, r.user_id, r.requested_by, r.kind, r.name, r.reason, r.state, r.created_at, r.decided_at, r.decided_by, r.comment
FROM requests r JOIN projects p ON p.id = r.project_id WHERE NOT r.notified ORDER BY r.id LIMIT @most FOR UPDATE OF r;

-- name: MarkRequestsNotified :exec
UPDATE requests SET notified = true WHERE id = ANY (@ids::text[]);

-- name: LockQuota :one
-- The project's limits. Requests that make the project use more wait until the transaction ends.
SELECT limits FROM project_quotas WHERE project_id = @project_id FOR UPDATE;

-- name: VMUse :one
-- What a VM uses of its project's quota, as a quota.Usage.
SELECT jsonb_build_object('vms', 1, 'runningVms', u.running, 'cpus', u.cpus, 'memoryMiB', u.memory_mib, 'diskBytes', u.disk_bytes, 'nics', u.nics,
    'hostDevices', u.host_devices, 'gpus', u.gpus, 'pools', u.pools)::jsonb AS used FROM vm_use u WHERE u.vm_id = @vm_id;
