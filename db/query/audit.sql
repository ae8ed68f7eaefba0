-- name: AddAudit :exec
INSERT INTO audit (actor, user_id, address, action, subject, name, detail)
VALUES (@actor, @user_id, @address, @action, @subject, @name, @detail);

-- name: RotateAuditPartitions :exec
-- Retains the current month and @months complete months before it. It waits for writers for at most a second.
WITH patience AS MATERIALIZED (SELECT set_config('lock_timeout', '1s', true))
SELECT keep_audit(@months::integer) FROM patience;
