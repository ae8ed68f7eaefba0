-- name: AddAudit :exec
INSERT INTO audit (actor, user_id, address, action, subject, name, detail)
VALUES (@actor, @user_id, @address, @action, @subject, @name, @detail);

-- name: KeepAudit :exec
-- Keeps the current month and @months full months before it. Waits at most a second for writers.
WITH patience AS MATERIALIZED (SELECT set_config('lock_timeout', '1s', true))
SELECT keep_audit(@months::integer) FROM patience;
